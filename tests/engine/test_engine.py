# mypy: disable-error-code="no-any-return"
"""The loop."""

import logging
import re
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
from xoptim.api.optimizing import optimize
from xoptim.engine.environment import DebugSettings
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import BudgetError, XoptimError
from xoptim.match import (
    EasyPatternOptimization,
    GraphBuilderPatternOptimization,
    MatchResult,
    Node,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Symbol,
)
from xoptim.optimizing.builder import GraphBuilder

FEEDS = {"t0": np.array([[1, -2, 3]], np.float32)}


def test_rewriting_goes_on_until_nothing_changes() -> None:
    text = chain(*["Neg"] * 33)
    after = tuned(text, NegNegPattern)
    assert types(after) == ["Neg"]
    same_results(parse(text), after, FEEDS)


def test_nothing_to_do() -> None:
    proto = parse(chain("Exp"))
    assert tuned(proto, [NegNegPattern]) == proto
    assert tuned(proto, None) == proto
    assert not [e for e in events(chain("Exp"), None) if e.kind == "applied"]


def test_matches_of_a_round_are_disjoint() -> None:
    heard = events(chain(*["Neg"] * 9), NegNegPattern)
    rounds = [e.text for e in heard if e.kind == "round"]
    assert rounds[0] == "4 matches, 4 applied"
    claimed: list[Node] = []
    for event in heard:
        if event.kind == "round":
            break
        if event.kind == "applied":
            assert not set(event.removed) & set(claimed)
            claimed += event.removed


def test_lower_priorities_are_done_before_higher_ones_begin() -> None:
    slow = renaming("Exp", "Log", priority=3)
    first = renaming("Neg", "Exp", priority=1)
    heard = events(chain("Neg", "Exp", "Neg"), [slow, first])
    assert [e.pattern for e in heard if e.kind == "applied"] == ["NegToExp"] * 2 + ["ExpToLog"] * 3


def test_phases_come_before_priorities() -> None:
    late = renaming("Neg", "Exp", phase="specialize", priority=0)
    early = renaming("Neg", "Log", phase="canonicalize", priority=9)
    assert types(tuned(chain("Neg"), [late, early])) == ["Log"]
    target = renaming("Neg", "Abs", phase="target")
    assert types(tuned(chain("Neg"), [target, late])) == ["Exp"]
    assert types(tuned(chain("Neg"), [target])) == ["Abs"]


def test_a_lower_priority_has_its_turn_again_when_a_higher_one_helps_it() -> None:
    help_out = renaming("Exp", "Neg", priority=2)
    assert types(tuned(chain("Exp", "Neg", "Abs"), [NegNegPattern, help_out])) == ["Abs"]


def test_later_patterns_of_a_priority_match_new_nodes_in_the_same_round() -> None:
    patterns = [renaming("Exp", "Log"), renaming("Log", "Sqrt"), renaming("Neg", "Exp")]
    heard = events(chain("Exp", "Neg"), patterns)
    applied = [(e.pattern, e.iteration) for e in heard if e.kind == "applied"]
    # The Exp that the last pattern makes has to wait for the first one.
    assert applied == [
        ("ExpToLog", 1), ("LogToSqrt", 1), ("NegToExp", 1), ("ExpToLog", 2), ("LogToSqrt", 2)
    ]  # fmt: skip


