"""Models of several floating-point types: small errors hide in the tolerance of 16 bits."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "several types")
_ROW = (np.arange(64) / 16 - 2).reshape(1, 64)

CASES = [
    _case(
        "factor_next_to_float32",
        "A factor of 1.5 in float16 becomes 1.506; another output is in float32",
        "(float16[N,64] x, float[N,4] z) => (float16[N,64] y, float[N,4] u)",
        "<float c = {1.5}> k = Cast <to = 10> (c) y = Mul(x, k) u = Relu(z)",
        "<float c = {1.506}> k = Cast <to = 10> (c) y = Mul(x, k) u = Relu(z)",
        relative=0.002,
        x=np.ones((1, 64)),
        z=[[1, 2, 3, 4]],
    ),
    _case(
        "factor_in_float32",
        "A factor of 1.5 in float32 between float16 becomes 1.506",
        "(float16[N,64] x, float[N,4] z) => (float16[N,64] y, float[N,4] u)",
        "<float k = {1.5}> f = Cast <to = 1> (x) m = Mul(f, k) y = Cast <to = 10> (m) u = Relu(z)",
        """<float k = {1.506}> f = Cast <to = 1> (x) m = Mul(f, k) y = Cast <to = 10> (m) u =
        Relu(z)""",
        relative=0.002,
        x=np.ones((1, 64)),
        z=[[1, 2, 3, 4]],
    ),
    _case(
        "gelu_after_a_norm",
        "Gelu in float16 after a LayerNormalization in float32 is computed by Tanh",
        """(float16[N,64] x) => (float16[N,64] y) <float[64] g = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}>""",
        "f = Cast <to = 1> (x) l = LayerNormalization(f, g) h = Cast <to = 10> (l) y = Gelu(h)",
        """f = Cast <to = 1> (x) l = LayerNormalization(f, g) h = Cast <to = 10> (l) y = Gelu
        <approximate = "tanh"> (h)""",
        relative=0.001,
        x=_ROW,
    ),
    _case(
        "factor_after_double",
        "A factor of 3 in float32 becomes 3.00002; the input is double",
        "(double[N,4] x) => (float[N,4] y)",
        "<float k = {3}> f = Cast <to = 1> (x) y = Mul(f, k)",
        "<float k = {3.00002}> f = Cast <to = 1> (x) y = Mul(f, k)",
        relative=4e-06,
        x=[[1, 2, 3, 4]],
    ),
    _case(
        "mean_of_196_in_float32",
        "A sum in float32 between float16 is divided by 197 in place of 196",
        "(float16[N,64] x) => (float16[N,64] y)",
        """<float d = {196}, int64[1] a = {1}> f = Cast <to = 1> (x) s = ReduceSum(f, a) q =
        Div(s, d) m = Mul(f, q) y = Cast <to = 10> (m)""",
        """<float d = {197}, int64[1] a = {1}> f = Cast <to = 1> (x) s = ReduceSum(f, a) q =
        Div(s, d) m = Mul(f, q) y = Cast <to = 10> (m)""",
        relative=0.002,
        x=_ROW + 3,
    ),
    _case(
        "epsilon_in_float32",
        "The epsilon of a norm in float32 between float16 is 0.01 in place of 0.001",
        "(float16[N,64] x) => (float16[N,64] y) <int64[1] a = {1}>",
        """<float e = {1e-3}> f = Cast <to = 1> (x) q = Mul(f, f) v = ReduceMean(q, a) p = Add(v,
        e) r = Sqrt(p) m = Div(f, r) y = Cast <to = 10> (m)""",
        """<float e = {1e-2}> f = Cast <to = 1> (x) q = Mul(f, f) v = ReduceMean(q, a) p = Add(v,
        e) r = Sqrt(p) m = Div(f, r) y = Cast <to = 10> (m)""",
        relative=0.002,
        x=_ROW,
    ),
    _case(
        "scale_before_a_softmax",
        "Scores in float32 between float16 are scaled by 0.1125 in place of 0.1118",
        "(float16[N,64] x) => (float16[N,64] y)",
        """<float k = {0.1118}> f = Cast <to = 1> (x) s = Mul(f, k) m = Softmax(s) y = Cast <to =
        10> (m)""",
        """<float k = {0.1125}> f = Cast <to = 1> (x) s = Mul(f, k) m = Softmax(s) y = Cast <to =
        10> (m)""",
        relative=0.001,
        x=_ROW,
    ),
    _case(
        "root_in_an_erf",
        "The root of a half before an Erf in float32 is written as 0.7101",
        "(float16[N,64] x) => (float16[N,64] y)",
        """<float k = {0.70710678}> f = Cast <to = 1> (x) s = Mul(f, k) m = Erf(s) y = Cast <to =
        10> (m)""",
        """<float k = {0.7101}> f = Cast <to = 1> (x) s = Mul(f, k) m = Erf(s) y = Cast <to = 10>
        (m)""",
        relative=0.001,
        x=_ROW,
    ),
    _case(
        "factor_before_bfloat16",
        "A factor of 1.5 before a cast to bfloat16 becomes 1.52",
        "(float[N,64] x) => (float[N,64] y)",
        "<float k = {1.5}> m = Mul(x, k) b = Cast <to = 16> (m) y = Cast <to = 1> (b)",
        "<float k = {1.52}> m = Mul(x, k) b = Cast <to = 16> (m) y = Cast <to = 1> (b)",
        relative=0.002,
        x=_ROW,
    ),
    _case(
        "tenth_of_a_square",
        "A tenth of a square in float16 becomes 0.1004 of it; the result is in float32",
        "(float16[N,64] x) => (float[N,64] y)",
        """<float k = {0.1}> f = Cast <to = 1> (x) h = Mul(x, x) g = Cast <to = 1> (h) s = Mul(g,
        k) y = Add(s, f)""",
        """<float k = {0.1004}> f = Cast <to = 1> (x) h = Mul(x, x) g = Cast <to = 1> (h) s =
        Mul(g, k) y = Add(s, f)""",
        relative=0.001,
        x=_ROW,
    ),
    _case(
        "weights_in_float32",
        "Weights in float32 between float16 are 0.5 percent too large",
        "(float16[N,2] x) => (float16[N,2] y)",
        """<float[2,2] w = {1, 2, 3, 4}> f = Cast <to = 1> (x) m = MatMul(f, w) y = Cast <to =
        10> (m)""",
        """<float[2,2] w = {1, 2, 3.015, 4.02}> f = Cast <to = 1> (x) m = MatMul(f, w) y = Cast
        <to = 10> (m)""",
        relative=0.001,
        x=[[1, 2]],
    ),
    _case(
        "slope_of_a_quick_gelu",
        "The slope of a QuickGelu in float32 between float16 is 1.69 in place of 1.702",
        "(float16[N,64] x) => (float16[N,64] y)",
        """<float k = {1.702}> f = Cast <to = 1> (x) s = Mul(f, k) g = Sigmoid(s) m = Mul(f, g) y
        = Cast <to = 10> (m)""",
        """<float k = {1.69}> f = Cast <to = 1> (x) s = Mul(f, k) g = Sigmoid(s) m = Mul(f, g) y
        = Cast <to = 10> (m)""",
        relative=0.001,
        x=_ROW,
    ),
    _case(
        "variance_of_64",
        "A variance of 64 numbers in float32 between float16 divides by 63",
        "(float16[N,64] x) => (float16[N,64] y) <int64[1] a = {1}>",
        """<float n = {64}> f = Cast <to = 1> (x) q = Mul(f, f) s = ReduceSum(q, a) v = Div(s, n)
        r = Sqrt(v) m = Div(f, r) y = Cast <to = 10> (m)""",
        """<float n = {63}> f = Cast <to = 1> (x) q = Mul(f, f) s = ReduceSum(q, a) v = Div(s, n)
        r = Sqrt(v) m = Div(f, r) y = Cast <to = 10> (m)""",
        relative=0.002,
        x=_ROW,
    ),
]
