"""The record of changes to a model."""

import pytest

from tests.support import load
from xoptim.graph.model import watching

TEXT = "agraph (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Exp(b) }"


def test_what_is_seen() -> None:
    model = load(TEXT)
    graph = model.graph
    first, second, _ = graph.nodes
    with watching(model) as changes:
        assert (changes.count, changes.first) == (0, None)
        graph.set_inputs(second, ("x",))
        graph.remove(first)
    assert changes.first is first, "its readers changed"
    assert changes.count >= 2
    assert (changes.removed_nodes, changes.added_nodes) == ([first], [])
    seen = changes.count
    graph.set_inputs(second, ("x",))
    assert (changes.count, model.listeners) == (seen, []), "nothing is seen after the block"


def test_it_ends_when_the_block_fails() -> None:
    model = load(TEXT)
    with pytest.raises(ValueError, match="what"), watching(model):
        raise ValueError("what")
    assert model.listeners == []
