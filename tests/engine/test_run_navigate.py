"""Navigators: the nodes that they visit, the order, and the rewrites that they apply."""

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest

from tests.engine.rules import (
    AbsNegNegPattern,
    AbsNegPattern,
    NegNegPattern,
    builder,
    chain,
    events,
    renaming,
    reported,
    tuned,
)
from tests.support import parse, same_results, types, verify
from xoptim import GraphBuilder, Node, UnknownPatternError
from xoptim.api.whole_model import global_rewriter
from xoptim.dialects import OpSub, PatternSub, local_rewriter
from xoptim.dialects.local import LocalView
from xoptim.engine.run import ReverseNavigator, TopologicalNavigator

BOTH = pytest.mark.parametrize("navigator", [TopologicalNavigator, ReverseNavigator])


def visiting(log: list[str], *operators: str) -> Any:
    """A pattern that writes down where it is tried, and never matches."""

    def visit(g: LocalView, node: Node) -> None:
        log.append(node.output[0])

    return local_rewriter(operators or ("Neg", "Abs", "Exp", "Floor"), name="Visit")(visit)


def walk(navigator: Any, text: str) -> tuple[GraphBuilder, int]:
    """The model after one walk."""
    gr = builder(text, None)
    count = navigator.run(gr.model)
    verify(gr.model)
    assert gr.model.listeners == []
    return gr, count


def operators(gr: GraphBuilder) -> list[str]:
    return [node.op_type for node in gr.nodes]


# ---------------------------------------------------------------- order


def test_orders() -> None:
    log: list[str] = []
    text = (
        "agraph (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) c = Exp(a) d = Floor(b) "
        "y = Add(c, d) }"
    )
    walk(TopologicalNavigator(visiting(log)), text)
    assert log == ["a", "b", "c", "d"]
    log.clear()
    walk(ReverseNavigator(visiting(log)), text)
    assert log == ["d", "c", "b", "a"]


def test_the_first_pattern_that_matches() -> None:
    text = chain("Neg", "Neg", "Abs")
    for patterns, expected in (
        ([AbsNegNegPattern, AbsNegPattern], ["Floor"]),
        ([AbsNegPattern, AbsNegNegPattern], ["Neg", "Abs"]),
    ):
        gr, count = walk(ReverseNavigator(*patterns), text)
        assert (operators(gr), count) == (expected, 1)


def test_rewrites_happen_at_once() -> None:
    """A rewrite at one node decides the match at the next one: from the front, pairs are taken in
    order.
    """
    text = chain("Neg", "Neg", "Neg", "Neg", "Neg")
    for navigator in (TopologicalNavigator(NegNegPattern), ReverseNavigator(NegNegPattern)):
        gr, count = walk(navigator, text)
        assert (operators(gr), count) == (["Neg"], 2)


