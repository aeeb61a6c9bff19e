import pytest

from tests.support import parse
from xoptim.proof.proving import prove_models
from xoptim.proof.readable import readable_sides


@pytest.mark.parametrize(
    ("before", "after", "sides"),
    [
        (
            "(float[N,K] x, float[K,4] w) => (float[N,4] y) { m = MatMul(x, w) y = Neg(m) }",
            "(float[N,K] x, float[K,4] w) => (float[N,4] y) { n = Neg(x) y = MatMul(n, w) }",
            ("sum[k0<K] -1*x[i0, k0]*w[k0, i1]",) * 2,
        ),
        (
            "(float[N,M] x) => (float[N,M] y) { e = Asinh(x) y = Sin(e) }",
            "(float[N,M] x) => (float[N,M] y) { e = Sin(x) y = Asinh(e) }",
            ("Sin(Asinh(x[i0, i1]))", "Asinh(Sin(x[i0, i1]))"),
        ),
        (
            "(float[N,2] x) => (float[N,2] y) { y = Hardmax(x) }",
            "(float[N,2] x) => (float[N,2] y) { y = Neg(x) }",
            ("Hardmax(x[p0, p1], N, 2, i0, 1)", "-1*x[i0, 1]"),
        ),
    ],
)
def test_sides(before: str, after: str, sides: tuple[str, str]) -> None:
    proof = prove_models(parse(f"g {before}"), parse(f"g {after}"))
    assert readable_sides(proof.sides) == sides


def test_constants_have_short_names() -> None:
    text = "constant.float32[2, 2]:8e16cd(@1.0, #0.2)*input.a.b.1(@1.0, (1 + #0.2)//2)"
    assert readable_sides((text, "")) == ("c8e16cd[k0, i0]*a.b[k0, (1 + i0)//2]", "")
