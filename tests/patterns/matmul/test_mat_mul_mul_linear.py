"""A factor goes into constants only where the result is linear in them."""

from itertools import pairwise

import pytest

from tests.support import parse, types
from xoptim import explain, optimize

WEIGHTS = "<float[2,2] w = {2, 4, 6, 8}, float[2,2] v = {1, 2, 3, 4}, float h = {0.5}>"


@pytest.mark.parametrize(
    ("nodes", "is_linear"),
    [
        ("t = MatMul(x, w) u = MatMul(z, v) s = Add(t, u) y = Mul(s, h)", True),
        ("t = MatMul(x, w) u = MatMul(t, z) y = Mul(u, h)", True),
        ("t = MatMul(x, w) u = Mul(t, t) y = Mul(u, h)", False),
        ("t = MatMul(x, w) n = Neg(t) u = Mul(n, t) y = Mul(u, h)", False),
        ("t = MatMul(x, w) u = MatMul(t, v) s = Add(t, u) y = Mul(s, h)", False),
        ("t = MatMul(x, w) u = Div(z, t) y = Mul(u, h)", False),
        ("t = MatMul(x, w) u = Add(t, z) y = Mul(u, h)", False),
        ("t = MatMul(x, w) u = Sigmoid(t) y = Mul(u, h)", False),
    ],
)
def test_what_is_linear(nodes: str, is_linear: bool) -> None:
    model = parse(f"agraph (float[2,2] x, float[2,2] z) => (float[2,2] y) {WEIGHTS} {{ {nodes} }}")
    removed = len(model.graph.node) - len(
        types(optimize(model, patterns="MatMulMulPattern", verify=True))
    )
    assert removed == is_linear


def test_a_refusal_names_the_first_result_that_is_read_elsewhere() -> None:
    names = ("t", "first", "second", "third")
    nodes = " ".join(f"{y} = Neg({x})" for x, y in pairwise(names))
    outputs = ", ".join(f"float[2,2] {name}" for name in (*names, "y"))
    model = parse(
        f"agraph (float[2,2] x) => ({outputs}) {WEIGHTS} "
        f"{{ t = MatMul(x, w) {nodes} y = Mul(third, h) }}"
    )
    (refusal,) = explain(model, "MatMulMul")
    assert refusal.culprit is not None
    assert refusal.culprit.outputs == ("t",)
