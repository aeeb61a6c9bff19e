"""The reasons why a chain of operators on a Boolean tensor stays."""

import pytest

from tests.support import parse
from xoptim import explain


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("y = Where(c, x, z)", "another operand is not a constant scalar, or the shape changes"),
        ("t = Cast <to = 1> (c) y = Mul(t, zero)", "does not depend on the Boolean operand"),
        ("t = Cast <to = 1> (c) y = Add(t, x)", "Cast would not be faster"),
        ("y = Where(c, two, zero)", "Where would not be faster"),
    ],
)
def test_reasons(text: str, reason: str) -> None:
    model = parse(
        "agraph (bool[a,b] c, float[a,b] x, float[a,b] z) => (float[a,b] y) "
        f"<float zero = {{0}}, float two = {{2}}> {{ {text} }}"
    )
    [explanation] = explain(model, "BooleanArithmetic")
    assert reason in str(explanation)