@BOTH
def test_subgraphs_and_functions_come_too(navigator: Any) -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) { n = Neg(x) y = If (c)
      <then_branch = t () => (float[2] p) { u = Abs(x) p = l.f(u) },
        else_branch = e () => (float[2] q) { q = Exp(n) }> }
      <domain: "l", opset_import: ["" : 18]> f (v) => (w) { w = Floor(v) }"""
    log: list[str] = []
    gr = GraphBuilder(parse(text, domains={"l": 1}))
    assert navigator(visiting(log)).run(gr.model) == 0
    assert log == ["q", "u", "n", "w"], "inner graphs come first"
    assert (
        navigator(OpSub("Abs", "Ceil"), OpSub("Floor", "Neg"), OpSub("Neg", "Exp")).run(gr.model)
        == 3
    )
    verify(gr.model)
    assert sorted(gr.count_types()) == ["Ceil", "Exp", "If", "Neg", "l::f"]


def test_what_is_made_in_the_place_of_a_node_is_left_to_the_next_walk() -> None:
    pairs = [OpSub("Neg", "Abs"), OpSub("Abs", "Exp"), OpSub("Exp", "Neg")]
    gr, count = walk(TopologicalNavigator(*pairs), chain("Neg", "Abs", "Exp"))
    assert (operators(gr), count) == (["Abs", "Exp", "Neg"], 3)
    growing = PatternSub(("Neg", "x"), ("Neg", ("Neg", ("Neg", "x"))))
    for navigator in (TopologicalNavigator(growing), ReverseNavigator(growing)):
        gr, count = walk(navigator, chain("Neg", "Abs", "Neg"))
        assert (operators(gr).count("Neg"), count) == (6, 2)


def test_new_nodes_further_on_are_visited() -> None:
    """Found at the Neg, made in the place of the Exp, with the Floor in between."""
    log: list[str] = []
    text = (
        "agraph (float[2] x) => (float[2] y) { a = Neg(x) b = Floor(x) c = Exp(a) d = Sin(c) "
        "y = Add(b, d) }"
    )

    class NegExpPattern(PatternSub(("Exp", ("Neg", "x")), ("Cos", ("Tan", "x")))):  # type: ignore[misc]
        anchors = ("Neg",)

    gr, count = walk(
        TopologicalNavigator(NegExpPattern, visiting(log, "Floor", "Cos", "Tan", "Sin")), text
    )
    assert (operators(gr), count) == (["Floor", "Tan", "Cos", "Sin", "Add"], 1)
    assert len(log) == 4
    assert (log[0], log[2:]) == ("b", ["c", "d"])


def test_new_nodes_behind_are_not_visited_again() -> None:
    log: list[str] = []
    gr, _ = walk(
        ReverseNavigator(AbsNegPattern, visiting(log, "Abs", "Neg", "Exp")),
        chain("Exp", "Neg", "Abs"),
    )
    assert operators(gr) == ["Exp", "Abs"]
    assert log == ["t1"]


@BOTH
def test_random_walks_end_and_are_right(navigator: Any) -> None:
    patterns = [
        NegNegPattern,
        PatternSub(("Neg", ("Sub", "a", "b")), ("Sub", "b", "a"), interior="keep"),
        PatternSub(("Add", "a", ("Neg", "b")), ("Sub", "a", "b"), interior="keep"),
        PatternSub(("Sub", ("Neg", "a"), "b"), ("Neg", ("Add", "a", "b")), interior="keep"),
        PatternSub(("Mul", ("Neg", "a"), "b"), ("Neg", ("Mul", "a", "b")), interior="keep"),
    ]
    for seed in range(15):
        draw = random.Random(seed)
        names, lines = ["x", "z"], []
        for number in range(25):
            op = draw.choice(["Neg", "Neg", "Sub", "Add", "Mul"])
            given = draw.choices(names[-6:], k=1 if op == "Neg" else 2)
            lines.append(f"r{number} = {op}({', '.join(given)})")
            names.append(f"r{number}")
        outputs = ", ".join(f"double[3] {name}" for name in names[-3:])
        text = f"agraph (double[3] x, double[3] z) => ({outputs}) {{ {' '.join(lines)} }}"
        gr, count = walk(navigator(*patterns), text)
        assert count > 0
        feeds = {"x": np.array([0.1, -0.2, 0.3]), "z": np.array([-0.3, 0.2, 0.4])}
        same_results(parse(text), gr.to_onnx(optimize=False), feeds)


# ---------------------------------------------------------------- in the optimizer


@BOTH
def test_it_is_repeated_as_long_as_it_helps(navigator: Any) -> None:
    pairs = [OpSub("Neg", "Abs"), OpSub("Abs", "Exp")]
    assert types(tuned(chain("Neg", "Floor", "Neg"), navigator(*pairs))) == ["Exp", "Floor", "Exp"]
    assert types(tuned(chain("Neg", "Floor", "Neg"), navigator(*pairs), max_iter=1)) == [
        "Abs",
        "Floor",
        "Abs",
    ]


def test_what_it_does_is_recorded_as_what_its_patterns_do() -> None:
    navigator = TopologicalNavigator(
        NegNegPattern, OpSub("Abs", "Exp", exactness="approximate"), name="Mine"
    )
    text = chain("Neg", "Neg", "Abs")
    report = reported(text, navigator)
    assert (report.applied, report.exactness) == ({"AbsToExp": 1, "NegNeg": 1}, "approximate")
    assert "Mine" in {row["pattern"] for row in report.rows}
    assert reported(chain("Neg", "Neg", "Floor"), navigator).exactness == "exact"
    applied = [event.pattern for event in events(text, navigator) if event.kind == "applied"]
    assert applied == ["NegNeg", "AbsToExp"]
    after = tuned(text, navigator, tag_nodes=True)
    assert [p.value for p in after.graph.node[0].metadata_props] == ["AbsToExp"]


def test_it_runs_at_its_place() -> None:
    before = TopologicalNavigator(OpSub("Neg", "Abs"), phase="canonicalize")
    after = TopologicalNavigator(OpSub("Neg", "Abs"), phase="specialize")
    for navigator, expected in ((before, ["Abs", "Exp"]), (after, ["Floor", "Exp"])):
        assert types(tuned(chain("Neg", "Exp"), [navigator, renaming("Neg", "Floor")])) == expected


def test_a_pattern_that_raises_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    broken = local_rewriter("Neg", name="Broken")(lambda g, node: g.nonsense)
    navigator = TopologicalNavigator(broken, OpSub("Neg", "Abs"))
    assert types(tuned(chain("Neg", "Exp", "Neg"), navigator, strict=False)) == [
        "Abs",
        "Exp",
        "Abs",
    ]
    assert len([r for r in caplog.records if "Broken failed" in r.getMessage()]) == 1
    with pytest.raises(Exception, match="Broken failed"):
        tuned(chain("Neg"), navigator)


def test_refusals_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    why = local_rewriter("Neg", name="Why")(lambda g, node: g.refuse("not today", node))
    tuned(chain("Neg"), TopologicalNavigator(why), verbose=10)
    assert any(
        "Why refused at " in record.getMessage() and "not today" in record.getMessage()
        for record in caplog.records
    )


def test_operator_sets_and_providers() -> None:
    patterns = [
        OpSub("Neg", "Abs", min_opset=19), OpSub("Neg", "Exp", max_opset=17),
        OpSub("Neg", "Ceil", providers=("cuda",)), OpSub("Neg", "Floor"),
    ]  # fmt: skip
    navigator = TopologicalNavigator(*patterns)
    assert types(tuned(chain("Neg"), navigator)) == ["Floor"]
    assert types(tuned(chain("Neg"), navigator, provider="cuda")) == ["Ceil"]
    assert types(tuned(chain("Neg"), navigator, opset=13)) == ["Exp"]
    assert types(tuned(chain("Neg"), TopologicalNavigator(patterns[0]))) == ["Neg"]


# ---------------------------------------------------------------- what they are


def test_what_they_accept() -> None:
    navigator = TopologicalNavigator(
        "Cast", "TransposeTransposePattern", NegNegPattern, AbsNegPattern(), NegNegPattern
    )
    assert [p.name() for p in navigator.patterns] == [
        "Cast",
        "TransposeTranspose",
        "NegNeg",
        "AbsNeg",
    ]
    assert navigator.name() == "TopologicalCastTransposeTransposeNegNegAbsNeg"
    text = (
        "agraph (float[2,3] x) => (float[2,3] y) { a = Transpose(x) b = Transpose(a) "
        "c = Cast <to = 1> (b) y = Neg(c) }"
    )
    assert types(tuned(text, navigator)) == ["Neg"]


def test_mistakes() -> None:
    with pytest.raises(TypeError, match="ReverseNavigator"):
        ReverseNavigator()
    with pytest.raises(TypeError, match="Whole rewrites"):
        TopologicalNavigator(NegNegPattern, global_rewriter(name="Whole")(lambda gr: None))
    with pytest.raises(TypeError, match="complete models"):
        TopologicalNavigator(TopologicalNavigator(NegNegPattern))
    with pytest.raises(UnknownPatternError):
        TopologicalNavigator("NoSuchPattern")
    with pytest.raises(TypeError, match="'colour'"):
        TopologicalNavigator(NegNegPattern, colour="red")


def test_metadata() -> None:
    mild, wild = (
        OpSub("Neg", "Abs", exactness="finite"),
        OpSub("Abs", "Exp", exactness="approximate"),
    )
    assert TopologicalNavigator(NegNegPattern).exactness == "exact"
    assert TopologicalNavigator(wild, mild).exactness == "approximate"
    chosen = ReverseNavigator(
        mild, name="Mine", phase="target", tags=["mine"], exactness="rounding"
    )
    assert (chosen.name(), chosen.phase, chosen.tags, chosen.exactness) == (
        "Mine",
        "target",
        ("mine",),
        "rounding",
    )
    other = ReverseNavigator(mild)
    assert (other.name(), other.phase, other.tags) == ("ReverseNegToAbs", "canonicalize", ())
    moved = copy.copy(chosen)
    vars(moved)["phase"] = "final"
    assert (moved.name(), moved.phase, chosen.phase) == ("Mine", "final", "target")
    again = pickle.loads(pickle.dumps(TopologicalNavigator(NegNegPattern, name="Kept")))
    assert (again.name(), [p.name() for p in again.patterns]) == ("Kept", ["NegNeg"])


def test_two_of_them_in_one_selection() -> None:
    first, second = (
        TopologicalNavigator(OpSub("Neg", "Abs")),
        TopologicalNavigator(OpSub("Exp", "Floor")),
    )
    assert types(tuned(chain("Neg", "Exp"), [first, second])) == ["Abs", "Floor"]
    assert types(tuned(chain("Neg", "Exp"), [first, second], drop=(first.name(),))) == [
        "Neg",
        "Floor",
    ]
