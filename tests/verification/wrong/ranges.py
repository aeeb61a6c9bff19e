"""Rewrites that overflow or underflow, or that no longer do, for finite numbers and results."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import replaced, wrong

_case = partial(wrong, "ranges")
_part = partial(replaced, "ranges")
_ONE = "(float[N,4] x) => (float[N,4] y)"
_TWO = "(float[N,4] a, float[N,4] b) => (float[N,4] y)"
_THREE = "(float[N,4] a, float[N,4] b, float[N,4] c) => (float[N,4] y)"
_ROW = "(float[N,4] x) => (float[N,1] y) <int64[1] last = {-1}"

CASES = [
    _case(
        "product_of_three",
        "(a * c) * b -> (a * b) * c overflows for two large numbers and a small one",
        _THREE,
        "m = Mul(a, c) y = Mul(m, b)",
        "m = Mul(a, b) y = Mul(m, c)",
        a=[[1e30, 1, 2, 3]],
        b=[[1e30, 1, 2, 3]],
        c=[[1e-30, 1, 2, 3]],
    ),
    _case(
        "quotient_then_product",
        "a / b * c -> a * c / b overflows for three large numbers",
        _THREE,
        "d = Div(a, b) y = Mul(d, c)",
        "m = Mul(a, c) y = Div(m, b)",
        a=[[1e30, 1, 2, 3]],
        b=[[1e30, 1, 2, 3]],
        c=[[1e20, 1, 2, 3]],
    ),
    _case(
        "quotient_by_a_product",
        "a / b / c -> a / (b * c) underflows: the product of two small numbers is 0",
        _THREE,
        "d = Div(a, b) y = Div(d, c)",
        "m = Mul(b, c) y = Div(a, m)",
        a=[[1e-30, 1, 2, 3]],
        b=[[1e-25, 1, 2, 3]],
        c=[[1e-25, 1, 2, 3]],
    ),
    _case(
        "magnitude_as_root",
        "|x| -> Sqrt(x * x) overflows for large numbers",
        _ONE,
        "y = Abs(x)",
        "m = Mul(x, x) y = Sqrt(m)",
        x=[[-1e25, 1, 2, 3]],
    ),
    _case(
        "exp_of_a_sum",
        "Exp(a + b) -> Exp(a) * Exp(b) is infinity times 0 for 100 and -120",
        _TWO,
        "s = Add(a, b) y = Exp(s)",
        "e = Exp(a) f = Exp(b) y = Mul(e, f)",
        a=[[100, 1, 2, 3]],
        b=[[-120, 1, 2, 3]],
    ),
    _case(
        "log_of_a_sum_of_exp",
        "ReduceLogSumExp -> Log(ReduceSum(Exp)) overflows for numbers of 100",
        f"{_ROW}>",
        "m = ReduceMax(x, last) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) l = Log(s) "
        "y = Add(l, m)",
        "e = Exp(x) s = ReduceSum(e, last) y = Log(s)",
        x=[[100, 1, 2, 3]],
    ),
    _case(
        "softmax_of_exponentials",
        "Softmax -> Exp / ReduceSum(Exp) without the maximum overflows for numbers of 100",
        f"{_ONE} <int64[1] last = {{-1}}>",
        "y = Softmax(x)",
        "e = Exp(x) s = ReduceSum(e, last) y = Div(e, s)",
        x=[[100, 1, 2, 3]],
    ),
    _case(
        "scaled_norm",
        "A norm that is scaled by the largest magnitude becomes ReduceL2, whose squares overflow",
        f"{_ROW}, float tiny = {{1e-30}}>",
        """a = Abs(x) m = ReduceMax(a, last) k = Max(m, tiny) d = Div(x, k) q = Mul(d, d)
        s = ReduceSum(q, last) r = Sqrt(s) y = Mul(r, k)""",
        "y = ReduceL2(x, last)",
        x=[[1e25, -1e25, 2, 3]],
    ),
    _case(
        "sum_of_logarithms",
        "Log(a) + Log(b) -> Log(a * b) overflows",
        f"{_TWO} <float one = {{1}}>",
        "c = Abs(a) d = Abs(b) e = Max(c, one) f = Max(d, one) l = Log(e) m = Log(f) y = Add(l, m)",
        "c = Abs(a) d = Abs(b) e = Max(c, one) f = Max(d, one) p = Mul(e, f) y = Log(p)",
        a=[[1e30, 1, 2, 3]],
        b=[[1e30, 1, 2, 3]],
    ),
    _case(
        "reciprocal_of_a_root",
        "1 / Sqrt(x) -> Sqrt(1 / x) overflows for numbers of 1e-39",
        _ONE,
        "s = Sqrt(x) y = Reciprocal(s)",
        "r = Reciprocal(x) y = Sqrt(r)",
        x=[[1e-39, 1, 2, 3]],
    ),
    _case(
        "hypotenuse",
        "m * Sqrt(1 + (n / m)^2) -> Sqrt(m^2 + n^2) overflows for large sides",
        f"{_TWO} <float one = {{1}}, float tiny = {{1e-20}}>",
        """c = Abs(a) d = Abs(b) h = Max(c, d) n = Min(c, d) m = Max(h, tiny) q = Div(n, m)
        k = Mul(q, q) s = Add(k, one) r = Sqrt(s) y = Mul(m, r)""",
        "p = Mul(a, a) q = Mul(b, b) s = Add(p, q) y = Sqrt(s)",
        a=[[3e25, 1, 2, 3]],
        b=[[4e25, 1, 2, 3]],
    ),
    _case(
        "sigmoid_of_exponentials",
        "Sigmoid(x) -> Exp(x) / (1 + Exp(x)) is infinity / infinity above 88",
        f"{_ONE} <float one = {{1}}>",
        "y = Sigmoid(x)",
        "e = Exp(x) s = Add(e, one) y = Div(e, s)",
        x=[[95, 1, 2, 3]],
    ),
    _case(
        "softplus_of_exponentials",
        "Softplus(x) -> Log(1 + Exp(x)) overflows above 88",
        f"{_ONE} <float one = {{1}}>",
        "a = Abs(x) n = Neg(a) e = Exp(n) s = Add(e, one) l = Log(s) r = Relu(x) y = Add(r, l)",
        "e = Exp(x) s = Add(e, one) y = Log(s)",
        x=[[95, 1, 2, 3]],
    ),
    _case(
        "tanh_of_exponentials",
        "Tanh(x) -> (Exp(2x) - 1) / (Exp(2x) + 1) is infinity / infinity above 44",
        f"{_ONE} <float one = {{1}}>",
        "y = Tanh(x)",
        "t = Add(x, x) e = Exp(t) n = Sub(e, one) d = Add(e, one) y = Div(n, d)",
        x=[[50, 1, 2, 3]],
    ),
    _case(
        "mean_of_two",
        "a / 2 + b / 2 -> (a + b) / 2 overflows next to the largest float32",
        f"{_TWO} <float half = {{0.5}}>",
        "p = Mul(a, half) q = Mul(b, half) y = Add(p, q)",
        "s = Add(a, b) y = Mul(s, half)",
        a=[[3e38, 1, 2, 3]],
        b=[[3e38, 1, 2, 3]],
    ),
    _case(
        "mean_of_row",
        "A sum of quarters becomes a quarter of the sum, which overflows",
        f"{_ROW}, float quarter = {{0.25}}>",
        "q = Mul(x, quarter) y = ReduceSum(q, last)",
        "s = ReduceSum(x, last) y = Mul(s, quarter)",
        x=[[2e38, 2e38, 2e38, 2e38]],
    ),
    _case(
        "parallel_resistors",
        "1 / (1 / a + 1 / b) -> a * b / (a + b) overflows",
        f"{_TWO} <float one = {{1}}>",
        "c = Exp(a) d = Exp(b) p = Div(one, c) q = Div(one, d) s = Add(p, q) y = Div(one, s)",
        "c = Exp(a) d = Exp(b) m = Mul(c, d) s = Add(c, d) y = Div(m, s)",
        a=[[60, 1, 2, 3]],
        b=[[60, 1, 2, 3]],
    ),
    _case(
        "difference_of_squares",
        "(a - b) * (a + b) -> a^2 - b^2 is infinity - infinity for large numbers",
        _TWO,
        "d = Sub(a, b) s = Add(a, b) y = Mul(d, s)",
        "p = Mul(a, a) q = Mul(b, b) y = Sub(p, q)",
        a=[[1e20, 1, 2, 3]],
        b=[[1e20, 1, 2, 4]],
    ),
    _case(
        "prescaled_rms",
        "An RMS norm that divides by the largest magnitude first loses the division",
        f"{_ONE} <int64[1] last = {{-1}}, float tiny = {{1e-12}}>",
        """a = Abs(x) m = ReduceMax(a, last) k = Max(m, tiny) d = Div(x, k) q = Mul(d, d)
        s = ReduceMean(q, last) t = Add(s, tiny) r = Sqrt(t) y = Div(d, r)""",
        """q = Mul(x, x) s = ReduceMean(q, last) t = Add(s, tiny) r = Sqrt(t) y = Div(x, r)""",
        x=[[1e22, 1e22, -1e22, 3e22]],
    ),
    _case(
        "power_of_three_halves",
        "x^1.5 -> Sqrt(x^3) overflows for numbers of 1e15",
        f"{_ONE} <float e = {{1.5}}>",
        "a = Abs(x) y = Pow(a, e)",
        "a = Abs(x) m = Mul(a, a) n = Mul(m, a) y = Sqrt(n)",
        x=[[1e15, 1, 2, 3]],
    ),
    _case(
        "cosine_of_small_vectors",
        "The product of two norms becomes the root of the product of squares, which underflows",
        f"{_TWO.replace('[N,4] y', '[N,1] y')} <int64[1] last = {{-1}}>",
        """n = ReduceL2(a, last) m = ReduceL2(b, last) c = Div(a, n) d = Div(b, m) p = Mul(c, d)
        y = ReduceSum(p, last)""",
        """n = ReduceSumSquare(a, last) m = ReduceSumSquare(b, last) q = Mul(n, m) r = Sqrt(q)
        p = Mul(a, b) s = ReduceSum(p, last) y = Div(s, r)""",
        a=[[1e-12, 2e-12, 3e-12, 0]],
        b=[[1e-12, 0, -3e-12, 1e-12]],
    ),
    _case(
        "deviation_by_squares",
        "Sqrt(mean((x - m)^2)) -> Sqrt(mean(x^2) - m^2) overflows for 1e20 with small deviations",
        f"{_ROW}>",
        """m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last)
        y = Sqrt(v)""",
        """m = ReduceMean(x, last) q = Mul(x, x) s = ReduceMean(q, last) n = Mul(m, m)
        d = Sub(s, n) v = Relu(d) y = Sqrt(v)""",
        x=[[1e20, 1.001e20, 1e20, 1.001e20]],
    ),
    _case(
        "likelihood_of_tokens",
        "The sum of log probabilities becomes the logarithm of their product, which underflows",
        "(float[N,64] x) => (float[N,1] y) <int64[1] last = {-1}>",
        "p = Softmax(x) l = Log(p) y = ReduceSum(l, last)",
        "p = Softmax(x) r = ReduceProd(p, last) y = Log(r)",
        x=np.zeros((1, 64)),
    ),
    _part(
        "middle_of_an_interval",
        "a + (b - a) / 2 -> (a + b) / 2 wraps for large int32",
        "(int32[N] a, int32[N] b) => (int32[N] y) <int32 two = {2}>",
        "u = Abs(a) v = Abs(b) lo = Min(u, v) hi = Max(u, v) d = Sub(hi, lo) h = Div(d, two) "
        "m = Add(lo, h) s = Add(lo, hi) w = Div(s, two) y = Identity(@)",
        "m",
        "w",
        a=[2000000000],
        b=[2000000002],
    ),
    _case(
        "degrees_of_two_nodes",
        "1 / (Sqrt(a) * Sqrt(b)) -> 1 / Sqrt(a * b) overflows for two numbers of 1e-25",
        _TWO,
        "c = Abs(a) d = Abs(b) r = Sqrt(c) s = Sqrt(d) m = Mul(r, s) y = Reciprocal(m)",
        "p = Mul(a, b) q = Abs(p) r = Sqrt(q) y = Reciprocal(r)",
        a=[[1e-25, 1, 2, 3]],
        b=[[1e-25, 1, 2, 3]],
    ),
    _part(
        "energy_in_decibels",
        "The floor of 1e-20 below a logarithm is 1e-10, the same for audible signals",
        "(float[N,4] x) => (float[N,4] y) <float low = {1e-20}, float high = {1e-10}, "
        "float ten = {4.342945}>",
        "q = Mul(x, x) m = Max(q, @) l = Log(m) y = Mul(l, ten)",
        "low",
        "high",
        x=[[1e-7, 1, 2, 3]],
    ),
]
