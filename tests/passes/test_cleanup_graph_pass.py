"""The passes of the optimizer: each runs over a model, or one graph of it, and counts its
changes.
"""

from collections.abc import Callable

import pytest

from tests.properties.strategy import random_model
from tests.support import load, values_in
from xoptim import ModelPass, PatternOptimization
from xoptim.engine.events import EventStream
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.match.rewrite import Condition, unmet
from xoptim.passes.cleanup import (
    GraphPass,
    RemoveIdentities,
    RemoveInitializers,
    RemoveUnused,
    inner_first,
)
from xoptim.passes.fold import FoldConstants
from xoptim.passes.growth import Growth
from xoptim.passes.merge import MergeInitializers, MergeNodes

BRANCHES = """agraph (bool c, float[2] x) => (float[2] y)
  <float[2] i = {1, 2}, float[2] j = {1, 2}> {
    u = Identity(x) a = Abs(u) b = Abs(u) v = Add(a, b) unused = Neg(x) k = Add(i, j) w = Mul(v, k)
      z = If (c)
      <then_branch = t () => (float[2] p)
        { m = Neg(x) n = Neg(x) o = Identity(m) q = Floor(x) p = Add(o, n) },
       else_branch = e () => (float[2] r) { r = Exp(x) }>
    y = Add(w, z) }"""


def fold() -> FoldConstants:
    return FoldConstants(Growth(None, 0), EventStream(0, None).send)


CASES: tuple[tuple[str, Callable[[], GraphPass], int], ...] = (
    ("remove_unused", RemoveUnused, 2),
    ("remove_identity", RemoveIdentities, 2),
    ("constant_folding", fold, 1),
    ("merge_initializers", MergeInitializers, 1),
    ("merge_nodes", MergeNodes, 2),
)


@pytest.mark.parametrize(("name", "make", "count"), CASES, ids=[name for name, _, _ in CASES])
def test_a_pass_ensures_what_it_promises(
    name: str, make: Callable[[], GraphPass], count: int
) -> None:
    for seed in range(30):
        model = load_model(random_model(seed))
        assert unmet(model, make().requires) == "", name
        make().run(model)
        assert unmet(model, make().ensures) == "", name
        assert count


@pytest.mark.parametrize(
    ("condition", "nodes", "names"),
    [
        ("used", "u = Neg(x) y = Abs(x)", ["u"]),
        ("used", "y = Abs(x)", ["w"]),
        ("stored", "y = Abs(x)", ["w"]),
        ("stored", "u = Neg(w) y = Abs(x)", []),
        ("defined", "y = Add(x, w)", []),
    ],
)
def test_conditions(condition: Condition, nodes: str, names: list[str]) -> None:
    model = load(f"agraph (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ {nodes} }}")
    text = unmet(model, [condition])
    assert (bool(text), values_in(text)) == (bool(names), names)


def test_values_that_are_read_before_they_are_defined() -> None:
    model = load("agraph (float[2] x) => (float[2] y) { u = Neg(x) y = Abs(u) }")
    first, last = model.graph.nodes
    model.graph.remove(first)
    model.graph.insert(first, last)
    assert values_in(unmet(model, ["defined"])) == ["u"]


@pytest.mark.parametrize(("name", "make", "count"), CASES, ids=[name for name, _, _ in CASES])
def test_a_pass_counts_what_it_changes_in_all_graphs(
    name: str, make: Callable[[], GraphPass], count: int
) -> None:
    model = load(BRANCHES)
    assert (make().name(), make().run(model)) == (name, count)
    assert make().run(model) == 0
    assert isinstance(make(), ModelPass)
    assert not isinstance(make(), PatternOptimization)


def test_initializers_that_nothing_reads() -> None:
    model = load(BRANCHES)
    assert RemoveInitializers().run(model) == 0
    model.graph.add_initializer("left", next(iter(model.graph.initializers.values())))
    assert (RemoveInitializers().name(), RemoveInitializers().run(model)) == (
        "remove_initializers",
        1,
    )


def test_run_on_leaves_other_graphs_alone() -> None:
    model = load(BRANCHES)
    assert RemoveIdentities().run_on(model.graph) == 1
    assert [len(graph.of_type("Identity")) for graph in inner_first(model)] == [0, 1, 0]


def test_inner_graphs_and_then_functions() -> None:
    text = BRANCHES.replace("y = Add(w, z)", "y = l.f(z)")
    text += ' <domain: "l", opset_import: ["" : 18]> f (v) => (w) { w = Floor(v) }'
    seen: list[list[str]] = []

    class Look(GraphPass):
        title = "look"

        def run_on(self, graph: Graph) -> int:
            seen.append([node.op_type for node in graph.nodes][-1:])
            return 0

    assert Look().run(load(text, domains={"l": 1})) == 0
    assert seen == [["Exp"], ["Add"], ["f"], ["Floor"]]


def test_what_is_folded_decides_about_rounding() -> None:
    one = fold()
    one.run(
        load(
            "agraph (int64[2] x) => (int64[2] y) <int64[2] i = {1, 2}> { k = Add(i, i) "
            "y = Mul(x, k) }"
        )
    )
    assert not one.has_stored_floats
    one.run(load(BRANCHES))
    assert one.has_stored_floats


def test_a_pass_without_a_body() -> None:
    class Empty(GraphPass):
        title = "empty"

    with pytest.raises(NotImplementedError, match=r"Empty .*run_on"):
        Empty().run(load(BRANCHES))
    with pytest.raises(NotImplementedError, match=r"ModelPass .*run"):
        ModelPass().run(load(BRANCHES))
