"""Passes over whole models: where they run, how often, what is said about them, and what happens
when they fail.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tests.engine.rules import (
    AbsNegPattern,
    NegNegPattern,
    builder,
    chain,
    events,
    renaming,
    reported,
    tuned,
)
from tests.support import load, parse, same_results, types, verify
from xoptim import (
    GraphBuilder,
    ModelPass,
    Node,
    OptimizationOptions,
    PatternOptimization,
    XoptimError,
    optimize,
)
from xoptim.api.whole_model import GlobalRewriter, global_rewriter
from xoptim.engine.environment import DebugSettings
from xoptim.engine.events import Application
from xoptim.engine.run import Optimizer, TopologicalNavigator
from xoptim.facts.errors import BudgetError
from xoptim.graph.model import Model
from xoptim.match.rewrite import PHASES

Function = Callable[[GraphBuilder], "int | None"]


def swap(old: str, new: str, **metadata: Any) -> type[GlobalRewriter]:
    """A rewriter that puts one operator in the place of another."""

    def change(gr: GraphBuilder) -> int:
        nodes = [node for node in gr.nodes if node.op_type == old]
        for node in nodes:
            gr.replace(node.output[0], getattr(gr.op, new)(*node.input))
        return len(nodes)

    return global_rewriter(name=f"{old}To{new}", **metadata)(change)


def counting(log: list[str], word: str, **metadata: Any) -> type[GlobalRewriter]:
    """A rewriter that writes down when it runs, and does nothing."""
    return global_rewriter(name=f"Log{word}", **metadata)(lambda gr: log.append(word))


def types_of(nodes: Iterable[Node]) -> list[str]:
    return [node.op_type for node in nodes]


# ---------------------------------------------------------------- what they are


def test_a_function_becomes_a_class() -> None:
    @global_rewriter(phase="target", exactness="exact", tags=["mine"])
    def nothing_at_all(gr: GraphBuilder) -> None:
        """x → x"""

    assert issubclass(nothing_at_all, GlobalRewriter)
    assert (nothing_at_all.__name__, nothing_at_all.__module__) == ("NothingAtAllPattern", __name__)
    assert (nothing_at_all.phase, nothing_at_all.exactness, nothing_at_all.tags) == (
        "target",
        "exact",
        ("mine",),
    )
    assert nothing_at_all.arrow() == "x → x"
    for metadata, message in (
        ({"colour": "red"}, "a pass has no 'colour'; it has after, before, "),
        ({"anchors": ("Neg",)}, "a pass has no 'anchors'"),
        (
            {"phase": "never"},
            "phase is one of canonicalize, specialize, target, final, lower, not 'never'",
        ),
        ({"before": "Other"}, "before is a tuple"),
    ):
        with pytest.raises(TypeError, match=message):
            global_rewriter(**metadata)(lambda gr: None)


def test_what_it_returns() -> None:
    for answer, changes, expected in (
        (3, False, 3),
        (None, False, 0),
        (None, True, 1),
        (True, True, 1),
        (False, False, 0),
    ):

        def change(gr: GraphBuilder, answer: Any = answer, changes: bool = changes) -> Any:
            if changes:
                gr.replace("t1", gr.op.Exp("t0"))
            return answer

        gr = GraphBuilder(parse(chain("Neg", "Abs")))
        assert global_rewriter(name="Change")(change)().rewrite(gr) == expected
        assert gr.model.listeners == []
    with pytest.raises(TypeError, match="'many'"):
        global_rewriter(name="Change")(lambda gr: "many")().rewrite(gr)  # type: ignore[arg-type,return-value]


def test_it_is_a_pass() -> None:
    """It is a pass, not a pattern: it has no anchors and no matches."""
    model = load(chain("Neg", "Abs", "Neg"))
    rewriter = swap("Neg", "Exp")()
    assert isinstance(rewriter, ModelPass)
    assert not isinstance(rewriter, PatternOptimization)
    assert (
        rewriter.run(model),
        types_of(node for node in model.graph.nodes if node.op_type == "Exp"),
    ) == (2, ["Exp"] * 2)
    model.graph.sweep()
    assert rewriter.run(model) == 0


def test_a_pass_on_the_model_itself() -> None:
    class SwapLastPattern(ModelPass):
        """Neg(x) → Exp(x), at the end"""

        def run(self, model: Model) -> int:
            found = list(model.graph.of_type("Neg"))
            builder = GraphBuilder.of(model)
            for node in found:
                builder.replace(node.output[0], builder.op.Exp(*node.input))
            return len(found)

    report = reported(chain("Neg", "Abs", "Neg"), SwapLastPattern)
    assert report.applied == {"SwapLast": 2}
    with pytest.raises(
        XoptimError, match="pass Nothing failed: NotImplementedError: NothingPattern "
    ):
        tuned(chain("Neg"), type("NothingPattern", (ModelPass,), {}))


# ---------------------------------------------------------------- when they run


def test_what_it_makes_is_kept_and_what_it_leaves_is_swept() -> None:
    text = chain("Neg", "Abs", "Neg")
    after = tuned(text, swap("Neg", "Exp"))
    assert types(after) == ["Exp", "Abs", "Exp"]
    assert [value.name for value in after.graph.output] == ["t3"]
    gr = builder(text, swap("Neg", "Exp"))
    gr.optimize()
    verify(gr.model)
    assert gr.model.listeners == []


def test_each_at_its_place() -> None:
    log: list[str] = []

    def phase(name: str) -> Any:
        marker = renaming("Abs", "Abs", phase=name)

        class Marker(marker):  # type: ignore[misc,valid-type]
            def match(self, g: Any, node: Any, matched: Any) -> None:
                log.append(name)

        return type(f"Marker{name.title()}Pattern", (Marker,), {"phase": name})

    rewriters = [
        counting(log, f"{number} {name}", phase=name)
        for number in (2, 1)
        for name in reversed(PHASES)
    ]
    tuned(chain("Abs"), [*rewriters, *map(phase, PHASES)])
    # Once a pattern is active, it is offered what changes, and nothing does.
    assert list(dict.fromkeys(log)) == [
        word for name in PHASES for word in (f"1 {name}", f"2 {name}", name)
    ]
    assert [log.count(f"1 {name}") for name in PHASES] == [1] * len(PHASES), (
        "again only when something changed"
    )


def test_one_before_another() -> None:
    log: list[str] = []
    fields: dict[str, dict[str, Any]] = {
        "A": {}, "B": {"before": ("LogAPattern",)}, "C": {"before": ["LogB", "LogNone"]},
        "D": {"priority": 1, "before": ("LogC",)}, "E": {"phase": "target", "before": ("LogA",)},
    }  # fmt: skip
    tuned(chain("Abs"), [counting(log, word, **given) for word, given in fields.items()])
    assert log == ["D", "C", "B", "A", "E"], "not before what is in an earlier phase"
    log.clear()
    tuned(
        chain("Abs"), [counting(log, "A", before=("LogB",)), counting(log, "B", before=("LogA",))]
    )
    assert sorted(log) == ["A", "B"], "a contradiction ends"


def test_a_pattern_before_another() -> None:
    for before, expected in (((), "Floor"), (("NegToFloor",), "Sin")):
        patterns = [renaming("Neg", "Floor"), renaming("Neg", "Sin", before=before)]
        assert types(tuned(chain("Neg"), patterns)) == [expected]
        assert types(
            tuned(chain("Neg"), [patterns[0], type("SinLater", (patterns[1],), {"priority": 1})])
        ) == [expected]


def test_without_a_phase_between_them() -> None:
    log: list[str] = []
    tuned(chain("Abs"), [counting(log, name, phase=name) for name in reversed(PHASES)])
    assert log == list(PHASES)


def test_they_and_the_patterns_help_each_other() -> None:
    """The rewriter uncovers Neg(Neg(x)), the pattern Exp(Exp(x))."""

    def change(gr: GraphBuilder) -> int:
        count = 0
        for node in gr.nodes:
            before = gr.node_before(node.input[0])
            if node.op_type == "Exp" and before is not None and before.op_type == "Exp":
                gr.replace(node.output[0], before.input[0])
                count += 1
        return count

    unpack = global_rewriter(phase="specialize", name="ExpExp")(change)
    text = chain("Abs", "Exp", "Neg", "Exp", "Exp", "Neg", "Exp", "Floor")
    after = tuned(text, [unpack, NegNegPattern])
    assert types(after) == ["Abs", "Floor"]
    assert reported(text, [unpack, NegNegPattern]).applied == {"ExpExp": 2, "NegNeg": 1}
    assert types(tuned(text, [unpack, NegNegPattern], max_iter=1)) == [
        "Abs",
        "Exp",
        "Neg",
        "Neg",
        "Exp",
        "Floor",
    ]


def test_what_it_makes_is_offered_to_patterns_and_folded_and_merged() -> None:
    def change(gr: GraphBuilder) -> int:
        found = [node for node in gr.nodes if node.op_type == "Floor"]
        for node in found:
            three = gr.op.Add(
                gr.make_initializer("one", np.float32(1)), gr.make_initializer("two", np.float32(2))
            )
            gr.replace(node.output[0], gr.op.Mul(gr.op.Abs(gr.op.Neg(node.input[0])), three))
        return len(found)

    made = global_rewriter(phase="target", name="FloorToMore")(change)
    text = "agraph (float[2] x) => (float[2] y) { a = Floor(x) b = Floor(x) y = Sub(a, b) }"
    after = optimize(parse(text), patterns=[made, AbsNegPattern], merge=True)
    assert types(after) == ["Abs", "Mul", "Sub"]
    assert len(after.graph.initializer) == 1
    same_results(
        parse("agraph (float[2] x) => (float[2] y) { y = Sub(x, x) }"),
        after,
        {"x": np.array([1, -2], np.float32)},
    )


def test_it_ends() -> None:
    runs: list[int] = []

    def grow(gr: GraphBuilder) -> None:
        runs.append(len(gr.nodes))
        last = gr.nodes[-1]
        gr.replace(last.input[0], gr.op.Exp(gr.op.Neg(last.input[0])))

    with pytest.raises(XoptimError, match="depends on"):
        tuned(chain("Neg", "Abs"), global_rewriter(name="Grow")(grow))

    def lengthen(gr: GraphBuilder) -> None:
        runs.append(len(gr.nodes))
        gr.replace(gr.nodes[-1].output[0], gr.op.Exp(gr.op.Identity(gr.nodes[-1].input[0])))

    runs.clear()
    after = tuned(chain("Neg", "Abs"), global_rewriter(name="Lengthen")(lengthen))
    assert 2 <= len(runs) <= 10
    assert types(after) == ["Neg", "Exp"]


def test_it_works_on_subgraphs_if_it_likes() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) { y = If (c)
      <then_branch = t () => (float[2] p) { a = Neg(x) b = Neg(a) p = Exp(b) },
       else_branch = e () => (float[2] q) { q = Neg(x) }> }"""
    seen: list[list[str]] = []

    def look(gr: GraphBuilder) -> None:
        seen.append([node.op_type for graph in gr.model.graphs() for node in graph.nodes])

    tuned(text, global_rewriter(name="Look")(look))
    assert seen == [["If", "Neg", "Neg", "Exp", "Neg"]]
    tuned(text, [global_rewriter(name="Look")(look), NegNegPattern])
    assert seen[1] == [
        "If",
        "Neg",
        "Neg",
        "Exp",
        "Neg",
    ], "passes come before the patterns of their phase"
    assert seen[2] == ["If", "Exp", "Neg"], "and again after them"


