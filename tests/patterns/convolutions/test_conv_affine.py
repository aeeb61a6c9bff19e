"""Constants before or after a convolution that stay."""

from tests.support import parse, types
from xoptim import optimize


def test_the_end_of_an_activation_stays() -> None:
    """Runtimes recognize Gelu by all of its nodes, the factor of one half among them."""
    before = parse(
        "agraph (float[n,1,h] x) => (float[n,1,h] y) <float r = {1.4142135}, float one = {1}, "
        "float half = {0.5}, float[1,1,3] k = {1, 2, 3}> { d = Div(x, r) e = Erf(d) "
        "p = Add(e, one) m = Mul(x, p) g = Mul(m, half) y = Conv <pads = [1, 1]> (g, k) }"
    )
    assert types(optimize(before, patterns="MulAddConv", strict=True)) == types(before)


def test_a_normalization_after_an_activation_does_not() -> None:
    before = parse(
        "agraph (float[n,1,h] x) => (float[n,1,h] y) <float half = {0.5}, float[1,1,1] k = {3}, "
        "float[1] s = {2}, float[1] o = {1}, float[1] m = {1}, float[1] v = {1}> { p = Sigmoid(x) "
        "q = Mul(x, p) g = Mul(q, half) t = BatchNormalization(g, s, o, m, v) y = Conv(t, k) }"
    )
    assert types(optimize(before, patterns="MulAddConv", strict=True)) == [
        "Sigmoid",
        "Mul",
        "Mul",
        "Conv",
    ]


def test_a_normalization_of_integers_stays() -> None:
    """No runtime computes it, but a model may contain it: the pattern once raised an error."""
    before = parse(
        "agraph (int32[n,1,h] x) => (int32[n,1,h] y) <int32[1,1,1] k = {3}, int32[1] s = {2}, "
        "int32[1] o = {1}, int32[1] m = {1}, int32[1] v = {1}> { "
        "t = BatchNormalization(x, s, o, m, v) y = Conv(t, k) }"
    )
    assert types(optimize(before, patterns="MulAddConv", strict=True, verify=False)) == types(
        before
    )


def test_a_reciprocal_that_overflows_stays() -> None:
    before = parse(
        "agraph (double[n,1,h] x) => (double[n,1,h] y) <double[1,1,1] k = {3}, "
        "double c = {1e-310}> { t = Conv(x, k) y = Div(t, c) }"
    )
    assert types(optimize(before, patterns="ConvMul", strict=True)) == ["Conv", "Div"]
