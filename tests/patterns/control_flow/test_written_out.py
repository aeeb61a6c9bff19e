"""Loops that are replaced by their initial values or by their bodies."""

import pytest

from tests.support import parse, types
from xoptim import optimize


@pytest.mark.parametrize(("opset", "expected"), [(13, "Loop"), (14, "Identity")])
def test_older_operator_sets_cannot_copy_a_sequence(opset: int, expected: str) -> None:
    model = parse(
        "agraph (seq(float) s, float[2] x) => (seq(float) y) <int64 n = {0}, bool c = {1}> { "
        "y = Loop <body = b (int64 i, bool d, seq(float) a) => (bool e, seq(float) o) "
        "{ e = Identity(d) o = SequenceInsert(a, x) }> (n, c, s) }",
        opset,
    )
    assert types(optimize(model, patterns="LoopNever", strict=True)) == [expected]
