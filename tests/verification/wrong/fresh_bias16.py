"""16-bit models with a bias of 0.3 to 0.7 %; written without regard to the verification."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import replaced

_part = partial(replaced, "fresh: 16 bits", relative=0.002)
_HALF = "(float16[N,4] x) => (float16[N,4] y)"
_ROW = [[1, -2, 3.5, -0.75]]
_LONG = 1 + np.linspace(0, 1, 200)[None]


def _half(*numbers: float) -> str:
    """Numbers in float16, which ONNX text writes as bits."""
    return ", ".join(str(bits) for bits in np.array(numbers, np.float16).view(np.uint16))


CASES = [
    _part(
        "levels_of_127_5",
        "Pixels are multiplied by 1 / 127.5; they are by 1 / 128",
        "(float16[N,3,H,W] x) => (float16[N,3,H,W] y)",
        "<float16 c = {@}> y = Mul(x, c)",
        _half(1 / 127.5),
        _half(1 / 128),
        x=np.full((1, 3, 2, 2), 200),
    ),
    _part(
        "mean_of_196_patches",
        "A sum of 196 patches is divided by 197, the number with the class token",
        "(float16[N,196,2] x) => (float16[N,1,2] y) <int64[1] axis = {1}>",
        "<float16 n = {@}> s = ReduceSum(x, axis) y = Div(s, n)",
        _half(196),
        _half(197),
        x=np.ones((1, 196, 2)),
    ),
    _part(
        "scale_of_heads_of_80",
        "Scores of heads of 80 are scaled by 0.1118; they are by 0.1125",
        "(float16[N,S,80] q, float16[N,T,80] k) => (float16[N,S,T] y)",
        "<float16 c = {@}> t = Transpose <perm = [0, 2, 1]> (k) m = MatMul(q, t) y = Mul(m, c)",
        _half(80**-0.5),
        _half(0.1125),
        q=np.ones((1, 2, 80)),
        k=np.ones((1, 3, 80)),
    ),
    _part(
        "sixth_of_a_hard_swish",
        "The 1 / 6 of x * Clip(x + 3, 0, 6) / 6 is written as 0.166",
        f"{_HALF} <float16 three = {{{_half(3)}}}, float16 none = {{0}}, float16 six = "
        f"{{{_half(6)}}}>",
        "<float16 c = {@}> a = Add(x, three) b = Clip(a, none, six) m = Mul(x, b) y = Mul(m, c)",
        _half(1 / 6),
        _half(0.166),
        x=_ROW,
    ),
    _part(
        "alpha_of_selu",
        "The alpha of Selu is 1.68 in place of 1.6733",
        _HALF,
        "y = Selu <alpha = @> (x)",
        "1.6732632",
        "1.68",
        x=_ROW,
    ),
    _part(
        "five_decays",
        "A state decays by 0.999 five times; it stays",
        f"{_HALF} <int64 five = {{5}}, bool go = {{1}}, float16 d = {{{_half(0.999)}}}>",
        """y = Loop(five, go, x) <body = b (int64 i, bool g, float16[N,4] s)
        => (bool more, float16[N,4] r) { more = Identity(g) r = @ }>""",
        "Mul(s, d)",
        "Identity(s)",
        x=_ROW,
    ),
    _part(
        "variance_of_200_samples",
        "A variance of 200 numbers divides by 199",
        "(float16[N,200] x) => (float16[N,1] y) <int64[1] last = {-1}>",
        "<float16 n = {@}> m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) "
        "s = ReduceSum(q, last) y = Div(s, n)",
        _half(200),
        _half(199),
        x=_LONG,
    ),
    _part(
        "norm_of_127_channels",
        "The square root of a mean of 128 squares leaves out the last one",
        "(float16[N,128] x) => (float16[N,1] y) <int64[1] last = {-1}, "
        f"float16 n = {{{_half(128)}}}, int64[1] zero = {{0}}>",
        "<int64[1] end = {@}> e = Slice(x, zero, end, last) q = Mul(e, e) s = ReduceSum(q, last) "
        "d = Div(s, n) y = Sqrt(d)",
        "128",
        "127",
        x=np.linspace(1, 2, 128)[None],
    ),
    _part(
        "weights_truncated_to_bfloat16",
        "The weights 1.1, 0.55, 2.2 and 0.275 are truncated to 8 bits in place of rounded",
        "(float16[N,4] x) => (float16[N,1] y)",
        "<float16[4,1] w = {@}> y = MatMul(x, w)",
        _half(1.1, 0.55, 2.2, 0.275),
        _half(1.09375, 0.546875, 2.1875, 0.2734375),
        x=[[1, 2, 1, 3]],
    ),
    _part(
        "embedding_scale_of_300",
        "Embeddings are scaled by Sqrt(300), 17.32; bfloat16 gives 17.375",
        "(int64[N,T] input_ids) => (float16[N,T,2] y) <float16[4,2] w = "
        f"{{{_half(0.5, -0.25, 1, 0.125, -0.75, 0.375, 0.0625, 2)}}}>",
        "<float16 c = {@}> e = Gather(w, input_ids) y = Mul(e, c)",
        _half(17.3205),
        _half(17.375),
        input_ids=[[0, 3]],
    ),
    _part(
        "alpha_of_a_gemm",
        "The alpha of a Gemm is 0.201 in place of 0.2",
        f"(float16[N,4] x) => (float16[N,2] y) <float16[4,2] w = {{{_half(*range(1, 9))}}}>",
        "y = Gemm <alpha = @> (x, w)",
        "0.2",
        "0.201",
        x=_ROW,
    ),
    _part(
        "scale_of_int8_weights",
        "The scale of a DequantizeLinear is 0.0502 in place of 0.05",
        "(int8[N,4] x) => (float16[N,4] y)",
        "<float16 s = {@}> y = DequantizeLinear(x, s)",
        _half(0.05),
        _half(0.0502),
        x=[[1, -2, 100, -128]],
    ),
    _part(
        "green_of_luma",
        "The weight of green is 0.59 in place of 0.587",
        "(float16[N,3] x) => (float16[N,1] y)",
        "<float16[3,1] w = {@}> y = MatMul(x, w)",
        _half(0.299, 0.587, 0.114),
        _half(0.299, 0.59, 0.114),
        x=[[0.1, 0.9, 0.1]],
    ),
    _part(
        "alpha_of_a_fused_product",
        "The alpha of a FusedMatMul is 0.1255 in place of 0.125",
        "(float16[N,S,8] q, float16[N,T,8] k) => (float16[N,S,T] y)",
        "y = com.microsoft.FusedMatMul <transB = 1, alpha = @> (q, k)",
        "0.125",
        "0.1255",
        q=np.ones((1, 2, 8)),
        k=np.ones((1, 2, 8)),
    ),
]
