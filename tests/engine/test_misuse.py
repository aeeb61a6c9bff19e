"""Patterns that are wrong: each is skipped with its one warning, or its rewrite is refused.

The model stays right.
"""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, same_results, text_of, types, verify
from xoptim import (
    EasyPatternOptimization,
    GraphBuilder,
    OptimizationOptions,
    PatternOptimization,
    XoptimError,
    optimize,
)
from xoptim.match import GraphView, MatchResult, Node, PatternBuilder, PatternRewriter, Symbol

CHAIN = "agraph (float[a,b] x) => (float[a,b] y) { t = Neg(x) y = Abs(t) }"
BRANCH = """agraph (float[n] x, bool c) => (float[n] y) {
    t = Neg(x)
    u = Abs(t)
    w = If (c) <
        then_branch = yes () => (float[n] p) { p = Neg(x) },
        else_branch = no () => (float[n] q) { q = Exp(x) }
    >
    y = Add(u, w)
}"""
Apply = Callable[[PatternRewriter, Node], Any]


def matching(found: Any) -> type[PatternOptimization]:
    """A pattern whose `match` returns something else than it should."""

    class WrongMatchPattern(PatternOptimization):
        anchors = ("Neg",)

        def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> Any:
            return found(self, node) if callable(found) and found is not MatchResult else found

    return WrongMatchPattern


def applying(apply: Apply, operator: str = "Neg") -> type[PatternOptimization]:
    """A pattern that replaces an operator by whatever a function makes."""

    class WrongApplyPattern(PatternOptimization):
        anchors = (operator,)

        def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult:
            return MatchResult(self, [node], self.apply)

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            made: list[Node] = apply(g, *nodes)
            return made

    return WrongApplyPattern


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Messages of warnings."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


MATCHES: dict[str, Any] = {
    "False": False,
    "True": True,
    "a list": [1],
    "a string": "no",
    "the class": MatchResult,
    "names in place of nodes": lambda pattern, node: MatchResult(
        pattern, [node.name], pattern.apply
    ),
}


@pytest.mark.parametrize("case", MATCHES)
def test_match_returns_something_else(case: str, caplog: pytest.LogCaptureFixture) -> None:
    model = parse(CHAIN)
    after = optimize(model, patterns=[matching(MATCHES[case])])
    assert types(after) == ["Neg", "Abs"]
    (warning,) = warnings_of(caplog)
    assert "WrongMatch failed" in warning
    with pytest.raises(XoptimError, match="WrongMatch failed"):
        optimize(model, patterns=[matching(MATCHES[case])], strict=True)
    assert types(optimize(model, patterns="default")) == ["Abs"], "other patterns are not concerned"


def changes_operands(g: PatternRewriter, node: Node) -> list[Node]:
    node.input = ("t",)
    return [g.make_node("Exp", ["x"], node.output)]


def changes_operands_and_fails(g: PatternRewriter, node: Node) -> list[Node]:
    node.input = ("nothing",)
    raise ValueError("no")


def hides_the_type(g: PatternRewriter, node: Node) -> list[Node]:
    g.op.Cast(node.input[0], to=onnx.TensorProto.INT64, outputs=list(node.output))
    return g.created


def hides_the_type_and_fails(g: PatternRewriter, node: Node) -> list[Node]:
    hides_the_type(g, node)
    raise ValueError("no")


def reads_its_own_result(g: PatternRewriter, node: Node) -> list[Node]:
    g.op.Exp(node.output[0], outputs=list(node.output))
    assert g.get_type(node.output[0]) == onnx.TensorProto.FLOAT
    return g.created


def sets_an_attribute(g: PatternRewriter, node: Node) -> list[Node]:
    node.attribute["axis"] = 1  # type: ignore[index]
    return [node]


