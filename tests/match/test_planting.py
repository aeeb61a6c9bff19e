"""Random patterns, planted in random graphs, are found exactly where they are, and rewriting them
changes no number.

A random source decides everything: the pattern (`tests.match.planting`), the graph with copies of
it and with copies in which one condition is broken (`tests.match.garden`). What is found is
compared with what was planted, and with what a matcher finds that tries everything
(`tests.match.brute_force`). Many more cases: ``make fuzz-match``.
"""

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, note, settings, strategies as st

from tests.match.brute_force import assignments
from tests.match.garden import Found, Planted, frozen, plant
from tests.match.matching import find, rewrite
from tests.match.planting import Fixed, Listed, Number, Outside
from tests.match.rebuilding import build, lowered
from tests.support import run, types, verify
from xoptim.api.optimizing import optimize
from xoptim.engine.engine import all_matches
from xoptim.engine.events import Event
from xoptim.graph.load import load_model
from xoptim.match import (
    EasyPatternOptimization,
    MatchResult,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.easy import compiled
from xoptim.match.refusal import Refusal, listening

QUIET: dict[str, Any] = {"constant_folding": False, "merge": False, "tag_nodes": False}
MAY_FAIL = ("would form a cycle with the ones that stay",)
"""Ends of the reasons for which a rewrite may be dropped: that there is no place for it is known
when it is made.
"""
CASES = 200
CHOSEN = settings.get_profile("fuzz")
EFFORT = (
    CHOSEN
    if settings.default is not None and settings.default.max_examples == CHOSEN.max_examples
    else settings(
        max_examples=CASES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
)


def found_in(pattern: EasyPatternOptimization, model: onnx.ModelProto) -> list[MatchResult]:
    """All matches, as the engine finds them."""
    loaded = load_model(model)
    return all_matches(loaded.graph, [pattern], "cpu")


def as_found(match: MatchResult, drawn: EasyPatternOptimization) -> Found:
    """A match as the brute force writes it."""
    assert match.bindings is not None
    bindings = {name: value for name, value in match.bindings.items() if name != "found"}
    program = next(p for p in compiled(drawn) if p.trace.options.items() <= bindings.items())
    nodes = match.nodes[: len(program.trace.nodes)]
    return tuple(node.name for node in nodes if node is not None), frozen(bindings)


def check(planted: Planted) -> None:
    """Compare what is found with what was planted and with what brute force finds.

    Rewrite and compare numbers.
    """
    pattern, model, copies = planted
    drawn = build(pattern)
    expected = assignments(pattern, model)
    # A noise node that reads a kept result may make a node stay that also gives a result of the
    # pattern.
    planted_there = assignments(pattern, model, double=True)
    for copy in copies:
        assert (copy.found in planted_there) is (copy.fault is None), (
            f"the test is wrong about {copy}"
        )
    matches = found_in(drawn, model)
    found = [as_found(match, drawn) for match in matches]
    for one in found:
        assert one in expected, f"found, but not there: {one}"
    anchors = {match.anchor.name for match in matches if match.anchor is not None}
    for roles, bindings in expected:
        program = next(
            p for p in compiled(drawn) if p.trace.options.items() <= dict(bindings).items()
        )
        assert roles[program.anchor.index] in anchors, f"there, but not found: {roles} {bindings}"
    heard: list[Refusal] = []
    with listening(heard.append):
        assert [as_found(match, drawn) for match in found_in(drawn, model)] == found, (
            "listening changes what is found"
        )
    check_rewritten(drawn, model, bool(matches))


def check_rewritten(drawn: EasyPatternOptimization, model: onnx.ModelProto, is_there: bool) -> None:
    """Rewrite until nothing is left, and compare the numbers."""
    events: list[Event] = []
    after = optimize(model, patterns=[drawn], on_event=events.append, **QUIET)
    reasons = [
        event.text
        for event in events
        if event.kind in ("failed", "dropped") and event.text != "it no longer matches"
    ]
    assert all(reason.endswith(MAY_FAIL) for reason in reasons), reasons
    assert reasons or not is_there or any(event.kind == "applied" for event in events)
    assert reasons or not found_in(drawn, after), "something is left"
    verify(load_model(after))
    rng = np.random.default_rng(0)
    feeds = {
        v.name: rng.standard_normal((3, 3)).astype(np.float32) / 2
        for v in model.graph.input
        if v.name[:2] == "in"
    }
    feeds["flag"] = np.array(True)
    for output, a, b in zip(
        model.graph.output, run(lowered(model), feeds), run(lowered(after), feeds), strict=True
    ):
        scale = max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0)))
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-4 * scale, err_msg=output.name)


@pytest.mark.slow
@EFFORT
@given(st.randoms(use_true_random=False))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_planted_patterns_are_found_and_rewritten(rng: Random) -> None:
    planted = plant(rng)
    note(planted.pattern.source())
    note(onnx.printer.to_text(planted.model.graph))
    note("\n".join(map(str, planted.copies)))
    check(planted)


@pytest.mark.slow
@EFFORT
@given(st.integers(0, 2**32))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_patterns_that_are_drawn_evenly(seed: int) -> None:
    """The same with patterns that are not drawn by hypothesis, whose cases are small and simple
    rather than typical.
    """
    check(plant(Random(seed)))


