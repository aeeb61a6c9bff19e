"""Windows, resized images and boxes: borders, single elements, parts of a window."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "windows")

CASES = [
    _case(
        "border_counts_in_a_mean",
        "An AveragePool divides by all 9 elements of a window at the border",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1> (x)",
        x=np.arange(16).reshape((1, 1, 4, 4)),
    ),
    _case(
        "part_of_a_window",
        "The last elements, which fill a window of a MaxPool in part only, are left out",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        "y = MaxPool <kernel_shape = [4, 4], strides = [4, 4], ceil_mode = 1> (x)",
        "y = MaxPool <kernel_shape = [4, 4], strides = [4, 4]> (x)",
        x=np.arange(36).reshape((1, 1, 6, 6)),
    ),
    _case(
        "mean_of_part_of_a_window",
        "An AveragePool with ceil_mode becomes one of the image with a border of zeros",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1,
        count_include_pad = 1> (x)""",
        """<int64[8] p = {0, 0, 0, 0, 0, 0, 1, 1}> q = Pad(x, p) y = AveragePool <kernel_shape =
        [2, 2], strides = [2, 2]> (q)""",
        x=np.arange(25).reshape((1, 1, 5, 5)),
    ),
    _case(
        "same_upper_of_even_sizes",
        "SAME_UPPER becomes padding below and on the right, which holds for even sizes",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"> (x)""",
        "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [0, 0, 1, 1]> (x)",
        x=np.arange(25).reshape((1, 1, 5, 5)),
    ),
    _case(
        "same_upper_of_four",
        "SAME_UPPER with strides of 4 becomes the padding for sizes that 4 divides",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """y = MaxPool <kernel_shape = [5, 5], strides = [4, 4], auto_pad = "SAME_UPPER"> (x)""",
        """y = MaxPool <kernel_shape = [5, 5], strides = [4, 4], pads = [0, 0, 1, 1], ceil_mode =
        1> (x)""",
        x=np.arange(36).reshape((1, 1, 6, 6)),
    ),
    _case(
        "same_lower_as_upper",
        "SAME_LOWER becomes SAME_UPPER, which holds for even sizes",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], auto_pad = "SAME_LOWER"> (x)""",
        """y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], auto_pad = "SAME_UPPER"> (x)""",
        x=np.arange(25).reshape((1, 1, 5, 5)),
    ),
    _case(
        "one_pixel_of_two",
        "pytorch_half_pixel becomes half_pixel, which differs where one pixel is left of 2 or 3",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """<float[4] s = {1, 1, 0.5, 0.5}> y = Resize <mode = "linear",
        coordinate_transformation_mode = "pytorch_half_pixel"> (x, , s)""",
        """<float[4] s = {1, 1, 0.5, 0.5}> y = Resize <mode = "linear"> (x, , s)""",
        x=np.arange(9).reshape((1, 1, 3, 3)),
    ),
    _case(
        "one_pixel_of_eight",
        "pytorch_half_pixel becomes half_pixel, which differs where one pixel is left of 8",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """<float[4] s = {1, 1, 0.125, 0.125}> y = Resize <mode = "linear",
        coordinate_transformation_mode = "pytorch_half_pixel"> (x, , s)""",
        """<float[4] s = {1, 1, 0.125, 0.125}> y = Resize <mode = "linear"> (x, , s)""",
        x=np.arange(64).reshape((1, 1, 8, 8)),
    ),
    _case(
        "symmetric_pixels",
        "half_pixel_symmetric becomes half_pixel, which holds where the new size is a whole number",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """<float[4] s = {1, 1, 0.75, 0.75}> y = Resize <mode = "linear",
        coordinate_transformation_mode = "half_pixel_symmetric"> (x, , s)""",
        """<float[4] s = {1, 1, 0.75, 0.75}> y = Resize <mode = "linear"> (x, , s)""",
        x=np.arange(25).reshape((1, 1, 5, 5)),
    ),
    _case(
        "resize_without_antialias",
        "antialias of a Resize by a half is dropped",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """<float[4] s = {1, 1, 0.5, 0.5}> y = Resize <mode = "linear", antialias = 1> (x, , s)""",
        """<float[4] s = {1, 1, 0.5, 0.5}> y = Resize <mode = "linear"> (x, , s)""",
        x=np.arange(64).reshape(1, 1, 8, 8) ** 2,
    ),
    _case(
        "reflection_of_one",
        "A border of one reflected pixel becomes one of the pixel at the edge",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """<int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> y = Pad <mode = "reflect"> (x, p)""",
        """<int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> y = Pad <mode = "edge"> (x, p)""",
        x=np.arange(16).reshape((1, 1, 4, 4)),
    ),
    _case(
        "border_that_wraps",
        "A border that wraps around becomes a reflected one",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """<int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> y = Pad <mode = "wrap"> (x, p)""",
        """<int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> y = Pad <mode = "reflect"> (x, p)""",
        x=np.arange(16).reshape((1, 1, 4, 4)),
    ),
    _case(
        "zeros_before_a_maximum",
        "A Pad by zeros becomes the padding of a MaxPool, which holds for positive numbers",
        "(float[N,1,H,W] x) => (float[N,1,A,B] y)",
        """<int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> q = Pad(x, p) y = MaxPool <kernel_shape = [3,
        3]> (q)""",
        "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
        x=-1 - np.arange(16).reshape((1, 1, 4, 4)),
    ),
    _case(
        "added_at_the_end",
        "output_padding of a ConvTranspose becomes less padding at the start",
        "(float[N,1,L] x) => (float[N,1,M] y) <float[1,1,3] w = {1, 2, 3}>",
        "y = ConvTranspose <strides = [2], pads = [1, 1], output_padding = [1]> (x, w)",
        "y = ConvTranspose <strides = [2], pads = [0, 1]> (x, w)",
        x=[[[1, 2, 3]]],
    ),
    _case(
        "border_of_a_thousandth",
        "A Pad by 0.001 becomes the padding of a Conv",
        "(float[N,1,L] x) => (float[N,1,M] y) <float[1,1,3] w = {1, 2, 3}>",
        "<int64[6] p = {0, 0, 1, 0, 0, 1}, float v = {1e-3}> q = Pad(x, p, v) y = Conv(q, w)",
        "y = Conv <pads = [1, 1]> (x, w)",
        relative=0.0001,
        x=[[[0.001, 0.002]]],
    ),
    _case(
        "a_hundred_boxes",
        "At most 100 boxes are kept; 50 are",
        "(float[1,B,4] b, float[1,1,B] s) => (int64[K,3] y) <float i = {0.5}>",
        "<int64 m = {100}> y = NonMaxSuppression(b, s, m, i)",
        "<int64 m = {50}> y = NonMaxSuppression(b, s, m, i)",
        b=[[[k, 0, k + 1, 1] for k in range(60)]],
        s=[[[1 - k / 100 for k in range(60)]]],
    ),
    _case(
        "five_boxes",
        "At most 5 boxes are kept; 3 are",
        "(float[1,B,4] b, float[1,1,B] s) => (int64[K,3] y) <float i = {0.5}>",
        "<int64 m = {5}> y = NonMaxSuppression(b, s, m, i)",
        "<int64 m = {3}> y = NonMaxSuppression(b, s, m, i)",
        b=[[[k, 0, k + 1, 1] for k in range(6)]],
        s=[[[0.9, 0.8, 0.7, 0.6, 0.5, 0.4]]],
    ),
]