def test_operator_sets_and_providers() -> None:
    log: list[str] = []
    rewriters = [
        counting(log, "New", min_opset=19), counting(log, "Old", max_opset=17),
        counting(log, "Now", min_opset=18, max_opset=18),
        counting(log, "Cuda", providers=("cuda",)),
    ]  # fmt: skip
    tuned(chain("Neg"), rewriters)
    assert log == ["Now"]
    tuned(chain("Neg"), rewriters, provider="cuda")
    assert set(log[1:]) == {"Now", "Cuda"}


def test_an_instance_may_have_another_place() -> None:
    log: list[str] = []
    moved = counting(log, "Moved")()
    vars(moved)["phase"] = "final"
    tuned(chain("Neg"), [moved, counting(log, "Target", phase="target")])
    assert log == ["Target", "Moved"]


# ---------------------------------------------------------------- what is said about them


def test_report_and_statistics() -> None:
    for exactness in ("exact", "rounding", "finite", "approximate"):
        report = reported(chain("Neg", "Abs", "Neg"), swap("Neg", "Exp", exactness=exactness))
        assert (report.applied, report.exactness) == ({"NegToExp": 2}, exactness)
        (row,) = [row for row in report.rows if row["pattern"] == "apply_NegToExp"]
        assert (row["instances"], row["added"], row["removed"], row["match_index"]) == (2, 2, 2, 1)
        assert row["time_in"] > 0
    report = reported(chain("Neg"), swap("Abs", "Exp", exactness="approximate"))
    assert (report.applied, report.exactness) == ({}, "exact")


