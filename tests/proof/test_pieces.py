import pytest

from tests.support import parse
from xoptim.proof.proving import Proof, prove_models

REAL = "over real numbers"
ONE = "(float[N] x) => (float[N] y) <float o = {0}, float p = {1}, float m = {-1}>"
TWO = "(float[N] x, float[N] z) => (float[N] y) <float o = {0}, float p = {1}>"
INTEGERS = "(int64[N] x, int64[N] z) => (int64[N] y) <int64 o = {0}>"
TRUTHS = "(int64[N] x, int64[N] z) => (bool[N] y)"
EQUAL = (
    (ONE, "y = Elu(x)", "a = Min(x, o) b = Exp(a) c = Sub(b, p) d = Relu(x) y = Add(c, d)", REAL),
    (ONE, "y = Abs(x)", "a = Neg(x) y = Max(a, x)", REAL),
    (ONE, "y = LeakyRelu <alpha = 0.5> (x)", "h = Add(x, x) a = Abs(x) y = Max(a, x)", ""),
    (ONE, "a = Clip(x, m, p) y = Clip(a, m, p)", "y = Clip(x, m, p)", REAL),
    (ONE, "y = Relu(x)", "a = Abs(x) b = Add(a, x) t = Add(p, p) y = Div(b, t)", REAL),
    (TWO, "y = Max(x, z)", "a = Sub(x, z) b = Relu(a) y = Add(b, z)", REAL),
    (TWO, "y = Max(x, z)", "a = Sub(x, z) b = Relu(a) y = Add(b, x)", ""),
    (TWO, "a = Less(x, z) y = Where(a, x, z)", "a = Less(x, z) y = Where(a, z, x)", ""),
    (INTEGERS, "y = Max(x, z)", "c = Greater(x, z) y = Where(c, x, z)", "same bits"),
    (INTEGERS, "y = Max(x, z)", "c = Less(x, z) y = Where(c, x, z)", ""),
    (INTEGERS, "y = Abs(x)", "a = Sub(o, x) y = Max(a, x)", "same bits"),
    (TRUTHS, "a = Less(x, z) y = Not(a)", "y = LessOrEqual(z, x)", "same bits"),
    (TRUTHS, "a = Less(x, z) y = Not(a)", "y = LessOrEqual(x, z)", ""),
    (TRUTHS, "y = Equal(x, z)", "a = LessOrEqual(x, z) b = LessOrEqual(z, x) y = And(a, b)", None),
)
NAN = (
    (ONE, "y = Max(x, o)", "c = Greater(x, o) y = Where(c, x, o)"),
    (ONE, "c = IsNaN(x) y = Where(c, o, x)", "y = Identity(x)"),
    (TWO, "y = Min(x, z)", "c = Less(x, z) y = Where(c, x, z)"),
    (
        "(float[N] x, float[N] z) => (bool[N] y)",
        "c = Less(x, z) y = Not(c)",
        "y = LessOrEqual(z, x)",
    ),
)


def _proof(signature: str, before: str, after: str) -> Proof:
    first, second = (parse(f"g {signature} {{ {nodes} }}") for nodes in (before, after))
    return prove_models(first, second)


@pytest.mark.parametrize(("signature", "before", "after", "grade"), EQUAL)
def test_cases(signature: str, before: str, after: str, grade: str | None) -> None:
    proof = _proof(signature, before, after)
    expected = "same bits" if grade is None else grade or "only run"
    assert proof.grade == expected, proof.sides


@pytest.mark.parametrize(("signature", "before", "after"), NAN)
def test_nan_is_not_lost(signature: str, before: str, after: str) -> None:
    assert not _proof(signature, before, after).is_proved


def test_a_sum_of_few_terms() -> None:
    signature = "(float[N,3] x) => (float[N,1] y) <bool[3] c = {1, 0, 1}, float o = {0}, "
    signature += "int64[1] a = {1}, float[3,1] w = {1, 0, 1}, float[3,1] v = {1, 1, 0}>"
    masked = "t = Where(c, x, o) y = ReduceSum(t, a)"
    assert _proof(signature, masked, "y = MatMul(x, w)").is_proved
    assert not _proof(signature, masked, "y = MatMul(x, v)").is_proved


def test_the_last_rounding_to_16_bits() -> None:
    signature = "(float16[N] x, float[N] z) => (float16[N] y)"
    wide = "c = Cast <to = 1> (x) a = Add(c, c) y = Cast <to = 10> (a)"
    assert _proof(signature, wide, "y = Add(x, x)").grade == REAL
    mixed = "c = Cast <to = 1> (x) a = Add(c, z) y = Cast <to = 10> (a)"
    assert not _proof(signature, mixed, "d = Cast <to = 10> (z) y = Add(x, d)").is_proved