APPLIES: dict[str, tuple[str, Apply]] = {
    "other operands for a node of the graph": (
        "modified .*, which is in the graph",
        changes_operands,
    ),
    "other operands, and an error": ("ValueError: no", changes_operands_and_fails),
    "an attribute of a node of the graph": ("TypeError: 'mappingproxy'", sets_an_attribute),
    "another type under the old name": ("its type from float to int64", hides_the_type),
    "another type, and an error": ("ValueError: no", hides_the_type_and_fails),
    "its own result as an operand": (
        "reads 't', which is not defined before it",
        reads_its_own_result,
    ),
    "axes in another order": ("", lambda g, node: [g.make_node("Transpose", ["x"], node.output)]),
    "an operator that does not exist": (
        "Rellu does not exist",
        lambda g, node: [g.make_node("Rellu", ["x"], node.output)],
    ),
    "an operator of a later operator set": (
        "RMSNormalization does not exist in version 18",
        lambda g, node: [g.make_node("RMSNormalization", ["x", "x"], node.output)],
    ),
    "an operator that onnxruntime does not have": (
        "com.microsoft::Rellu does not exist",
        lambda g, node: [g.make_node("Rellu", ["x"], node.output, domain="com.microsoft")],
    ),
    "too many operands": (
        "Exp does not take 2 operands",
        lambda g, node: [g.make_node("Exp", ["x", "x"], node.output)],
    ),
    "too many results": (
        "Exp does not give 2 results",
        lambda g, node: [g.make_node("Exp", ["x"], [*node.output, "more"])],
    ),
    "an unknown attribute": (
        "Exp has no attribute 'axes'",
        lambda g, node: [g.make_node("Exp", ["x"], node.output, axes=1)],
    ),
    "an attribute of another type": (
        "'axis' of Softmax is of type int, not 1.0",
        lambda g, node: [g.make_node("Softmax", ["x"], node.output, axis=1.0)],
    ),
    "an attribute that ONNX has no type for": (
        "'alpha' of acme::Elu has a value",
        lambda g, node: [g.make_node("Elu", ["x"], node.output, domain="acme", alpha=object())],
    ),
    "a missing attribute": (
        "'to' of Cast is missing",
        lambda g, node: [g.make_node("Cast", ["x"], node.output)],
    ),
    "nothing": ("apply must return a list of nodes, not None", lambda g, node: None),
    "names": ("apply must return a list of nodes", lambda g, node: ["x"]),
}


@pytest.mark.parametrize("case", APPLIES)
def test_a_replacement_that_is_wrong_leaves_everything_as_it_was(case: str) -> None:
    reason, apply = APPLIES[case]
    pattern = applying(apply)
    builder = GraphBuilder(
        parse(CHAIN), optimization_options=OptimizationOptions(patterns=[pattern])
    )
    before = text_of(builder.model)
    facts = {name: repr(info) for name, info in builder.graph.all_known()}
    builder.optimize()
    verify(builder.model)
    assert text_of(builder.model) == before
    assert {name: repr(info) for name, info in builder.graph.all_known()} == facts
    if reason:  # an error of the pattern
        with pytest.raises(XoptimError, match=reason):
            optimize(parse(CHAIN), patterns=[pattern], strict=True)


def test_names_of_a_replacement_that_was_refused_are_free_again() -> None:
    def refused(g: PatternRewriter, node: Node) -> list[Node]:
        g.op.Mul(node.input[0], g.make_initializer("k", 2.0))
        return [g.make_node("Rellu", ["x"], node.output)]

    tried = optimize(parse(CHAIN), patterns=[applying(refused), "MulMul"])
    assert (
        tried.SerializeToString() == optimize(parse(CHAIN), patterns=["MulMul"]).SerializeToString()
    )


def outer_name(g: PatternRewriter, node: Node) -> list[Node]:
    """Not harmless in a subgraph: ``t`` is computed around it, and an inner name must not hide an
    outer one.
    """
    if node.output[0] != "p":
        return [node]
    return [g.make_node("Abs", ["x"], ["t"]), g.make_node("Relu", ["t"], node.output)]


def inner_name(g: PatternRewriter, node: Node) -> list[Node]:
    """Nor is the name of a value of a subgraph around it."""
    if node.output[0] == "p":
        return [node]
    return [g.make_node("Abs", ["x"], ["q"]), g.make_node("Relu", ["q"], node.output)]


def inner_graph(g: PatternRewriter, node: Node) -> list[Node]:
    """A new node whose branches define a name of the graph around them."""
    if node.output[0] == "p":
        return [node]
    graph = onnx.parser.parse_graph("inner () => (float[n] u) { u = Neg(x) }")
    return [g.make_node("If", ["c"], node.output, then_branch=graph, else_branch=graph)]


@pytest.mark.parametrize("apply", [outer_name, inner_name, inner_graph])
def test_a_name_that_is_defined_around_or_inside(apply: Apply) -> None:
    model = parse(BRANCH)
    after = optimize(model, patterns=[applying(apply)], merge=False)
    onnx.checker.check_model(after, full_check=True)
    with pytest.raises(XoptimError, match="already defined"):
        optimize(model, patterns=[applying(apply)], merge=False, strict=True)


class RaisingPattern(EasyPatternOptimization):
    """Nothing"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        raise KeyError("no")


def test_a_description_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """Other mistakes in a description are errors: see ``tests/match/test_easy_mistakes.py``."""
    pattern: type[PatternOptimization] = RaisingPattern
    model = parse(BRANCH)
    after = optimize(model, patterns=[pattern])
    (warning,) = warnings_of(caplog)
    assert f"pattern {pattern.name()} failed" in warning
    same_results(model, after, {"x": np.array([1, -2], np.float32), "c": np.array(True)})
    with pytest.raises(XoptimError, match=f"pattern {pattern.name()} failed"):
        optimize(model, patterns=[pattern], strict=True)
