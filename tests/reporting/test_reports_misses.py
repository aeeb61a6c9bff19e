"""Patterns that almost apply."""

from tests.support import load, values_in
from xoptim.reporting.reports_misses import nearest_misses

GELU = """agraph (float[n] x) => (float[n] y) {
    s = Constant <value = float {1.41421354}> ()
    o = Constant <value = float {1}> ()
    h = Constant <value = float {0.5}> ()
    a = Div (x, s) b = Erf (a) c = Add (b, o) d = Mul (x, c) y = Mul (d, h)
}"""


def test_the_operator_set_is_too_old() -> None:
    miss, *_ = [miss for miss in nearest_misses(load(GELU, 17)) if miss.pattern == "GeluErf"]
    assert miss.reached == "5 of 5 nodes"
    assert values_in(miss.reason) == ["20", "17"]


def test_patterns_that_apply_are_not_missed() -> None:
    assert "GeluErf" not in {miss.pattern for miss in nearest_misses(load(GELU, 20))}


def test_the_place_where_most_fits() -> None:
    second = GELU.replace("y = Mul (d, h)", "y = Mul (d, x)")
    found = {miss.pattern: miss for miss in nearest_misses(load(second, 20))}
    assert len(found["GeluErf"].matched) >= 3
    assert found["GeluErf"].reason
