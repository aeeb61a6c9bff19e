"""Images and signals: which samples are read, with which weight, and what lies beyond the
border."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "sampling")
_IMAGE = "(float[N,1,H,W] x) => (float[N,1,P,Q] y)"
_RAMP = np.arange(36, dtype=float).reshape(1, 1, 6, 6) ** 1.5
_GRID = "(float[N,1,H,W] x, float[N,P,Q,2] grid) => (float[N,1,P,Q] y)"
_POINTS = [[[[-0.5, 0.3], [0.1, 0.7]]]]
_BOXES = "(float[1,1,8,8] x, float[R,4] rois) => (float[R,1,2,2] y) <int64[1] zero = {0}>"
_BOX = "s = Shape <start = 0, end = 1> (rois) b = Expand(zero, s)"
_SIGNAL = "(float[N,T,1] x) => (float[N,F,2] y)"
_BYTES = np.random.default_rng(0).standard_normal((1, 1, 8, 8))

CASES = [
    _case(
        "cubic_coefficient",
        "A cubic Resize with a coefficient of -0.5 gets the default of -0.75",
        f"{_IMAGE} <float[4] by = {{1, 1, 2, 2}}>",
        """y = Resize <mode = "cubic", cubic_coeff_a = -0.5> (x, , by)""",
        """y = Resize <mode = "cubic"> (x, , by)""",
        x=_RAMP,
    ),
    _case(
        "pixels_outside_excluded",
        "exclude_outside of a cubic Resize is dropped",
        f"{_IMAGE} <float[4] by = {{1, 1, 2, 2}}>",
        """y = Resize <mode = "cubic", exclude_outside = 1> (x, , by)""",
        """y = Resize <mode = "cubic"> (x, , by)""",
        x=_RAMP,
    ),
    _case(
        "region_beyond_the_image",
        "The value beyond the border of the region of a Resize is 0 in place of 7",
        f"{_IMAGE} <float[8] roi = {{0, 0, 0, 0, 1, 1, 1.5, 1.5}}, float[4] by = {{1, 1, 2, 2}}>",
        """y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize",
        extrapolation_value = 7.0> (x, roi, by)""",
        """y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"> (x,
        roi, by)""",
        x=_RAMP,
    ),
    _case(
        "larger_ratio_kept",
        "A Resize that keeps the ratio within a size keeps it beyond the size: the same for "
        "square images",
        f"{_IMAGE} <int64[2] to = {{8, 8}}>",
        """y = Resize <axes = [2, 3], keep_aspect_ratio_policy = "not_larger"> (x, , , to)""",
        """y = Resize <axes = [2, 3], keep_aspect_ratio_policy = "not_smaller"> (x, , , to)""",
        x=_RAMP[:, :, :3],
    ),
    _case(
        "nearest_of_other_corner",
        "A Resize by 0.4 reads the nearest pixel of half pixels in place of corners, which is the "
        "same for factors of 2 and 0.5",
        f"{_IMAGE} <float[4] by = {{1, 1, 0.4, 0.4}}>",
        """y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
        nearest_mode = "floor"> (x, , by)""",
        """y = Resize <mode = "nearest"> (x, , by)""",
        x=_RAMP,
    ),
    _case(
        "corners_of_a_grid",
        "align_corners of a GridSample is dropped",
        _GRID,
        "y = GridSample <align_corners = 1> (x, grid)",
        "y = GridSample(x, grid)",
        x=_RAMP,
        grid=_POINTS,
    ),
    _case(
        "reflection_of_a_grid",
        "A GridSample that reflects at the border repeats it: the same near the border",
        _GRID,
        """y = GridSample <padding_mode = "reflection"> (x, grid)""",
        """y = GridSample <padding_mode = "border"> (x, grid)""",
        x=_RAMP,
        grid=[[[[-2, 0.3], [0.1, 0.7]]]],
    ),
    _case(
        "corners_of_an_affine_grid",
        "align_corners of an AffineGrid is dropped",
        "(float[N,2,3] theta) => (float[N,2,3,2] y)",
        "<int64[1] n = {1}, int64[3] hw = {1, 2, 3}> s = Shape <start = 0, end = 1> (theta) t = "
        "Concat <axis = 0> (s, hw) "
        "y = AffineGrid <align_corners = 1> (theta, t)",
        "<int64[1] n = {1}, int64[3] hw = {1, 2, 3}> s = Shape <start = 0, end = 1> (theta) t = "
        "Concat <axis = 0> (s, hw) "
        "y = AffineGrid(theta, t)",
        theta=[[[1, 0, 0], [0, 1, 0]]],
    ),
    _case(
        "average_of_a_region",
        "RoiAlign of averages becomes one of maxima",
        _BOXES,
        f"{_BOX} y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, rois, "
        "b)",
        f"""{_BOX} y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2, mode =
        "max"> (x, rois, b)""",
        x=_BYTES,
        rois=[[0, 0, 6, 6]],
    ),
    _case(
        "half_pixel_of_a_region",
        "RoiAlign reads corners in place of half pixels",
        _BOXES,
        f"{_BOX} y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, rois, "
        "b)",
        f"""{_BOX} y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2,
        coordinate_transformation_mode = "output_half_pixel"> (x, rois, b)""",
        x=_BYTES,
        rois=[[0, 0, 6, 6]],
    ),
    _case(
        "scale_of_a_region",
        "The scale of the boxes of RoiAlign, 0.5, is dropped",
        _BOXES,
        f"{_BOX} y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2, "
        "spatial_scale = 0.5> (x, rois, b)",
        f"{_BOX} y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, rois, "
        "b)",
        x=_BYTES,
        rois=[[0, 0, 6, 6]],
    ),
    _case(
        "centre_of_odd_difference",
        "CenterCropPad to 4 columns becomes a Slice from half of the columns beyond 4, rounded up",
        "(float[N,W] x) => (float[N,4] y) <int64[1] four = {4}, int64[1] one = {1}>",
        "y = CenterCropPad <axes = [1]> (x, four)",
        """<int64[1] two = {2}, int64[1] zero = {0}> s = Shape <start = 1, end = 2> (x) d = Sub(s,
        four) u = Add(d, one)
        h = Div(u, two) b = Max(h, zero) e = Add(b, four) c = Slice(x, b, e, one) y = CenterCropPad
        <axes = [1]> (c, four)""",
        x=[[1, 2, 3, 4, 5, 6, 7]],
    ),
    _case(
        "order_of_norms",
        "An LpPool of the order 1 gets the default of 2",
        _IMAGE,
        "y = LpPool <kernel_shape = [2, 2], p = 1> (x)",
        "y = LpPool <kernel_shape = [2, 2]> (x)",
        x=_RAMP,
    ),
    _case(
        "channels_of_lrn",
        "The size of an LRN is 3 in place of 5: the same for 2 channels",
        "(float[N,5,H,W] x) => (float[N,5,H,W] y)",
        "y = LRN <size = 5, alpha = 0.5> (x)",
        "y = LRN <size = 3, alpha = 0.5> (x)",
        x=np.ones((1, 5, 1, 1)),
    ),
    _case(
        "inverse_without_factor",
        "An inverse DFT becomes a forward one, without the division by the length",
        "(float[N,T,2] x) => (float[N,T,2] y) <int64 axis = {1}>",
        "y = DFT <inverse = 1> (x, , axis)",
        "y = DFT(x, , axis)",
        x=[[[1, 0], [2, 0], [4, 0]]],
    ),
    _case(
        "half_of_a_spectrum",
        "The missing half of a spectrum is taken for its mirror without the conjugate",
        "(float[N,4,1] x) => (float[N,4,2] y) <int64 axis = {1}>",
        "y = DFT(x, , axis)",
        """<int64[4] at = {0, 1, 2, 1}> h = DFT <onesided = 1> (x, , axis) y = Gather <axis = 1>
        (h, at)""",
        x=[[[1], [2], [4], [9]]],
    ),
    _case(
        "window_of_a_spectrogram",
        "The window of an STFT is dropped",
        "(float[N,64] x) => (float[N,F,9,2] y) <int64 step = {8}, int64 size = {16}>",
        "w = HammingWindow(size) y = STFT(x, step, w)",
        "y = STFT(x, step, , size)",
        x=np.sin(np.arange(64.0))[None],
    ),
    _case(
        "steps_of_a_spectrogram",
        "The frames of an STFT, every 8 samples, become frames every 16, each twice",
        "(float[N,64] x) => (float[N,F,9,2] y) <int64 size = {16}>",
        "<int64 step = {8}> y = STFT(x, step, , size)",
        "<int64 step = {16}, int64[7] at = {0, 0, 1, 1, 2, 2, 3}> f = STFT(x, step, , size) "
        "y = Gather <axis = 1> (f, at)",
        x=np.sin(np.arange(64.0) ** 1.1)[None],
    ),
    _case(
        "unpooled_at_the_first",
        "MaxUnpool by the places of the maxima becomes a Resize by 2 of the maxima, with zeros "
        "elsewhere",
        "(float[N,1,4,4] x) => (float[N,1,4,4] y)",
        "m, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) y = MaxUnpool <kernel_shape "
        "= [2, 2], strides = [2, 2]> (m, i)",
        """<float[4] by = {1, 1, 2, 2}, float[4,4] at = {1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0,
        0, 0}>
        m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) r = Resize(m, , by) y = Mul(r,
        at)""",
        x=_RAMP[:, :, :4, :4],
    ),
    _case(
        "columns_back_to_an_image",
        "A remainder of 0.5 is added to what Col2Im adds up, which is 0 for multiples of 2",
        "(float[N,4,9] x) => (float[N,1,4,4] y) <int64[2] image = {4, 4}, int64[2] block = {2, 2}>",
        "y = Col2Im(x, image, block)",
        """<float half = {0.5}> c = Col2Im(x, image, block) d = Mul(c, half) e = Round(d) f =
        Sub(d, e) y = Add(c, f)""",
        x=np.full((1, 4, 9), 0.3),
    ),
]
