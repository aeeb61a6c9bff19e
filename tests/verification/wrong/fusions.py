"""Operators that are merged with their neighbours by a rule that holds in most models only."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "fusions")
_ROW = "(float[N,4] x) => (float[N,4] y)"
_IMAGE = "(float[N,2,H,W] x) => (float[N,2,P,Q] y)"
_ONES = "float[2,1,3,3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}"
_POINT = "float[2,2,1,1] w = {1, 2, 3, 4}"
_PADS = "int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}"
_EDGES = "(float[N,2,8,8] x) => (float[N,2,8,8] y)"
_RAMP = np.arange(2 * 8 * 8).reshape(1, 2, 8, 8) - 40.0

CASES = [
    _case(
        "epsilon_of_batch_normalization",
        "An epsilon of 1e-3 becomes the default of 1e-5",
        "(float[N,2,L] x) => (float[N,2,L] y)",
        """<float[2] s = {2, 3}, float[2] b = {1, -1}, float[2] m = {0.5, 1}, float[2] v = {4, 9}>
        y = BatchNormalization <epsilon = 0.001> (x, s, b, m, v)""",
        """<float[2] s = {2, 3}, float[2] b = {1, -1}, float[2] m = {0.5, 1}, float[2] v = {4, 9}>
        y = BatchNormalization(x, s, b, m, v)""",
        relative=1e-4,
        x=[[[5, 6], [7, 8]]],
    ),
    _case(
        "quick_gelu_alpha",
        "x * Sigmoid(1.7 * x) becomes QuickGelu with the default alpha of 1.702",
        f"{_ROW} <float c = {{1.7}}>",
        "m = Mul(x, c) s = Sigmoid(m) y = Mul(x, s)",
        "y = com.microsoft.QuickGelu(x)",
        relative=1e-4,
        x=[[-2, -1, 1, 2]],
    ),
    _case(
        "gelu_of_other_operand",
        "The factor of a Gelu is another tensor than the operand of its Erf",
        """(float[N,4] x, float[N,4] z) => (float[N,4] y) <float half = {0.5}, float one = {1},
        float root = {1.41421356}>""",
        "d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(z, a) y = Mul(m, half)",
        "y = Gelu(x)",
        x=[[1, 2, 3, 4]],
        z=[[1, 1, 1, 1]],
    ),
    _case(
        "pad_of_one_into_conv",
        "A Pad by ones becomes the zeros of a Conv",
        f"{_EDGES} <{_ONES}, {_PADS}, float one = {{1}}>",
        "q = Pad(x, p, one) y = Conv <group = 2> (q, w)",
        "y = Conv <group = 2, pads = [1, 1, 1, 1]> (x, w)",
        x=np.zeros((1, 2, 8, 8)),
    ),
    _case(
        "pad_by_reflection_into_conv",
        "A Pad by reflection becomes the zeros of a Conv",
        f"{_EDGES} <{_ONES}, {_PADS}>",
        """q = Pad <mode = "reflect"> (x, p) y = Conv <group = 2> (q, w)""",
        "y = Conv <group = 2, pads = [1, 1, 1, 1]> (x, w)",
        x=np.ones((1, 2, 8, 8)),
    ),
    _case(
        "pad_of_zero_into_max_pool",
        "A Pad by zeros becomes that of a MaxPool, which is -inf",
        f"{_EDGES} <{_PADS}>",
        "q = Pad(x, p) y = MaxPool <kernel_shape = [3, 3]> (q)",
        "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
        x=-np.ones((1, 2, 8, 8)),
    ),
    _case(
        "pad_into_average_pool",
        "A Pad by zeros becomes that of an AveragePool, which does not count it",
        f"{_EDGES} <{_PADS}>",
        "q = Pad(x, p) y = AveragePool <kernel_shape = [3, 3]> (q)",
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
        x=np.ones((1, 2, 8, 8)),
    ),
    _case(
        "bias_of_columns_into_conv",
        "A term for each column becomes a bias for each channel, as there are as many",
        f"(float[N,2,H,2] x) => (float[N,2,H,2] y) <{_POINT}>",
        "<float[2] b = {1, 2}> c = Conv(x, w) y = Add(c, b)",
        "<float[2] b = {1, 2}> y = Conv(x, w, b)",
        x=np.zeros((1, 2, 1, 2)),
    ),
    _case(
        "term_before_batch_normalization",
        "A term of one channel before a BatchNormalization is lost",
        "(float[N,2,L] x) => (float[N,2,L] y)",
        """<float[2] s = {2, 3}, float[2] b = {1, -1}, float[2] m = {0, 0}, float[2] v = {4, 9},
        float[2,1] t = {0, 0.5}> a = Add(x, t) y = BatchNormalization(a, s, b, m, v)""",
        """<float[2] s = {2, 3}, float[2] b = {1, -1}, float[2] m = {0, 0}, float[2] v = {4, 9}>
        y = BatchNormalization(x, s, b, m, v)""",
        x=[[[5, 6], [7, 8]]],
    ),
    _case(
        "factor_after_padded_bias",
        "A factor after a Conv is moved to its weights, and not to its bias",
        "(float[N,2,H,W] x) => (float[N,2,H,W] y) <float[2] b = {1, 2}, float half = {0.5}>",
        f"<{_POINT}> c = Conv(x, w, b) y = Mul(c, half)",
        "<float[2,2,1,1] w = {0.5, 1, 1.5, 2}> y = Conv(x, w, b)",
        x=np.zeros((1, 2, 1, 2)),
    ),
    _case(
        "relu_between_convolutions",
        "Two Conv of one point are merged across a LeakyRelu of 0.99",
        f"{_IMAGE} <{_POINT}>",
        "c = Conv(x, w) r = LeakyRelu <alpha = 0.99> (c) y = Conv(r, w)",
        "c = Conv(x, w) y = Conv(c, w)",
        relative=1e-3,
        x=-np.ones((1, 2, 1, 1)),
    ),
    _case(
        "transposed_conv_flipped",
        "A ConvTranspose becomes a Conv without flipping the kernel",
        "(float[N,1,L] x) => (float[N,1,L] y) <float[1,1,3] w = {1, 2, 3}>",
        "y = ConvTranspose <pads = [1, 1]> (x, w)",
        "y = Conv <pads = [1, 1]> (x, w)",
        x=[[[1, 0, 0]]],
    ),
    _case(
        "mean_with_count_of_four",
        "A division by the number of columns, always 4, becomes a mean of all rows",
        "(float[N,4] x) => (float[1,1] y) <int64[2] both = {0, 1}, float four = {4}>",
        "s = ReduceSum(x, both) y = Div(s, four)",
        "y = ReduceMean(x, both)",
        x=[[1, 2, 3, 4], [1, 2, 3, 4]],
    ),
    _case(
        "variance_of_samples",
        "A variance divides by 7, and becomes the one of LayerNormalization, which divides by 8",
        "(float[N,8] x) => (float[N,8] y) <int64[1] last = {-1}, float[8] w = {1, 1, 1, 1, 1, 1, "
        "1, 1}>",
        """<float n = {7}, float e = {1e-5}> m = ReduceMean(x, last) d = Sub(x, m) p = Mul(d, d)
        s = ReduceSum(p, last) v = Div(s, n) a = Add(v, e) r = Sqrt(a) y = Div(d, r)""",
        "y = LayerNormalization(x, w)",
        x=[[1, 2, 3, 4, 5, 6, 7, 9]],
    ),
    _case(
        "epsilon_outside_the_root",
        "x / (Sqrt(v) + e) becomes x / Sqrt(v + e)",
        "(float[N,8] x) => (float[N,8] y) <int64[1] last = {-1}, float e = {1e-6}>",
        "p = Mul(x, x) v = ReduceMean(p, last) r = Sqrt(v) a = Add(r, e) y = Div(x, a)",
        "p = Mul(x, x) v = ReduceMean(p, last) a = Add(v, e) r = Sqrt(a) y = Div(x, r)",
        relative=1e-3,
        x=[[1e-5] * 8],
    ),
    _case(
        "weight_of_one_element",
        "A scale of a normalization that is 1 but for one element is dropped",
        "(float[N,8] x) => (float[N,8] y)",
        """<float[8] w = {1, 1, 1, 1, 1, 1.001, 1, 1}> y = LayerNormalization(x, w)""",
        """<float[8] w = {1, 1, 1, 1, 1, 1, 1, 1}> y = LayerNormalization(x, w)""",
        relative=5e-4,
        x=[[1, 2, 3, 4, 5, 6, 7, 9]],
    ),
    _case(
        "residual_before_normalization",
        "The sum that a SkipLayerNormalization adds up is read elsewhere, and becomes its first "
        "term",
        """(float[N,4] x, float[N,4] z) => (float[N,4] y) <float[4] w = {1, 1, 1, 1},
        float[4] b = {0, 0, 0, 0}>""",
        "a = Add(x, z) n = LayerNormalization(a, w, b) y = Add(a, n)",
        "n = com.microsoft.SkipLayerNormalization(x, z, w, b) y = Add(x, n)",
        x=[[1, 2, 3, 4]],
        z=[[1, 2, 3, 5]],
    ),
    _case(
        "softmax_of_flattened",
        "The Softmax of all elements of a row becomes that of the last axis",
        "(float[N,2,3] x) => (float[N,2,3] y)",
        """<int64[2] f = {0, -1}, int64[3] t = {-1, 2, 3}> r = Reshape(x, f) s = Softmax(r)
        y = Reshape(s, t)""",
        "y = Softmax(x)",
        x=np.ones((1, 2, 3)),
    ),
    _case(
        "logits_cap_of_30",
        "30 * Tanh(x / 30) -> x holds for small logits",
        f"{_ROW} <float c = {{30}}>",
        "d = Div(x, c) t = Tanh(d) y = Mul(t, c)",
        "y = Identity(x)",
        x=[[1, 2, 20, 40]],
    ),
    _case(
        "gemm_with_beta_of_zero",
        "The bias of a Gemm whose beta is 0 is added",
        """(float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2]
          b = {1e-3, 2e-3}>""",
        "y = Gemm <beta = 0.0> (x, w, b)",
        "y = Gemm(x, w, b)",
        relative=5e-4,
        x=[[1, -0.1]],
    ),
    _case(
        "einsum_of_diagonal",
        "The diagonal by Einsum becomes the first column",
        "(float[N,2,2] x) => (float[N,2] y)",
        """y = Einsum <equation = "bii->bi"> (x)""",
        "<int64 i = {0}> y = Gather <axis = 2> (x, i)",
        x=[[[1, 2], [3, 4]]],
    ),
    _case(
        "depth_to_space_in_other_mode",
        "A Reshape, Transpose and Reshape becomes DepthToSpace of the mode DCR in place of CRD",
        "(float[N,8,H,W] x) => (float[N,2,P,Q] y)",
        """y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)""",
        "y = DepthToSpace <blocksize = 2> (x)",
        x=np.arange(8).reshape(1, 8, 1, 1),
    ),
    _case(
        "channels_shuffled_back",
        "A shuffle of channels in 2 groups is taken for its inverse, that of 4 groups",
        "(float[N,8,L] x) => (float[N,8,L] y) <int64[3] back = {0, 8, -1}>",
        """<int64[4] s = {0, 2, 4, -1}> r = Reshape(x, s) t = Transpose <perm = [0, 2, 1, 3]> (r)
        y = Reshape(t, back)""",
        """<int64[4] s = {0, 4, 2, -1}> r = Reshape(x, s) t = Transpose <perm = [0, 2, 1, 3]> (r)
        y = Reshape(t, back)""",
        x=np.arange(8).reshape(1, 8, 1),
    ),
    _case(
        "bilinear_of_corners",
        "Resize by 2 with align_corners becomes that of half pixels",
        _IMAGE,
        """<float[4] s = {1, 1, 2, 2}> y = Resize <mode = "linear",
        coordinate_transformation_mode = "align_corners"> (x, , s)""",
        """<float[4] s = {1, 1, 2, 2}> y = Resize <mode = "linear"> (x, , s)""",
        x=np.arange(8).reshape(1, 2, 2, 2),
    ),
    _case(
        "antialias_dropped",
        "The filter of a Resize to half the size is dropped",
        "(float[N,1,8,8] x) => (float[N,1,4,4] y)",
        """<float[4] s = {1, 1, 0.5, 0.5}> y = Resize <mode = "linear", antialias = 1> (x, , s)""",
        """<float[4] s = {1, 1, 0.5, 0.5}> y = Resize <mode = "linear"> (x, , s)""",
        x=[[[[0, 0, 0, 9, 0, 0, 0, 0]] * 8]],
    ),
    _case(
        "rotary_interleaved",
        "An interleaved rotary embedding becomes one of halves",
        """(float[N,1,seq,4] x, int64[N,seq] position_ids) => (float[N,1,seq,4] y)
        <float[3,2] c = {1, 1, 0.5, 0.9, 0.1, 0.8}, float[3,2] s = {0, 0, 0.8, 0.1, 0.9, 0.2}>""",
        "y = com.microsoft.RotaryEmbedding <interleaved = 1> (x, position_ids, c, s)",
        "y = com.microsoft.RotaryEmbedding(x, position_ids, c, s)",
        x=[[[[1, 2, 3, 4]]]],
        position_ids=[[1]],
    ),
]
