"""Unread columns of a MatMul before a Split."""

from tests.support import parse, types
from xoptim import optimize


def test_a_column_that_the_bias_broadcasts_stays() -> None:
    model = parse(
        "agraph (float[n,2] x) => (float[n,2] y) <float[2,1] w = {1, 2}, float[3] b = {1, 2, 3}, "
        "int64[2] k = {1, 2}> { m = MatMul(x, w) s = Add(m, b) u, y = Split <axis = 1> (s, k) }"
    )
    assert types(optimize(model, patterns="MatMulSplit", strict=True)) == ["MatMul", "Add", "Split"]