def test_events_and_tags() -> None:
    found = [
        event
        for event in events(chain("Neg", "Abs"), swap("Neg", "Exp"))
        if event.pattern == "NegToExp"
    ]
    (applied,) = found
    assert (applied.kind, applied.text, types_of(applied.added)) == (
        "applied",
        "1 rewrites",
        ["Exp"],
    )
    after = tuned(chain("Neg", "Abs"), swap("Neg", "Exp"), tag_nodes=True)
    assert [[p.value for p in node.metadata_props] for node in after.graph.node] == [
        ["NegToExp"],
        [],
    ]


def test_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    tuned(chain("Neg", "Abs"), swap("Neg", "Exp"), verbose=10)
    assert any("applied NegToExp" in record.getMessage() for record in caplog.records)


def test_one_rewrite_each_time() -> None:
    text = chain("Neg", "Abs", "Neg", "Floor")
    made: list[Application] = []
    patterns = [swap("Neg", "Exp"), renaming("Floor", "Ceil")]
    tuned(text, patterns, on_application=made.append)
    assert [(a.number, a.pattern.name(), a.matched == ()) for a in made] == [
        (1, "NegToExp", True),
        (2, "FloorToCeil", False),
    ]
    assert types(tuned(text, patterns, max_rewrites=0)) == ["Neg", "Abs", "Neg", "Floor"]
    assert types(tuned(text, patterns, max_rewrites=1)) == ["Exp", "Abs", "Exp", "Floor"]
    assert types(tuned(text, patterns, max_rewrites=2)) == ["Exp", "Abs", "Exp", "Ceil"]