def test_everything_is_drawn() -> None:
    """Nothing that patterns can say, and no way to break them, is left out."""
    seen: Counter[str] = Counter()
    for seed in range(CASES):
        pattern, _, copies = plant(Random(seed))
        seen.update(
            "whole" if copy.fault is None else f"broken {copy.fault.kind}" for copy in copies
        )
        seen.update(["several results"] if len(pattern.outputs) > 1 else [])
        seen.update(["anchor"] if pattern.anchor else [])
        seen.update(
            [pattern.interior, pattern.condition.kind if pattern.condition is not None else ""]
        )
        for call in pattern.calls:
            seen.update(spec.kind for _, spec in call.attributes)
            seen.update(
                [
                    call.op.domain,
                    call.mark,
                    "ANY" if call.others == "ANY" else "others" * bool(call.others),
                ]
            )
            flags = ("associative", "any_order", "other", "optional", "parts")
            seen.update(flag for flag in flags if getattr(call, flag))
            seen.update(type(operand).__name__ for operand in call.operands)
            seen.update(
                "may be absent" for o in call.operands if isinstance(o, Outside) and o.optional
            )
            seen.update("scalar" for o in call.operands if isinstance(o, Fixed) and o.scalar)
            seen.update(
                "vector"
                for o in call.operands
                if isinstance(o, Number) and isinstance(o.value, tuple)
            )
            seen.update("constants" for o in call.operands if isinstance(o, Listed) and o.constant)
    faults = ["operator", "domain", "attribute", "literal", "constant", "swap", "reader"]
    faults += ["missing", "surplus", "repeat", "terms", "condition", "inward"]
    wanted = [
        "whole",
        "several results",
        "anchor",
        "refuse",
        "keep",
        "different",
        "computed",
        "equal",
        "any_of",
        "any",
        "capture",
        "positive",
        "acme",
        "com.microsoft",
        "ANY",
        "others",
        "associative",
        "any_order",
        "other",
        "optional",
        "parts",
        "Outside",
        "Result",
        "Number",
        "Fixed",
        "Listed",
        "Parts",
        "may be absent",
        "scalar",
        "vector",
        "constants",
        *(f"broken {fault}" for fault in faults),
    ]
    assert [word for word in wanted if not seen[word]] == []
    assert seen["whole"] > CASES


# ------------------------------------------------------------------ what it found


def drawn(describe: Any, replace: Any) -> EasyPatternOptimization:
    """A pattern made of two functions ``(g, ...)``."""
    members = {"match_pattern": staticmethod(describe), "apply_pattern": staticmethod(replace)}
    found: EasyPatternOptimization = type("DrawnPattern", (EasyPatternOptimization,), members)()
    return found


def test_a_node_that_stays_makes_a_result() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Any:
        a = g.op.Abs(x)
        return a, g.op.Neg(g.keep(g.op.Relu(a)))

    def replace(g: PatternRewriter, x: str) -> Any:
        a = g.op.Exp(x)
        return a, g.op.Neg(g.op.Exp(a))

    text = """agraph (float[N] x) => (float[N] y, float[N] v, float[N] w)
        { a = Abs(x) b = Relu(a) y = Neg(b) v = Floor(a) w = Ceil(b) }"""
    chosen = drawn(describe, replace)
    assert (find(chosen, text) is None) is ("Exp" not in types(rewrite(chosen, text)))


def test_one_of_two_results_of_a_node_is_read_elsewhere() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Any:
        a, b = g.op.Fork(x, domain="acme", outputs=2)
        return a, g.op.Neg(b)

    def replace(g: PatternRewriter, x: str) -> Any:
        a, b = g.op.Spoon(x, domain="acme", outputs=2)
        return a, b

    text = """agraph (float[N] x) => (float[N] y, float[N] v, float[N] w)
        { a, b = acme.Fork(x) y = Neg(b) v = Floor(a) w = Ceil(b) }"""
    chosen = drawn(describe, replace)
    chosen.__class__.interior = "keep"
    domains = {"acme": 1}
    there = find(chosen, text, domains=domains) is not None
    assert there is ("Spoon" in types(rewrite(chosen, text, domains=domains)))


def test_two_results_that_are_the_same() -> None:
    def describe(g: PatternBuilder, x: Symbol) -> Any:
        a = g.op.Neg(g.op.Abs(x))
        return a, g.op.Neg(a) if g.option("negated") else a

    def replace(g: PatternRewriter, x: str, negated: bool) -> Any:
        a = g.op.Exp(x)
        return a, g.op.Exp(a) if negated else a

    text = "agraph (float[N] x) => (float[N] y) { a = Abs(x) y = Neg(a) }"
    assert types(rewrite(drawn(describe, replace), text)) == ["Exp"]


def test_two_roots_one_behind_the_other() -> None:
    def describe(g: PatternBuilder, x: Symbol, z: Symbol) -> Any:
        return g.op.Abs(x), g.op.Sub(x, z)

    def replace(g: PatternRewriter, x: str, z: str) -> Any:
        return g.op.Both(x, z, domain="acme", outputs=2)

    text = "agraph (float[N] x) => (float[N] y) { a = Abs(x) e = Exp(a) y = Sub(x, e) }"
    assert types(rewrite(drawn(describe, replace), text, domains={"acme": 1})) == [
        "Abs",
        "Exp",
        "Sub",
    ]
