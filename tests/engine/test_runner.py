import pytest

from tests.engine.rules import chain, tuned
from tests.support import types
from xoptim import ModelPass, XoptimError
from xoptim.graph.model import Model
from xoptim.graph.node import Node


class Untidy(ModelPass):
    """Adds a node that nothing reads, and ensures that there is none."""

    ensures = ("used",)

    def run(self, model: Model) -> int:
        if model.graph.defines("left"):
            return 0
        model.graph.insert(Node("Exp", ["t0"], ["left"]), None)
        return 1


def test_a_contract_that_is_broken() -> None:
    with pytest.raises(XoptimError, match=r"Untidy ensures used: .*'left'"):
        tuned(chain("Neg", "Abs"), Untidy, remove_unused=False)
    assert types(tuned(chain("Neg", "Abs"), Untidy, remove_unused=False, strict=False)) == [
        "Exp",
        "Neg",
        "Abs",
    ]


class Hasty(ModelPass):
    """Requires that something reads every node."""

    requires = ("used",)


def test_a_requirement_that_is_not_met() -> None:
    with pytest.raises(XoptimError, match=r"Hasty requires used: .*'u'"):
        tuned(
            "agraph (float[2] x) => (float[2] y) { u = Neg(x) y = Abs(x) }",
            Hasty,
            remove_unused=False,
        )


def test_steps_are_dropped_by_name() -> None:
    text = "agraph (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(x) y = Add(a, b) }"
    assert types(tuned(text, None, merge=True)) == ["Neg", "Add"]
    assert types(tuned(text, None, merge=True, drop=("merge",))) == ["Neg", "Neg", "Add"]
