"""Changes between models whose rewrites were not recorded."""

import pytest

from tests.support import load
from xoptim.graph.model import Model
from xoptim.reporting.drawing import draw
from xoptim.reporting.links import KEPT, REWRITTEN, Change, Links, link, steps_between, twins_of

pytest.importorskip("igraph")

BEFORE = (
    "agraph (float[n] x) => (float[n] y) { a = Sin(x) b = Neg(a) c = Relu(b) d = Exp(c) e = Abs(d) "
    "y = Sqrt(e) }"
)
AFTER = (
    "agraph (float[n] x) => (float[n] y) { a = Sin(x) k = Cos(a) c = Tanh(k) d = Exp(c) "
    "e = Ceil(d) y = Sqrt(e) }"
)


def compared(first: Model, second: Model) -> Links:
    """The relation of two models."""
    before, after = draw(first), draw(second)
    twins = twins_of(before, after)
    return link(before, after, steps_between(before, after, twins), twins=twins)


def test_regions_end_where_both_have_a_value() -> None:
    second = load(AFTER)
    for node in second.graph.nodes:
        if node.op_type in ("Cos", "Ceil"):
            node.metadata = {"xoptim.pattern": f"To{node.op_type}"}
    links = compared(load(BEFORE), second)
    assert links.fates == [KEPT, REWRITTEN, REWRITTEN, KEPT, REWRITTEN, KEPT]
    assert links.twins == [0, -1, -1, 3, -1, 5]
    assert links.changes == [Change("ToCos", [1, 2], [1, 2]), Change("ToCeil", [4], [4])]


def test_equal_models_have_no_regions() -> None:
    links = compared(load(BEFORE), load(BEFORE))
    assert links.fates == [KEPT] * 6
    assert not links.changes


def test_an_operand_that_became_a_constant() -> None:
    first = "agraph (float[n] x) => (float[m] y) { k = Shape(x) y = Reshape(x, k) }"
    second = (
        "agraph (float[n] x) => (float[m] y) { k = Constant <value = int64[1] {2}> () "
        "y = Reshape(x, k) }"
    )
    assert [change.before for change in compared(load(first), load(second)).changes] == [[0], [1]]
