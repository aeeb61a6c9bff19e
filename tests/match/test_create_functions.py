# mypy: disable-error-code="no-any-return"
"""Local functions that a pattern defines, and what new nodes take over from the old ones."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.match.matching import rewrite
from tests.support import parse, same_results, types
from xoptim import optimize
from xoptim.match import EasyPatternOptimization, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.create import DOMAIN

FEEDS = {"x": np.array([[-2, 0, 3]], np.float32)}
TEXT = (
    "agraph (float[N,3] x) => (float[N,3] y) { a = Abs(x) b = Neg(a) c = Abs(b) d = Neg(c) "
    "y = Relu(d) }"
)


class MinusAbs(EasyPatternOptimization):
    """Neg(Abs(x)) → MinusAbs(x), a local function"""

    body = "MinusAbs (x) => (y) { a = Abs(x) y = Neg(a) }"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Neg(g.op.Abs(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.function(self.body)(x)


class OtherMinusAbs(MinusAbs):
    body = (
        '<domain: "xoptim.local", opset_import: ["" : 18]> MinusAbs (u) => (w) { a = Abs(u) w ='
        " Neg(a) }"
    )


class ScaledAbs(MinusAbs):
    body = (
        "Scaled <by: int> (x) => (y) { k = Constant<value_int: int = @by>() f = CastLike(k, x) "
        "a = Abs(x) y = Mul(a, f) }"
    )

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.function(self.body)(x, by=-1)


def test_a_function_is_defined_once_and_called() -> None:
    after = rewrite(MinusAbs(), TEXT)
    assert types(after) == ["MinusAbs", "MinusAbs", "Relu"]
    (function,) = after.functions
    assert (function.domain, function.name) == (DOMAIN, "MinusAbs")
    assert {(o.domain, o.version) for o in function.opset_import} == {("", 18)}
    onnx.checker.check_model(after, full_check=True)
    same_results(parse(TEXT), after, FEEDS)


def test_a_second_run_does_not_look_for_it_in_itself() -> None:
    once = rewrite(MinusAbs(), TEXT)
    twice = optimize(once, patterns=[MinusAbs()], strict=True, tag_nodes=False)
    assert twice.SerializeToString(deterministic=True) == once.SerializeToString(deterministic=True)


def test_functions_do_not_come_to_call_each_other_in_a_circle() -> None:
    class AbsNegAbs(EasyPatternOptimization):
        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Relu(x)

        def apply_pattern(self, g: PatternRewriter, x: str) -> str:
            return g.function(
                "Positive (x) => (y) { a = Abs(x) b = Neg(a) c = Sub(x, b) y = Relu(c) }"
            )(x)

    once = optimize(parse(TEXT), patterns=[MinusAbs(), AbsNegAbs()], strict=True)
    for _ in range(2):
        once = optimize(once, patterns=[MinusAbs(), AbsNegAbs()], strict=True)
        onnx.checker.check_model(once)
    assert len(once.functions) == 2
    same_results(parse(TEXT), once, FEEDS)


class CallsBase(MinusAbs):
    body = (
        '<domain: "base", opset_import: ["" : 18, "acme" : 1]> Inner (x) => (y) { y = acme.F(x) }'
    )

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Abs(x)


def test_a_detour_over_another_domain_is_a_circle_too() -> None:
    model = parse("agraph (float[N,3] x) => (float[N,3] y) { y = acme.F(x) }", domains={"acme": 1})
    function = onnx.parser.parse_function(
        '<domain: "acme", opset_import: ["" : 18]> F (x) => (y) { a = Abs(x) y = Neg(a) }'
    )
    model.functions.append(function)
    after = optimize(model, patterns=[CallsBase()], strict=True)
    assert [f.name for f in after.functions] == ["F"]
    assert [n.op_type for n in after.functions[0].node] == ["Abs", "Neg"]


def test_attributes_of_the_call() -> None:
    after = rewrite(ScaledAbs(), TEXT)
    assert types(after)[0] == "Scaled"
    same_results(parse(TEXT), after, FEEDS)


def test_another_function_of_that_name_stays() -> None:
    once = rewrite(
        MinusAbs(), "agraph (float[N,3] x) => (float[N,3] y) { a = Abs(x) b = Neg(a) y = Exp(b) }"
    )
    once.graph.node[-1].op_type = "Neg"
    extra = parse("agraph (float[N,3] x) => (float[N,3] y) { a = Abs(x) y = Neg(a) }").graph.node
    del once.graph.node[:]
    once.graph.node.extend([onnx.helper.make_node("MinusAbs", ["x"], ["p"], domain=DOMAIN), *extra])
    once.graph.node[1].input[0] = "p"
    again = optimize(once, patterns=[OtherMinusAbs()], strict=True)
    assert sorted(f.name for f in again.functions) == ["MinusAbs", "MinusAbs_1"]
    same_results(once, again, FEEDS)


@pytest.mark.parametrize("version", [7, 8])
def test_old_files_have_no_functions(version: int) -> None:
    model = parse(TEXT, 13, ir_version=version)
    after = optimize(model, patterns=[MinusAbs()], strict=True)
    assert bool(after.functions) is (version >= 8)
    assert ("MinusAbs" in types(after)) is (version >= 8)


def test_a_rewrite_that_fails_leaves_no_function() -> None:
    class Broken(MinusAbs):
        def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
            g.function(self.body)
            raise ValueError("no")

    after = optimize(parse(TEXT), patterns=[Broken()])
    assert not after.functions
    assert types(after) == types(parse(TEXT))


# ------------------------------------------------------------------ what new nodes take over


def traced() -> onnx.ModelProto:
    """A model with names and metadata, as exporters write them."""
    model = parse("agraph (float[N,3] x) => (float[N,3] y) { a = Abs(x) b = Neg(a) y = Relu(b) }")
    for node, name in zip(
        model.graph.node, ("/block.0/abs/Abs", "/block.0/neg/Neg", "last"), strict=True
    ):
        node.name = name
        node.doc_string = f"made by {name}"
        entry = node.metadata_props.add()
        entry.key, entry.value = "namespace", f"model/{name}"
    return model


class AbsExp(MinusAbs):
    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Neg(g.op.Exp(x))


def test_names_metadata_and_remarks() -> None:
    after = optimize(traced(), patterns=[AbsExp()])
    exp, neg, relu = after.graph.node
    assert neg.name == "/block.0/neg/Neg", "the same operator at the same place"
    assert exp.name.startswith("/block.0/neg/Exp")
    assert neg.doc_string == "made by /block.0/neg/Neg"
    for node in (exp, neg):
        assert {p.key: p.value for p in node.metadata_props} == {
            "namespace": "model//block.0/neg/Neg",
            "xoptim.pattern": "AbsExp",
        }
    assert [p.key for p in relu.metadata_props] == ["namespace"], "untouched"


def test_the_pattern_is_not_named_when_that_is_off() -> None:
    after = optimize(traced(), patterns=[AbsExp()], tag_nodes=False)
    assert [[p.key for p in node.metadata_props] for node in after.graph.node] == [
        ["namespace"]
    ] * 3


def test_a_name_that_the_pattern_gave_stays() -> None:
    class Named(MinusAbs):
        def apply_pattern(self, g: PatternRewriter, x: str) -> str:
            return g.op.Floor(x, name="chosen")

    after = optimize(traced(), patterns=[Named()])
    assert [node.name for node in after.graph.node] == ["chosen", "last"]
