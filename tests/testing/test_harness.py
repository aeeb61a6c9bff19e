"""The harness sees what is wrong with patterns that are wrong, and nothing where nothing is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.testing import wrong_patterns as wrong
from tests.testing.defects import ZeroCopiesPattern
from xoptim.facts.errors import BudgetError
from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Symbol,
)
from xoptim.testing import canonical, check_example, check_near_misses, near_misses, parse
from xoptim.testing.perturbations import PERTURBATIONS
from xoptim.testing.runtime import RUNTIME, Runtime

_SUM = "agraph (float[n] a, float[n] b) => (float[n] y) { y = Add(a, b) }"
ADDITION = Example(_SUM, _SUM)


class NegNegPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → x"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Neg(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return x


class ScaleScalePattern(EasyPatternOptimization):
    """Mul(Mul(x, a), b) → Mul(x, a · b), for factors whose products are neither too large nor too
    small
    """

    exactness = "rounding"

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Constant, b: Constant) -> Any:
        return g.op.Mul(g.op.Mul(x, a), b)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        factors = [g.get_computed_constant(name) for name in (m.a, m.b)]
        sizes = [None if array is None else np.abs(array.astype(np.float64)) for array in factors]
        return all(
            size is not None and bool(((size >= 0.05) & (size <= 200)).all()) for size in sizes
        )

    def apply_pattern(self, g: PatternRewriter, x: str, a: str, b: str) -> Any:
        left, right = g.get_computed_constant(a), g.get_computed_constant(b)
        assert left is not None
        assert right is not None
        return g.op.Mul(x, np.asarray(left * right))


SCALES = Example(
    "agraph (float[n] x) => (float[n] y) <float a = {2}, float b = {3}> { t = Mul(x, a) "
    "y = Mul(t, b) }",
    "agraph (float[n] x) => (float[n] y) <float c = {6}> { y = Mul(x, c) }",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "example"), [(NegNegPattern, wrong.NEGATIONS), (ScaleScalePattern, SCALES)]
)
def test_right_patterns_pass(pattern: type[PatternOptimization], example: Example) -> None:
    check_example(pattern, example)
    counts = check_near_misses(pattern, example)
    assert counts["tried"] > 40
    assert counts["tried"] > counts["fired"] > counts["tried"] // 2
    assert counts["skipped"] < counts["tried"] // 5
    families = {key.partition(": ")[0] for key in counts if ": " in key}
    assert sum(counts[f"{family}: tried"] for family in families) == counts["tried"]


INVALID = Example("agraph (float[n] x) => (int64[n] y) { y = Neg(x) }", wrong.UNIT.after)


@pytest.mark.parametrize(
    ("pattern", "example", "error", "reason"),
    [
        (wrong.NeverMatchesPattern, wrong.NEGATIONS, AssertionError, "the pattern does not apply"),
        (
            wrong.UnequalNumbersPattern,
            wrong.NEGATIONS,
            AssertionError,
            "the result is not the expected one",
        ),
        (wrong.ClaimsOnlyPattern, wrong.NEGATIONS, BudgetError, "keeps? rewriting"),
        (wrong.PingPongPattern, ADDITION, BudgetError, "keeps? rewriting"),
        (
            NegNegPattern,
            Example("agraph (float[n] x) => nonsense", ""),
            ValueError,
            "not the text of an ONNX graph",
        ),
        (NegNegPattern, INVALID, AssertionError, "the model before: onnx.checker"),
    ],
)
def test_wrong_examples_fail(
    pattern: type[PatternOptimization], example: Example, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        check_example(pattern, example)


@pytest.mark.parametrize(
    ("pattern", "after", "reason"),
    [
        (wrong.UnequalNumbersPattern, "{ t = Relu(x) y = Abs(t) }", "0.0 instead of"),
        (
            wrong.LosesZeroSignPattern,
            "<float zero = {0}> { t = Add(x, zero) y = Reciprocal(t) }",
            "instead of -inf",
        ),
    ],
)
def test_examples_whose_numbers_differ_fail(
    pattern: type[PatternOptimization], after: str, reason: str
) -> None:
    last = "Abs" if "Abs" in after else "Reciprocal"
    before = f"agraph (float[n] x) => (float[n] y) {{ t = Neg(x) u = Neg(t) y = {last}(u) }}"
    with pytest.raises(AssertionError, match=reason) as caught:
        check_example(pattern, Example(before, f"agraph (float[n] x) => (float[n] y) {after}"))
    message = str(caught.value)
    assert all(
        word in message for word in ("--- before", "--- expected", "--- found", "input: x float[n]")
    )


def test_the_sign_of_a_zero_counts_for_exact_patterns() -> None:
    after = "agraph (float[n] x) => (float[n] y) <float zero = {0}> { y = Add(x, zero) }"
    before = "agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Neg(t) }"
    with pytest.raises(AssertionError, match="sign of a zero"):
        check_example(wrong.LosesZeroSignPattern, Example(before, after))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "example", "families"),
    [
        (
            wrong.ForgetsConsumersPattern,
            wrong.NEGATIONS,
            {"second reader", "output too", "captured"},
        ),
        (wrong.DropsAttributePattern, wrong.REDUCTION, {"attribute"}),
        (wrong.WrongConstantPattern, wrong.UNIT, {"nudge"}),
        (wrong.ReadsDefaultAsConstantPattern, wrong.UNIT, {"constant overridable"}),
        (wrong.ChangesTypePattern, wrong.ChangesTypePattern.examples[0], {"type"}),
        (wrong.IgnoresDomainPattern, wrong.NEGATIONS, {"domain"}),
        (wrong.LosesRankPattern, wrong.UNIT, {"constant rank"}),
        (wrong.ReadsAbsentPermPattern, wrong.TRANSPOSES, {"attribute"}),
        (wrong.AssumesSizesPattern, wrong.NEGATIONS, {"rank"}),
        (wrong.FixedNamesPattern, wrong.NEGATIONS, {"names"}),
    ],
)
def test_near_misses_catch(
    pattern: type[PatternOptimization], example: Example, families: set[str]
) -> None:
    with pytest.raises(AssertionError) as caught:
        check_near_misses(pattern, example)
    message = str(caught.value)
    listed = {
        line.strip().partition(":")[0] for line in message.splitlines() if line.startswith("  ")
    }
    assert families <= listed, message
    assert "--- variant" in message


def test_wrong_patterns_do_what_their_examples_say() -> None:
    """So it is the near misses that find them out, not the examples."""
    for pattern, example in (
        (wrong.DropsAttributePattern, wrong.REDUCTION),
        (wrong.WrongConstantPattern, wrong.UNIT),
        (wrong.LosesRankPattern, wrong.UNIT),
        (wrong.ReadsAbsentPermPattern, wrong.TRANSPOSES),
        (wrong.ForgetsConsumersPattern, wrong.NEGATIONS),
    ):
        check_example(pattern, example)


def test_every_perturbation_makes_variants() -> None:
    examples: Sequence[Example] = (
        wrong.TRANSPOSES,
        wrong.UNIT,
        SCALES,
        wrong.REDUCTION,
        ADDITION,
        LISTED,
        COUNTED,
        ZeroCopiesPattern.EXAMPLE,
    )
    families = {variant.family for example in examples for variant in near_misses(example)}
    assert families >= {
        "attribute", "branch", "cancel", "captured", "computed", "constant as input",
        "constant computed", "constant form", "constant input", "constant overridable",
        "constant rank", "count", "default omitted", "default written", "detour", "domain",
        "empty", "end", "function", "names", "nudge", "one input", "operands", "operator", "opset",
        "output too", "override", "product", "range", "rank", "repeated", "resize", "second reader",
        "shapes", "size", "stacked", "step", "sum", "symbols", "target", "twice", "type", "values",
    }  # fmt: skip
    assert len(PERTURBATIONS) == len(set(PERTURBATIONS))


LISTED = Example(
    "agraph (float[a,4] x) => (float[b,2] y) <int64[2] shape = {-1, 2}, float[2] c = {1, 2}> "
    "{ t = Transpose <perm = [1, 0]> (x) r = Reshape <allowzero = 0> (t, shape) y = Add(r, c) }",
    "",
)


COUNTED = Example(
    "agraph (float[n,m] x) => (float[k] y) <int64 zero = {0}, int64 one = {1}, "
    "int64[1] all = {-1}> { n = Size(x) r = Range(zero, n, one) s = Concat <axis = 0> (all, all) "
    "t = Reshape(x, all) y = Gather(t, r) }",
    "",
)


def test_variants_are_the_same_each_time() -> None:
    first, second = (
        [(v.name, v.model.SerializeToString(deterministic=True)) for v in near_misses(LISTED)]
        for _ in "ab"
    )
    assert first == second
    names = [name for name, _ in first]
    assert len(names) == len(set(names)), "each variant has a name of its own"


def test_variants_leave_the_example_alone_and_differ_from_it() -> None:
    original = parse(LISTED.before)
    unchanged = {v.name for v in near_misses(LISTED) if v.model == original and not v.values}
    assert unchanged == set()


def test_most_variants_run() -> None:
    sessions = [RUNTIME.load(variant.model) for variant in near_misses(SCALES)]
    assert sum(not isinstance(session, str) for session in sessions) > 0.9 * len(sessions)


def test_one_text_for_models_that_differ_in_form_only() -> None:
    one = parse(
        "agraph (float[n] x) => (float[n] y) <float one = {1}> "
        "{ a = Neg(x) b = Abs(x) t = Softmax <axis = -1> (a) u = Add(b, one) y = Mul(t, u) }"
    )
    other = parse(
        "agraph (float[n] x) => (float[n] y) { c = Constant <value_float = 1.0> () q = Abs(x) "
        "p = Neg(x) r = Add(q, c) s = Softmax(p) y = Mul(s, r) }"
    )
    other.graph.node[0].name = "called"
    other.graph.node[1].metadata_props.add(key="k", value="v")
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    "text",
    [
        "agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Sub(t, x) }",
        "agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Neg(x) y = Sub(t, u) }",
        "agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Sub(x, t) }",
        "agraph (float[m] x) => (float[m] y) { t = Neg(x) y = Sub(t, x) }",
        "agraph (float[n] x) => (float[n] y) <float[1] t = {1}> { y = Sub(t, x) }",
        "agraph (float[n] x) => (float[n] y) <float t = {1}> { y = Sub(t, x) }",
        "agraph (float[n] x) => (float[n] y) <float t = {-1}> { y = Sub(t, x) }",
        (
            "agraph (float[n] x) => (float[n] y) <double t = {1}> { u = Cast <to = 1> (t) "
            "y = Sub(u, x) }"
        ),
        "agraph (float[n] x) => (float[n] y) { t = Softmax <axis = 0> (x) y = Sub(t, x) }",
        "agraph (float[n] x, float t = {1}) => (float[n] y) { y = Sub(t, x) }",
    ],
)
def test_other_texts_for_models_that_compute_something_else(text: str) -> None:
    models = [
        parse(case)
        for case in test_other_texts_for_models_that_compute_something_else.pytestmark[0].args[1]  # type: ignore[attr-defined]
    ]
    assert sum(canonical(model) == canonical(parse(text)) for model in models) == 1


def test_text_of_subgraphs_does_not_depend_on_their_names() -> None:
    template = """agraph (bool c, float[n] x) => (float[n] y) {{
        {0} = Neg(x)
        y = If (c) <then_branch = a () => (float[n] {1}) {{ {2} = Abs({0}) {1} = Neg({2}) }},
                    else_branch = b () => (float[n] {3}) {{ {3} = Identity(x) }}>
    }}"""
    one, other = (
        parse(template.format(*names)) for names in (("t", "u", "v", "w"), ("p", "q", "r", "s"))
    )
    assert canonical(one) == canonical(other)
    changed = parse(template.format("t", "u", "v", "w").replace("Abs(t)", "Abs(x)"))
    assert canonical(one) != canonical(changed)


def test_text_of_functions() -> None:
    template = """agraph (float[n] x) => (float[n] y) {{ y = local.twice <k = {1}> (x) }}
    <domain: "local", opset_import: ["" : 18]> twice <k> (a) => (b)
    {{ {0} = Neg(a) b = LeakyRelu <alpha: float = @k> ({0}) }}"""
    one, other, third = (
        parse(template.format(*args), domains=[("local", 1)])
        for args in (("t", 0.5), ("u", 0.5), ("t", 0.25))
    )
    assert canonical(one) == canonical(other)
    assert canonical(one) != canonical(third)


def test_unreadable_text_is_shown() -> None:
    with pytest.raises(ValueError, match=r"agraph \(float\[n\] x\) => nonsense"):
        parse("agraph (float[n] x) => nonsense")


@pytest.mark.slow
def test_onnxruntime_may_crash() -> None:
    """It reads the first element of a position that has none: release 1.31 does not survive
    that.
    """
    runtime = Runtime()
    try:
        model = parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }")
        loaded = runtime.load(model)
        assert not isinstance(loaded, str)
        feeds = {"x": np.ones(2, np.float32)}
        assert np.array_equal(runtime.run(loaded, feeds), [[-1.0, -1.0]])  # type: ignore[arg-type]
        deadly = runtime.load(
            parse(
                "agraph (float[n] x, int64[m] i) => (float[n] y) { s = SequenceConstruct(x) "
                "y = SequenceAt(s, i) }"
            )
        )
        assert not isinstance(deadly, str)
        assert isinstance(runtime.run(deadly, {**feeds, "i": np.empty(0, np.int64)}), str)
        assert np.array_equal(runtime.run(loaded, feeds), [[-1.0, -1.0]]), "loaded again"  # type: ignore[arg-type]
        assert "are missing" in str(runtime.run(loaded, {"unknown": np.ones(2, np.float32)}))
        assert runtime._child is not None
        runtime._child._process.kill()
        assert runtime._child.end_code()
        runtime.stop()
        assert np.array_equal(runtime.run(loaded, feeds), [[-1.0, -1.0]]), "started again"  # type: ignore[arg-type]
    finally:
        runtime.stop()


def test_what_the_first_model_does_not_run_is_not_run_by_others() -> None:
    runtime = Fragile()
    try:
        loaded = runtime.load(parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }"))
        assert not isinstance(loaded, str)
        good, deadly = {"x": np.ones(2, np.float32)}, {"deadly": np.ones(2, np.float32)}
        found = [
            results
            for _, results in runtime.run_all([loaded, loaded], [good, deadly, good, deadly], 9)
        ]
        assert [len(results) for results in found] == [2, 1, 2, 1]
        assert found[1] == found[3] == ["crashes"]
    finally:
        runtime.stop()


class Fragile(Runtime):
    """A process that some values crash."""

    def _ask(self, question: Any) -> Any:
        return (
            "crashes" if any("deadly" in feeds for feeds in question[2]) else super()._ask(question)
        )


def test_runs_are_asked_for_in_batches() -> None:
    runtime = Fragile()
    try:
        loaded = runtime.load(parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }"))
        assert not isinstance(loaded, str)
        good, deadly = {"x": np.ones(2, np.float32)}, {"deadly": np.ones(2, np.float32)}
        found = [results for _, results in runtime.run_all([loaded], [good, deadly, good], 9)]
        assert [isinstance(result, list) for (result,) in found] == [
            True,
            False,
            True,
        ], "the other runs of a batch are made"
        assert found[1] == ["crashes"]
        found = [
            results
            for _, results in runtime.run_all(
                [loaded, loaded], iter([good, {}, deadly, good, good]), 2
            )
        ]
        assert [len(results) for results in found] == [
            2,
            1,
            1,
            2,
        ], "until it has run twice; what does not run is not compared"
    finally:
        runtime.stop()


class Counting(Runtime):
    """Counts the models that it has loaded."""

    loaded = 0

    def _ask(self, question: tuple[Any, bytes | None, Any]) -> Any:
        self.loaded += question[1] is not None
        return super()._ask(question)


def test_a_model_that_was_just_loaded_is_not_loaded_again() -> None:
    runtime = Counting()
    try:
        models = [
            parse(f"agraph (float[n] x) => (float[n] y) {{ y = {op_type}(x) }}")
            for op_type in ("Neg", "Nothing")
        ]
        for _ in range(3):
            session, refusal = (runtime.load(model) for model in models)
            assert not isinstance(session, str)
            result = runtime.run(session, {"x": np.ones(2, np.float32)})
            assert np.array_equal(result, [[-1.0, -1.0]])  # type: ignore[arg-type]
            assert isinstance(refusal, str)
        assert runtime.loaded == 2
        for name in "abcdefghijkl":
            runtime.load(parse(f"agraph (float[n] {name}) => (float[n] y) {{ y = Neg({name}) }}"))
        assert np.array_equal(runtime.run(session, {"x": np.ones(2, np.float32)}), [[-1.0, -1.0]])  # type: ignore[arg-type]
        assert runtime.loaded == 2 + 12 + 1, (
            "the other process holds a few sessions, so that it has loaded the first one again"
        )
    finally:
        runtime.stop()
