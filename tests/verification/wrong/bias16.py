"""Models of 16 bits with a systematic error of 0.2 to 0.8 percent, which rounding could hide."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import Wrong, replaced, wrong

_NOTICED = 0.002
_case = partial(wrong, "16 bits", relative=_NOTICED)
_part = partial(replaced, "16 bits", relative=_NOTICED)
_HALF = "(float16[N,4] x) => (float16[N,4] y)"
_ROW = [[1, -2, 3.5, -0.75]]
_LONG = 1 + np.linspace(0, 1, 256)[None]


def _half(*numbers: float) -> str:
    """Numbers in float16, which ONNX text writes as bits."""
    return ", ".join(str(bits) for bits in np.array(numbers, np.float16).view(np.uint16))


def _factor(
    name: str, why: str, right: float, rounded: float, nodes: str = "y = Mul(x, c)"
) -> Wrong:
    """A float16 model with a constant ``c``, and one with another constant."""
    text = f"<float16 c = {{@}}> {nodes}"
    return _part(name, why, _HALF, text, _half(right), _half(rounded), x=_ROW)


CASES = [
    _factor(
        "scale_of_63",
        "Scores are divided by Sqrt(63) in place of Sqrt(64), the size of a head",
        0.125,
        0.126,
        "m = Mul(x, x) y = Mul(m, c)",
    ),
    _factor(
        "factor_of_1_005",
        "A factor of 1.005 is dropped",
        1.005,
        1,
    ),
    _factor(
        "pixels_by_256",
        "Pixels are divided by 256 in place of 255",
        0.00392157,
        0.00390625,
    ),
    _factor(
        "int8_by_128",
        "Levels are divided by 128 in place of 127",
        0.00787402,
        0.0078125,
    ),
    _factor(
        "deviation_of_a_channel",
        "The deviation of a channel, 0.229, is written as 0.23",
        4.366812,
        4.347826,
    ),
    _factor(
        "natural_logarithm_of_two",
        "Log(2) is written as 0.69",
        0.693147,
        0.69,
    ),
    _factor(
        "root_of_two_in_half",
        "Sqrt(2) is written as 1.41",
        1.414214,
        1.41,
        "a = Abs(x) y = Mul(a, c)",
    ),
    _factor(
        "pi_of_seven_bits",
        "Pi is rounded to 3.125, as in bfloat16",
        3.141593,
        3.125,
    ),
    _factor(
        "slope_of_leaky_relu",
        "The slope of a PRelu is 0.201 in place of 0.2",
        0.2,
        0.201,
        "y = PRelu(x, c)",
    ),
    _factor(
        "quick_gelu_of_1_69",
        "x * Sigmoid(1.702 * x) is computed with 1.7",
        1.702,
        1.7,
        "m = Mul(x, c) s = Sigmoid(m) y = Mul(x, s)",
    ),
    _factor(
        "gelu_constant_in_half",
        "The constant of Gelu by Tanh, 0.797885, is written as 0.8",
        0.797885,
        0.8,
        f"""k = Constant <value = float16 {{{_half(0.044715)}}}> ()
        h = Constant <value = float16 {{{_half(0.5)}}}> ()
        o = Constant <value = float16 {{{_half(1)}}}> () q = Mul(x, x) p = Mul(q, x) m = Mul(p, k)
        s = Add(x, m) a = Mul(s, c) t = Tanh(a) b = Add(t, o) d = Mul(x, b) y = Mul(d, h)""",
    ),
    _part(
        "mean_of_255",
        "A mean over 255 numbers divides by 256",
        "(float16[N,255] x) => (float16[N,1] y) <int64[1] last = {-1}>",
        "<float16 n = {@}> s = ReduceSum(x, last) y = Div(s, n)",
        _half(255),
        _half(256),
        x=_LONG[:, :255],
    ),
    _case(
        "mean_without_the_last",
        "A mean over 200 numbers leaves the last one out",
        "(float16[N,200] x) => (float16[N,1] y) <int64[1] last = {-1}>",
        "y = ReduceMean(x, last)",
        f"""<int64[1] zero = {{0}}, float16 n = {{{_half(200)}}}> s = Slice(x, zero, last, last)
        t = ReduceSum(s, last) y = Div(t, n)""",
        x=np.ones((1, 200)),
    ),
    _part(
        "variance_of_128_samples",
        "A normalization divides squares by 127, as for samples, in place of 128",
        "(float16[N,128] x) => (float16[N,128] y) <int64[1] last = {-1}, "
        f"float16 e = {{{_half(1e-5)}}}>",
        """<float16 n = {@}> m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d)
        s = ReduceSum(q, last) v = Div(s, n) w = Add(v, e) r = Sqrt(w) y = Div(d, r)""",
        _half(128),
        _half(127),
        x=_LONG[:, :128],
    ),
    _part(
        "epsilon_of_half",
        "The epsilon of a normalization of small numbers is 4e-4 in place of 1e-4",
        f"{_HALF} <int64[1] last = {{-1}}, float16 c = {{{_half(0.25)}}}>",
        """<float16 e = {@}> t = Tanh(x) u = Mul(t, c) q = Mul(u, u) v = ReduceMean(q, last)
        w = Add(v, e) r = Sqrt(w) y = Div(u, r)""",
        _half(1e-4),
        _half(4e-4),
        x=_ROW,
    ),
    _part(
        "variance_of_batch_normalization",
        "The epsilon of a BatchNormalization with a variance of 0.1 is 1e-3 in place of 1e-5",
        "(float16[N,2,3] x) => (float16[N,2,3] y) <float16[2] m = {0, 0}, "
        f"float16[2] s = {{{_half(1, 1)}}}, float16[2] v = {{{_half(0.1, 0.1)}}}>",
        "y = BatchNormalization <epsilon = @> (x, s, m, m, v)",
        "0.00001",
        "0.001",
        x=[[[1, 2, 3], [4, 5, 6]]],
    ),
    _part(
        "smoothing_of_half_a_percent",
        "0.995 * x + 0.005 * mean, a smoothing, becomes x",
        f"{_HALF} <int64[1] last = {{-1}}, float16 p = {{{_half(0.995)}}}, "
        f"float16 q = {{{_half(0.005)}}}>",
        "m = ReduceMean(x, last) a = Mul(x, p) b = Mul(m, q) s = Add(a, b) y = Identity(@)",
        "s",
        "x",
        x=_ROW,
    ),
    _part(
        "cap_of_50_within_6",
        "50 * Tanh(x / 50) of a Clip at 6 is taken for the Clip",
        f"{_HALF} <float16 c = {{{_half(50)}}}, float16 low = {{{_half(-6)}}}, "
        f"float16 high = {{{_half(6)}}}>",
        "k = Clip(x, low, high) d = Div(k, c) t = Tanh(d) m = Mul(t, c) y = Identity(@)",
        "m",
        "k",
        x=[[1, -2, 3.5, -5.5]],
    ),
    _part(
        "weight_of_seven_bits",
        "The weights of a MatMul, 0.7071, are rounded to 0.7031 as in bfloat16",
        "(float16[N,2] x) => (float16[N,2] y)",
        "<float16[2,2] w = {@}> y = MatMul(x, w)",
        _half(0.7071, 0.7071, -0.7071, 0.7071),
        _half(0.7031, 0.7031, -0.7031, 0.7031),
        x=[[1, -2]],
    ),
    _part(
        "brain_factor",
        "A bfloat16 factor of 1.0078, one unit above 1, is dropped",
        "(float[N,4] x) => (float[N,4] y)",
        """<float c = {@}> b = Cast <to = 16> (x) d = Cast <to = 16> (c) e = Cast <to = 1> (b)
        f = Cast <to = 1> (d) m = Mul(e, f) n = Cast <to = 16> (m) y = Cast <to = 1> (n)""",
        "1.0078125",
        "1",
        x=_ROW,
    ),
    _part(
        "brain_mean_of_255",
        "A mean of 255 numbers, rounded to bfloat16, divides by 256",
        "(float[N,255] x) => (float[N,1] y) <int64[1] last = {-1}>",
        """<float n = {@}> b = Cast <to = 16> (x) c = Cast <to = 1> (b) s = ReduceSum(c, last)
        d = Div(s, n) e = Cast <to = 16> (d) y = Cast <to = 1> (e)""",
        "255",
        "256",
        x=_LONG[:, :255],
    ),
    _part(
        "pooled_with_border",
        "An AveragePool with one column of padding counts it, 1 of 129 columns",
        "(float16[N,1,128] x) => (float16[N,1,1] y)",
        """y = AveragePool <kernel_shape = [129], pads = [0, 1], count_include_pad = @> (x)""",
        "0",
        "1",
        x=1 + np.linspace(0, 1, 128)[None, None],
    ),
]