def test_it_can_be_dropped() -> None:
    assert types(tuned(chain("Neg"), swap("Neg", "Exp"), drop=("NegToExp",))) == ["Neg"]


# ---------------------------------------------------------------- when they fail


def failing(error: Exception, **metadata: Any) -> type[GlobalRewriter]:
    def change(gr: GraphBuilder) -> int:
        gr.replace("t1", gr.op.Exp("t0"))
        raise error

    return global_rewriter(name="Failing", **metadata)(change)


def test_one_that_raises_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    gr = builder(chain("Neg", "Abs", "Neg", "Neg"), [failing(ValueError("what")), NegNegPattern])
    heard: list[Any] = []
    gr.optimization_options = OptimizationOptions(
        patterns=[failing(ValueError("what")), NegNegPattern],
        constant_folding=False,
        on_event=heard.append,
    )
    gr.optimize()
    verify(gr.model)
    (record,) = caplog.records
    assert re.fullmatch(
        r"pass Failing failed: ValueError: what \(.*test_global.py:\d+\); it is skipped from"
        r" now on",
        record.getMessage(),
    )
    assert [node.op_type for node in gr.nodes] == [
        "Exp",
        "Abs",
    ], "what it had done by then was right"
    assert [event.kind for event in heard if event.pattern == "Failing"] == ["failed", "applied"]


@pytest.mark.parametrize("error", [ValueError("what"), KeyError("x"), XoptimError("no")])
def test_when_strict_that_is_an_error(error: Exception) -> None:
    with pytest.raises(XoptimError, match="pass Failing failed: "):
        tuned(chain("Neg", "Abs"), failing(error), strict=True)


def test_a_refused_replacement_that_is_not_caught() -> None:
    def change(gr: GraphBuilder) -> None:
        gr.replace("t1", "t2")

    text = chain("Neg", "Abs")
    assert (
        tuned(text, global_rewriter(name="Wrong")(change), strict=False).graph.node
        == parse(text).graph.node
    )
    with pytest.raises(XoptimError, match="'t2' depends on 't1'"):
        tuned(text, global_rewriter(name="Wrong")(change))


def test_budgets_are_not_swallowed() -> None:
    with pytest.raises(BudgetError, match="enough"):
        tuned(chain("Neg", "Abs"), failing(BudgetError("enough")), strict=False)


def test_a_result_that_must_stay() -> None:
    remove = global_rewriter(name="Remove")(lambda gr: gr.graph.remove(gr.nodes[-1]))
    gr = builder(
        "agraph (float[2] x) => (float[2] y) { y = Neg(x) u = Abs(x) }",
        remove,
        DebugSettings(keep="u"),
    )
    gr.optimization_options = OptimizationOptions(
        patterns=remove, remove_unused=False, debug=DebugSettings(keep="u")
    )
    with pytest.raises(BudgetError, match=r"PATTERNNOREMOVE: .*Remove .*'u'"):
        gr.optimize()


def test_without_a_builder() -> None:
    """A model is enough to optimize it, whatever rewrites are selected."""
    model = load(chain("Neg", "Neg", "Neg"))
    Optimizer(
        model,
        OptimizationOptions(
            patterns=[swap("Neg", "Exp", phase="target"), TopologicalNavigator(NegNegPattern)]
        ),
    ).run()
    assert types_of(model.graph.nodes) == ["Exp"]
    assert model.listeners == []
