# mypy: disable-error-code="no-any-return"
"""Each rewrite is run by itself, on values of a recorded run."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim import EasyPatternOptimization, optimize
from xoptim.diagnose.each import EachCheck, record
from xoptim.graph.load import load_model
from xoptim.match import PatternBuilder, PatternRewriter, Symbol
from xoptim.verification import VerificationOptions

TINY_BERT = Path("examples/models/tiny_bert.onnx")


class HalfAbsPattern(EasyPatternOptimization):
    """Abs(Neg(x)) → Abs(x), but for a factor"""

    factor = 1.0

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Abs(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Mul(g.op.Abs(x), self.factor)


class WrongAbsPattern(HalfAbsPattern):
    """Abs(Neg(x)) → Abs(x) * 1.5"""

    factor = 1.5


class MergedExpPattern(EasyPatternOptimization):
    """Exp(x) → Exp(Abs(x)): right where x is an absolute value, which only the values tell"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Exp(x)

    def validate_mapping(self, g: Any, m: Any) -> bool | None:
        before = g.node_before(m.x)
        return before is None or before.op_type != "Neg"

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Exp(g.op.Neg(g.op.Neg(g.op.Abs(x))))


TEXT = """agraph (float[N,3] x, bool c) => (float[N,3] y, float[N,3] z) {
    a = Neg(x) b = Abs(a) e = Exp(b) y = Relu(e)
    z = If(c) <then_branch = t () => (float[N,3] p) { q = Neg(b) r = Abs(q) p = Sqrt(r) },
               else_branch = f () => (float[N,3] v) { v = Identity(e) }>
}"""


def checked(
    model: onnx.ModelProto | Path,
    patterns: Any,
    checks: VerificationOptions | None = None,
    **options: Any,
) -> EachCheck:
    check = EachCheck(model, checks or VerificationOptions())
    optimize(model, patterns=patterns, on_application=check, **options)
    return check


def test_right_rewrites_are_found_right_in_subgraphs_too() -> None:
    check = checked(parse(TEXT), [HalfAbsPattern])
    assert (check.checked, check.unchecked, check.disagreements) == (2, [], [])


def test_a_wrong_one_is_named_with_values_on_which_it_is_wrong() -> None:
    check = checked(parse(TEXT), [WrongAbsPattern])
    assert check.checked == 0
    first = check.disagreements[0]
    assert first.pattern == "WrongAbs"
    assert [node.op_type for node in first.before.graph.node] == ["Neg", "Abs"]
    assert [node.op_type for node in first.after.graph.node] == ["Abs", "Mul"]
    assert first.feeds.keys() == {value.name for value in first.before.graph.input}
    assert "changes a result: " in str(first)
    assert first.to_json()["pattern"] == "WrongAbs"
    onnx.checker.check_model(first.before)
    onnx.checker.check_model(first.after)


def test_values_are_those_that_the_model_computes() -> None:
    """Random values would refute this rewrite, and those of the model do not."""
    check = checked(
        parse(TEXT), [MergedExpPattern], strict=True, merge=False, constant_folding=False
    )
    assert check.checked
    assert not check.disagreements


def test_results_that_rewrites_have_made_are_computed() -> None:
    text = (
        "agraph (float[N,3] x) => (float[N,3] y) { a = Neg(x) b = Abs(a) c = Neg(b) d = Abs(c) "
        "y = Exp(d) }"
    )
    check = checked(parse(text), [HalfAbsPattern, MergedExpPattern], merge=False)
    assert check.checked == 3
    assert not check.disagreements


def test_given_values_are_used() -> None:
    feeds = {"x": np.full((2, 3), 7, np.float32), "c": np.array(True)}
    values = record(parse(TEXT), VerificationOptions(feeds=feeds))
    assert np.array_equal(values["b"], feeds["x"])  # type: ignore[arg-type]
    assert np.array_equal(values["e"], np.exp(feeds["x"]))  # type: ignore[arg-type]


def test_results_of_constants_alone_are_not_recorded() -> None:
    """All weights in floats may be more than the memory."""
    text = """agraph (float[n,2] x) => (float[n,2] y) <int8[2,2] w = {1, 2, 3, 4}, float
      s = {0.5}> {
        f = DequantizeLinear(w, s) t = Transpose(f) r = RandomNormal <shape = [2]> ()
          p = MatMul(x, t) y = Add(p, r) }"""
    model = parse(text)
    assert record(model, VerificationOptions()).keys() == {"x", "r", "p", "y"}
    check = EachCheck(model)
    turned = check.value(load_model(model).graph, "t")
    np.testing.assert_array_equal(turned, np.float32([[0.5, 1.5], [1, 2]]))  # type: ignore[arg-type]


def test_a_model_that_does_not_run_leaves_random_values_which_prove_nothing() -> None:
    model = parse(
        "agraph (float[N,3] x) => (float[N,3] y) { a = Neg(x) b = Abs(a) y = acme.Foo(b) }",
        domains={"acme": 1},
    )
    assert record(model, VerificationOptions()) == {}
    check = checked(model, [WrongAbsPattern])
    assert check.disagreements == []
    assert "different" in check.unchecked[0][1]
    assert checked(model, [HalfAbsPattern]).checked == 1


@pytest.mark.parametrize("patterns", ["default", "default+onnxruntime"])
def test_the_whole_catalogue_on_a_model_of_attention(patterns: str) -> None:
    check = checked(TINY_BERT, patterns)
    assert check.checked > 10
    assert check.unchecked == []
    assert check.disagreements == []


def test_a_pass_over_the_model_is_not_run_by_itself() -> None:
    """Its changes have no region of their own; the models are compared as a whole."""
    nodes = " ".join(f"a{lane} = Relu(x{lane}) b{lane} = Tanh(a{lane})" for lane in range(6))
    inputs = ", ".join(f"float[n,4] x{lane}" for lane in range(6))
    model = parse(
        f"agraph ({inputs}) => (float[n,4] y) {{ {nodes} "
        f"y = Sum({', '.join(f'b{lane}' for lane in range(6))}) }}"
    )
    check = EachCheck(model)
    optimize(model, patterns="repeated", on_application=check)
    assert [name for name, _ in check.unchecked] == ["Repeated"]
    assert check.checked == 0
    assert not check.disagreements