@pytest.mark.parametrize("fields", [({"before": ("C",)}, {}), ({}, {"after": ("A",)})])
def test_a_pattern_leaves_new_nodes_to_those_that_run_before_it(
    fields: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """C could match the new Log in the round of B, when A has had its turn."""
    first = renaming("Log", "Sqrt", name=classmethod(lambda cls: "A"), **fields[0])
    middle = renaming("Exp", "Log", name=classmethod(lambda cls: "B"))
    last = renaming("Log", "Abs", name=classmethod(lambda cls: "C"), **fields[1])
    assert types(tuned(chain("Exp"), [first, middle, last])) == ["Sqrt"]


def test_a_pattern_does_not_match_its_own_new_nodes_in_the_same_round() -> None:
    """A chain is halved in each round, in place of growing one operand step by step."""

    class ExpExp(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Exp(g.op.Exp(x))

        def apply_pattern(self, g: PatternRewriter, x: str) -> str:
            return g.op.Exp(x)

    rounds = [e.text for e in events(chain(*["Exp"] * 8), ExpExp) if e.kind == "round"]
    assert [int(text.split()[0]) for text in rounds[:3]] == [4, 2, 1]


def test_new_nodes_wait_for_lower_priorities_before_higher_ones_see_them() -> None:
    lower = renaming("Log", "Sqrt", name=classmethod(lambda cls: "A"))
    middle = renaming("Exp", "Log", name=classmethod(lambda cls: "B"))
    higher = renaming("Log", "Abs", priority=1, name=classmethod(lambda cls: "C"))
    start = renaming("Neg", "Exp", priority=1, name=classmethod(lambda cls: "D"))
    heard = events(chain("Neg"), [lower, middle, higher, start])
    assert [e.pattern for e in heard if e.kind == "applied"] == ["D", "B", "A"]


def test_new_nodes_wait_for_patterns_of_lower_priority_in_the_same_round() -> None:
    lower = renaming("Log", "Sqrt")
    patterns = [lower, renaming("Exp", "Log", priority=1), renaming("Log", "Neg", priority=1)]
    assert types(tuned(chain("Exp"), patterns)) == ["Sqrt"]


@pytest.mark.parametrize("later", [[], [renaming("Floor", "Abs", priority=2)]])
def test_the_last_patterns_leave_the_neighbourhood_to_the_last_look(later: list[Any]) -> None:
    """Nodes near a change are not offered just before all nodes are."""
    patterns = [renaming("Neg", "Exp"), renaming("Exp", "Log", priority=1), *later]
    heard = events(chain("Neg", "Ceil"), patterns)
    texts = [e.text for e in heard if e.kind == "round"]
    assert texts == ["1 matches, 1 applied", "0 matches, 0 applied", "1 matches, 1 applied"]


def test_a_rewrite_in_a_subgraph_leaves_the_order_in_the_main_graph_alone() -> None:
    branches = (
        "z = If(c) <then_branch = t () => (float[3] a) { a = Neg(x) }, "
        "else_branch = e () => (float[3] b) { b = Floor(x) }>"
    )
    text = f"agraph (float[3] x, bool c) => (float[3] y, float[3] z) {{ y = Exp(x) {branches} }}"
    patterns = [
        renaming("Log", "Sqrt"),
        *(renaming(*names, priority=1) for names in (("Exp", "Log"), ("Neg", "Ceil"))),
        renaming("Log", "Abs", priority=2),
    ]
    assert types(tuned(text, patterns)) == ["Sqrt", "If"]


@pytest.mark.parametrize(("strategy", "expected"), [("priority", ["Abs"]), ("largest", ["Floor"])])
def test_strategies(strategy: str, expected: list[str]) -> None:
    class Eager(AbsNegNegPattern):
        priority = 0

    after = tuned(
        chain("Neg", "Neg", "Abs"), [AbsNegPattern, Eager, NegNegPattern], strategy=strategy
    )
    assert types(after) == expected


def test_the_largest_of_overlapping_matches_of_one_pattern_wins() -> None:
    class Longest(EasyPatternOptimization):
        """Up to three Negs."""

        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            t = g.op.Neg(g.op.Exp(x))
            return g.op.Neg(t) if g.option("long") else t

        def apply_pattern(self, g: PatternRewriter, x: str, long: bool) -> str:
            return g.op.Floor(x) if long else g.op.Ceil(x)

    assert types(tuned(chain("Exp", "Neg", "Neg"), [Longest], strategy="largest")) == ["Floor"]


def test_an_operator_set_out_of_range() -> None:
    old = renaming("Neg", "Exp", max_opset=17)
    new = renaming("Neg", "Log", min_opset=18)
    assert types(tuned(chain("Neg"), [old, new], 17)) == ["Exp"]
    assert types(tuned(chain("Neg"), [old, new], 18)) == ["Log"]


def test_most_rounds() -> None:
    text = chain(*["Neg"] * 16)
    assert len(types(tuned(text, NegNegPattern))) == 1, (
        "an output cannot be the input: an Identity is left"
    )
    assert len(types(tuned(text, NegNegPattern, max_iter=0))) == 16
    heard = events(text, NegNegPattern, max_iter=1)
    assert [e.kind for e in heard].count("round") == 1
    gr = builder(
        chain("Neg", "Exp", "Neg"), [renaming("Neg", "Log"), renaming("Exp", "Abs", priority=2)]
    )
    rows = gr.optimize(max_iter=1)
    assert [n.op_type for n in gr.nodes] == ["Log", "Exp", "Log"]
    assert max(row["iteration"] for row in rows) == 1


def test_the_end_is_confirmed_by_a_last_look_at_all_nodes() -> None:
    log = renaming("Log", "Sqrt")

    class FarAway(PatternOptimization):
        """Rewrites the first node once a node far away has changed, which no worklist can know."""

        anchors = ("Exp",)
        radius = 0

        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            far = any(other.op_type == "Sqrt" for other in g.iter_nodes())
            return MatchResult(self, [node], self.apply) if far else self.none(node)

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return [g.make_node("Abs", nodes[0].input, nodes[0].output)]

    after = tuned(chain("Exp", *["Ceil"] * 9, "Log"), [FarAway, log])
    assert types(after) == ["Abs", *["Ceil"] * 9, "Sqrt"]


def test_later_rounds_look_at_the_neighbourhood_only() -> None:
    pattern = renaming("Neg", "Exp")
    other = renaming("Floor", "Floor", radius=1)

    class Watching(other):  # type: ignore[misc, valid-type]
        def match(self, g: Any, node: Node, matched: Any) -> None:
            self.seen.append(node.output[0])

    tuned(chain("Floor", *["Ceil"] * 5, "Neg", "Ceil", "Floor"), [Watching, pattern])
    seen = Watching.seen
    assert seen.count("t1") == 2, "the first look and the last one"
    assert seen.count("t9") <= 3


# ------------------------------------------------------------------ matches that fail


def test_a_match_that_no_longer_holds_is_dropped() -> None:
    class Greedy(PatternOptimization):
        """Claims Exp alone, though it relied on what comes after it."""

        anchors = ("Exp",)

        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            after = g.next_node(node.output[0])
            if after is None or after.op_type != "Neg":
                return self.none(node)
            return MatchResult(self, [node], self.apply)

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return [g.make_node("Log", nodes[0].input, nodes[0].output)]

    class BeforeGreedyPattern(renaming("Neg", "Abs")):  # type: ignore[misc]
        pass

    both = [BeforeGreedyPattern, Greedy]
    heard = events(chain("Exp", "Neg"), both, strategy="largest")
    assert [(e.kind, e.pattern) for e in heard if e.kind != "round"][:4] == [
        ("matched", "BeforeGreedy"), ("matched", "Greedy"), ("applied", "BeforeGreedy"),
        ("dropped", "Greedy"),
    ]  # fmt: skip
    heard = events(chain("Exp", "Neg"), both)
    assert [(e.kind, e.pattern) for e in heard if e.kind != "round"] == [
        ("matched", "BeforeGreedy"),
        ("applied", "BeforeGreedy"),
    ]
    assert types(tuned(chain("Exp", "Neg"), both)) == ["Exp", "Abs"]


class Raising(PatternOptimization):
    anchors = ("Neg",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        raise KeyError("out of luck")


class RaisingInApply(EasyPatternOptimization):
    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Neg(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        g.op.Gelu(g.op.Add(x, 5.0), domain="com.microsoft")
        raise ZeroDivisionError("oh")


@pytest.mark.parametrize("pattern", [Raising, RaisingInApply])
def test_a_pattern_that_raises_is_skipped_with_one_warning(
    pattern: type[PatternOptimization], caplog: pytest.LogCaptureFixture
) -> None:
    text = chain("Neg", "Exp", "Neg", "Neg")
    with caplog.at_level(logging.WARNING, "xoptim"):
        after = tuned(text, [pattern, renaming("Exp", "Log")], strict=False, remove_unused=False)
    (record,) = caplog.records
    assert re.search(f"{pattern.name()} failed .*'Neg'", record.getMessage())
    assert types(after) == ["Neg", "Log", "Neg", "Neg"], "the others go on"
    before = parse(text)
    assert after.graph.initializer == before.graph.initializer, "nothing half-made is left behind"
    assert after.opset_import == before.opset_import


@pytest.mark.parametrize("pattern", [Raising, RaisingInApply])
def test_in_strict_mode_a_pattern_that_raises_is_fatal(pattern: type[PatternOptimization]) -> None:
    with pytest.raises(XoptimError, match=rf"{pattern.name()} .*'Neg': \w+: ") as error:
        tuned(chain("Neg"), pattern)
    assert isinstance(error.value.__cause__, (KeyError, ZeroDivisionError))


class Wrong(EasyPatternOptimization):
    """Gives a result of another shape."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Neg(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Concat(x, g.op.Add(x, 7.0), axis=0)


def test_a_rewrite_that_would_break_the_graph_is_dropped() -> None:
    text = chain("Neg", sizes=("2", "3"))
    heard = events(text, Wrong, strict=False, remove_unused=False)
    (dropped,) = [e for e in heard if e.kind == "dropped"]
    assert re.search(r"shape .*\[2, 3\] .*\[4, 3\]", dropped.text)
    after = tuned(text, Wrong, strict=False, remove_unused=False)
    assert after == parse(text)
    with pytest.raises(XoptimError, match=r"Wrong .*'Neg': .*'t1' .* shape"):
        tuned(text, Wrong)


def test_what_a_replacement_makes_and_nobody_reads_is_removed() -> None:
    class Wasteful(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Neg(x)

        def apply_pattern(self, g: PatternRewriter, x: str) -> str:
            g.op.Add(g.op.Exp(x), 3.0)
            return g.op.Log(x)

    after = tuned(chain("Neg"), Wasteful)
    assert types(after) == ["Log"]
    assert not after.graph.initializer


# ------------------------------------------------------------------ patterns without end


def test_two_patterns_that_undo_each_other_are_named() -> None:
    with pytest.raises(
        BudgetError,
        match=r"(NegToExp and ExpToNeg|ExpToNeg and NegToExp) .*'t1'",
    ):
        tuned(chain("Neg"), [renaming("Neg", "Exp"), renaming("Exp", "Neg")])


def test_a_pattern_that_goes_round_alone_is_named() -> None:
    with pytest.raises(BudgetError, match=r"NegToNeg .*'t1'"):
        tuned(chain("Neg"), renaming("Neg", "Neg"))


class Growing(EasyPatternOptimization):
    """Neg(x) → Neg(Ceil(Neg(Ceil(x)))), twice as many each round."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Neg(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Neg(g.op.Ceil(g.op.Neg(g.op.Ceil(x))))


@pytest.mark.slow
def test_a_pattern_that_grows_without_end_is_stopped() -> None:
    with pytest.raises(BudgetError, match=r" \d+ rounds .* \d+ nodes; .*Growing"):
        tuned(chain("Neg"), Growing)


@pytest.mark.parametrize(("count", "iterations"), [(10, [1, 1]), (1010, [1, 2])])
def test_the_nodes_of_a_graph_that_grows_are_counted_before_more_are_added(
    count: int, iterations: list[int]
) -> None:
    """Patterns that double each other's nodes would make a round of 2^patterns nodes."""

    class ExpGrows(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Exp(x)

        def apply_pattern(self, g: PatternRewriter, x: str) -> str:
            return g.op.Max(g.op.Log(x), *(g.op.Ceil(x) for _ in range(count)))

    heard = events(chain("Exp"), [ExpGrows, renaming("Log", "Sqrt")])
    applied = [(e.pattern, e.iteration) for e in heard if e.kind == "applied"]
    assert applied[:2] == [*zip(["ExpGrows", "LogToSqrt"], iterations, strict=True)]


def test_a_long_sum_that_is_absorbed_piece_by_piece_has_an_end() -> None:
    class Absorb(PatternOptimization):
        """Concat absorbs one of the Concats that it reads at a time."""

        anchors = ("Concat",)

        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            for name in node.input:
                before = g.node_before(name)
                if before is not None and before.op_type == "Concat":
                    return MatchResult(self, [before, node], self.apply)
            return self.none(node)

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            before, node = nodes
            inputs = [
                n for i in node.input for n in (before.input if i == before.output[0] else (i,))
            ]
            return [g.make_node("Concat", inputs, node.output, axis=0)]

    parts = " ".join(f"c{i} = Concat <axis = 0> (x, x)" for i in range(100))
    text = (
        f"agraph (float[1] x) => (float[200] y) {{ {parts} "
        f"y = Concat <axis = 0> ({', '.join(f'c{i}' for i in range(100))}) }}"
    )
    after = tuned(text, Absorb)
    assert types(after) == ["Concat"]
    assert len(after.graph.node[0].input) == 200


# ------------------------------------------------------------------ one step at a time


def test_one_rewrite_a_round() -> None:
    text = chain(*["Exp", "Neg", "Neg"] * 20, "Abs")
    heard: list[Any] = []
    gr = builder(
        text,
        [NegNegPattern, renaming("Exp", "Log")],
        DebugSettings(step=True),
        on_event=heard.append,
    )
    gr.optimize()
    assert [n.op_type for n in gr.nodes] == ["Log"] * 20 + ["Abs"]
    applied = [e.text.split(", ")[1] for e in heard if e.kind == "round"]
    assert set(applied) <= {"1 applied", "0 applied"}
    assert applied.count("1 applied") == 40
    verify(gr.model)


def test_a_step_that_fails_does_not_end_the_run() -> None:
    text = "agraph (float[2,3] t0) => (float[2,3] t1, float[2,3] t2) { t1 = Neg(t0) t2 = Exp(t0) }"
    gr = builder(text, [Wrong, renaming("Exp", "Log")], DebugSettings(step=True))
    gr.optimize()
    assert [n.op_type for n in gr.nodes] == ["Neg", "Log"]


# -------------------------------------------------------- names that must stay, marks, other graphs


def test_a_name_that_must_not_disappear() -> None:
    text = chain("Exp", "Neg", "Neg", "Abs")
    for name, who in (("t2", "pattern NegNeg removes"), ("t3", "removes")):
        gr = builder(text, NegNegPattern, DebugSettings(keep=name))
        with pytest.raises(BudgetError, match=f"PATTERNNOREMOVE: .*{who} result '{name}'"):
            gr.optimize()
    gr = builder(text, NegNegPattern, DebugSettings(keep="t1"))
    gr.optimize()
    gr = builder(
        "agraph (float[n] x) => (float[n] y) { y = Neg(x) u = Exp(x) }",
        None,
        DebugSettings(keep="u"),
    )
    with pytest.raises(BudgetError, match=r"PATTERNNOREMOVE: .*remove_unused .*'u'"):
        gr.optimize()


def test_new_nodes_carry_the_name_of_their_pattern() -> None:
    after = tuned(chain("Neg", "Exp"), renaming("Neg", "Log"), tag_nodes=True)
    marks = [{p.key: p.value for p in node.metadata_props} for node in after.graph.node]
    assert marks == [{"xoptim.pattern": "NegToLog"}, {}]
    again = tuned(after, renaming("Exp", "Abs"), tag_nodes=True)
    assert [p.value for node in again.graph.node for p in node.metadata_props] == [
        "NegToLog",
        "ExpToAbs",
    ]


def test_subgraphs_and_functions_are_optimized() -> None:
    proto = parse(
        """agraph (bool c, float[2] x) => (float[2] y) {
          a = Neg(x) b = Neg(a) d = l.f(b)
          y = If (c) <then_branch = t () => (float[2] p) { e = Neg(d) f = Neg(e) p = Exp(f) },
                      else_branch = u () => (float[2] p) { e = Neg(x) f = Neg(e) p = Abs(f) }>
        } <domain: "l", opset_import: ["" : 18]> f (u) => (v) { k = Neg(u) m = Neg(k) v = Abs(m)
          }""",
        domains={"l": 1},
    )
    gr = GraphBuilder(
        proto, optimization_options=OptimizationOptions(patterns=NegNegPattern, strict=True)
    )
    gr.optimize()
    verify(gr.model)
    assert [[n.op_type for n in g.nodes] for g in gr.model.graphs()] == [
        ["Abs"],
        ["f", "If"],
        ["Exp"],
        ["Abs"],
    ]
    assert gr.report().applied == {"NegNeg": 3}, (
        "a branch reads Neg(x) of the graph around it before patterns run"
    )
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": np.array([1, -2], np.float32)}
        same_results(proto, gr.to_onnx(optimize=False), feeds)


def test_providers() -> None:
    cuda = renaming("Neg", "Exp", providers=("cuda",))
    assert types(tuned(chain("Neg"), cuda)) == ["Neg"]
    assert types(tuned(chain("Neg"), cuda, provider="cuda")) == ["Exp"]


def test_the_matches_of_the_round_are_handed_over() -> None:
    handed: list[int] = []

    class Counting(PatternOptimization):
        anchors = ("Neg",)

        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            handed.append(len(matched))
            return MatchResult(self, [node], self.apply)

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return [g.make_node("Exp", nodes[0].input, nodes[0].output)]

    tuned(chain("Neg", "Neg", "Neg"), Counting)
    assert handed[:3] == [0, 1, 2]


def test_counts() -> None:
    report = reported(
        chain(*["Neg"] * 8, "Exp"), [NegNegPattern, renaming("Exp", "Log", exactness="rounding")]
    )
    assert report.applied == {"ExpToLog": 1, "NegNeg": 4}
    assert (report.nodes_before, report.nodes_after, report.exactness) == (9, 1, "rounding")
    assert reported(chain("Exp"), NegNegPattern).exactness == "exact"


def test_optimizing_twice_changes_nothing_more() -> None:
    text = chain("Exp", "Neg", "Neg", "Abs", "Neg", "Abs")
    once = tuned(text, [NegNegPattern, AbsNegPattern])
    assert tuned(once, [NegNegPattern, AbsNegPattern]) == once
    assert optimize(once, patterns=None) == once
