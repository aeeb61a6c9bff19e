"""Overflow, underflow and cancellation; written without regard to the verification."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import replaced, wrong

_case = partial(wrong, "fresh: ranges")
_part = partial(replaced, "fresh: ranges")
_ONE = "(float[N,4] x) => (float[N,4] y)"
_TWO = "(float[N,4] a, float[N,4] b) => (float[N,4] y)"
_TINY = [[1e-5, 2e-5, -3e-5, 4e-5]]

CASES = [
    _case(
        "expm1_by_tanh",
        "2 * t / (1 - t) of t = Tanh(x / 2) -> Exp(x) - 1 cancels next to 0",
        f"{_ONE} <float half = {{0.5}}, float one = {{1}}, float two = {{2}}, float low = {{-6}}, "
        "float high = {6}>",
        """c = Clip(x, low, high) h = Mul(c, half) t = Tanh(h) u = Mul(t, two) v = Sub(one, t)
        y = Div(u, v)""",
        "c = Clip(x, low, high) e = Exp(c) y = Sub(e, one)",
        relative=2e-4,
        x=_TINY,
    ),
    _case(
        "one_minus_cosine",
        "2 * Sin(x / 2)^2 -> 1 - Cos(x) cancels next to 0",
        f"{_ONE} <float half = {{0.5}}, float one = {{1}}, float two = {{2}}>",
        "h = Mul(x, half) s = Sin(h) q = Mul(s, s) y = Mul(q, two)",
        "c = Cos(x) y = Sub(one, c)",
        relative=0.01,
        x=[[1e-4, 2e-4, 3e-4, 1e-3]],
    ),
    _case(
        "difference_of_roots",
        "1 / (Sqrt(x + 1) + Sqrt(x)) -> Sqrt(x + 1) - Sqrt(x) cancels for large numbers",
        f"{_ONE} <float one = {{1}}>",
        "p = Abs(x) q = Add(p, one) r = Sqrt(p) s = Sqrt(q) t = Add(r, s) y = Reciprocal(t)",
        "p = Abs(x) q = Add(p, one) r = Sqrt(p) s = Sqrt(q) y = Sub(s, r)",
        relative=0.01,
        x=[[1e6, 1e7, 1e8, 1]],
    ),
    _case(
        "log_sigmoid_in_two_steps",
        "-Softplus(-x) -> Log(Sigmoid(x)) is -inf below -104",
        _ONE,
        "n = Neg(x) s = Softplus(n) y = Neg(s)",
        "s = Sigmoid(x) y = Log(s)",
        x=[[-150, 1, 2, 3]],
    ),
    _case(
        "cross_entropy_of_logits",
        "Max(x, 0) - x * z + Softplus(-|x|) -> -z * Log(p) - (1 - z) * Log(1 - p) is infinite",
        "(float[N,4] x, float[N,4] z) => (float[N,4] y) <float none = {0}, float one = {1}>",
        """r = Max(x, none) m = Mul(x, z) a = Abs(x) n = Neg(a) s = Softplus(n) d = Sub(r, m)
        y = Add(d, s)""",
        """p = Sigmoid(x) q = Sub(one, p) k = Log(p) l = Log(q) w = Sub(one, z) u = Mul(z, k)
        v = Mul(w, l) t = Add(u, v) y = Neg(t)""",
        x=[[30, -1, 2, 0]],
        z=[[0.5, 0.5, 0.5, 0.5]],
    ),
    _case(
        "distance_by_products",
        "Sqrt(sum((a - b)^2)) -> Sqrt(|a|^2 + |b|^2 - 2ab) cancels for close vectors",
        "(float[N,4] a, float[N,4] b) => (float[N,1] y) <int64[1] last = {-1}, float two = {2}, "
        "float none = {0}>",
        "d = Sub(a, b) y = ReduceL2(d, last)",
        """p = ReduceSumSquare(a, last) q = ReduceSumSquare(b, last) m = Mul(a, b)
        s = ReduceSum(m, last) t = Mul(s, two) u = Add(p, q) v = Sub(u, t) w = Max(v, none)
        y = Sqrt(w)""",
        relative=0.1,
        a=[[100, 200, 300, 400]],
        b=[[100.01, 200.01, 300, 400]],
    ),
    _case(
        "angle_by_acos",
        "2 * Asin(|a - b| / 2) of unit vectors -> Acos(ab) is 0 for small angles",
        "(float[N,3] a, float[N,3] b) => (float[N,1] y) <int64[1] last = {-1}, "
        "float half = {0.5}, float two = {2}, float one = {1}, float minus = {-1}>",
        """u = LpNormalization <axis = -1> (a) v = LpNormalization <axis = -1> (b) d = Sub(u, v)
        n = ReduceL2(d, last) h = Mul(n, half) i = Min(h, one) s = Asin(i) y = Mul(s, two)""",
        """u = LpNormalization <axis = -1> (a) v = LpNormalization <axis = -1> (b) d = Mul(u, v)
        n = ReduceSum(d, last) h = Clip(n, minus, one) y = Acos(h)""",
        relative=0.2,
        a=[[1, 0, 0]],
        b=[[1, 1e-4, 0]],
    ),
    _part(
        "flat_index_in_int32",
        "The place row * 65536 + column is computed in int64; it is computed in int32",
        "(int64[N] row, int64[N] column) => (int64[N] y) <int64 width = {65536}>",
        """m = Mul(row, width) a = Add(m, column) i = Cast <to = @> (a) y = Cast <to = 7> (i)""",
        "7",
        "6",
        row=[40000, 1],
        column=[3, 4],
    ),
    _part(
        "scale_after_the_product_in_half",
        "Queries are scaled before scores are stored in float16; scores are, after an overflow",
        "(float[N,S,64] q, float[N,T,64] k) => (float[N,S,T] y) <float by = {0.0625}>",
        "t = Transpose <perm = [0, 2, 1]> (k) @",
        "s = Mul(q, by) m = MatMul(s, t) h = Cast <to = 10> (m) y = Cast <to = 1> (h)",
        "m = MatMul(q, t) h = Cast <to = 10> (m) g = Cast <to = 1> (h) y = Mul(g, by)",
        q=np.full((1, 1, 64), 40),
        k=np.full((1, 2, 64), 40),
    ),
    _part(
        "mean_in_half_by_a_sum",
        "The mean of 512 float16 numbers becomes a float16 sum that is divided, after an overflow",
        "(float16[N,512] x) => (float16[N,1] y) <int64[1] last = {-1}, float count = {512}>",
        "@",
        """f = Cast <to = 1> (x) m = ReduceMean(f, last) y = Cast <to = 10> (m)""",
        """f = Cast <to = 1> (x) s = ReduceSum(f, last) h = Cast <to = 10> (s)
        g = Cast <to = 1> (h) d = Div(g, count) y = Cast <to = 10> (d)""",
        x=np.full((1, 512), 200),
    ),
    _case(
        "geometric_mean",
        "Exp(mean(Log(x))) -> the root of the product, which overflows",
        "(float[N,8] x) => (float[N,1] y) <int64[1] last = {-1}, float part = {0.125}, "
        "float least = {1e-3}>",
        "a = Abs(x) b = Max(a, least) l = Log(b) m = ReduceMean(l, last) y = Exp(m)",
        "a = Abs(x) b = Max(a, least) p = ReduceProd(b, last) y = Pow(p, part)",
        x=np.full((1, 8), 1e5),
    ),
    _case(
        "log_density_of_a_normal",
        "-x^2 / 2 -> Log(Exp(-x^2 / 2)) is -inf beyond 15 deviations",
        f"{_ONE} <float half = {{-0.5}}>",
        "q = Mul(x, x) y = Mul(q, half)",
        "q = Mul(x, x) m = Mul(q, half) e = Exp(m) y = Log(e)",
        x=[[20, 1, 2, 3]],
    ),
    _case(
        "log_cosh_loss",
        "|d| + Softplus(-2 |d|) - Log(2) -> Log(Cosh(d)) is infinite above 89",
        f"{_TWO} <float minus = {{-2}}, float log2 = {{0.6931472}}>",
        "d = Sub(a, b) p = Abs(d) m = Mul(p, minus) s = Softplus(m) t = Add(p, s) y = Sub(t, log2)",
        "d = Sub(a, b) c = Cosh(d) y = Log(c)",
        a=[[100, 1, 2, 3]],
        b=[[0, 0, 0, 0]],
    ),
    _part(
        "energy_of_samples_in_int32",
        "The squares of 16-bit samples are added in int64; they are added in int32",
        "(int16[N,T] x) => (float[N,1] y) <int64[1] last = {-1}>",
        """i = Cast <to = @> (x) q = Mul(i, i) s = ReduceSum(q, last) y = Cast <to = 1> (s)""",
        "7",
        "6",
        x=[[30000, 30000, 30000]],
    ),
    _part(
        "time_stamps_in_float32",
        "Time stamps are subtracted as integers; they are as float32",
        "(int64[N] a, int64[N] b) => (float[N] y)",
        "@",
        "d = Sub(a, b) y = Cast <to = 1> (d)",
        "f = Cast <to = 1> (a) g = Cast <to = 1> (b) y = Sub(f, g)",
        a=[1700000061],
        b=[1700000000],
    ),
]
