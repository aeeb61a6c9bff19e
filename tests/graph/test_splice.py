"""Subgraphs whose nodes move out: names that clash, subgraphs of subgraphs, what is stored
inside.
"""

from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import run
from xoptim.testing.variant import parse

_X = np.array([-1, 2, 3], np.float32)


def _run(model: onnx.ModelProto, **feeds: Any) -> list[Any]:
    return run(model, {value.name: feeds[value.name] for value in model.graph.input})


def _optimized(text: str, *patterns: str) -> onnx.ModelProto:
    model = parse(text, domains=(("com.microsoft", 1),) if "com.microsoft" in text else ())
    onnx.checker.check_model(model)
    result: onnx.ModelProto = xoptim.optimize(model, patterns=list(patterns), strict=True)
    onnx.checker.check_model(result, full_check=True)
    for flag in (False, True):
        for a, b in zip(
            _run(model, x=_X, d=np.array(flag)), _run(result, x=_X, d=np.array(flag)), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    return result


def _operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_names_that_both_branches_and_another_node_use() -> None:
    branches = (
        "then_branch = yes () => (float[a] p) { t = Exp(h) p = Relu(t) }, "
        "else_branch = no () => (float[a] q) { t = Sqrt(h) q = Relu(t) }"
    )
    result = _optimized(
        "agraph (float[a] x, bool d) => (float[a] y, float[a] z) <bool c = {1}> "
        f"{{ h = Neg(x) y = If(c) <{branches}> z = If(d) <{branches}> }}",
        "IfConstant",
    )
    assert _operators(result) == ["Neg", "Exp", "Relu", "If"]


def test_a_branch_with_a_branch_that_reads_its_results() -> None:
    result = _optimized(
        "agraph (float[a] x, bool d) => (float[a] y) <bool c = {0}> { h = Abs(x) y = If(c) < "
        "then_branch = yes () => (float[a] p) { p = Exp(h) }, "
        "else_branch = no () => (float[a] q) { t = Exp(h) r = If(d) < "
        "then_branch = inner () => (float[a] u) { u = Add(t, h) }, "
        "else_branch = other () => (float[a] v) { w = Sqrt(t) v = Mul(w, t) }> q = Relu(r) }> }",
        "IfConstant",
    )
    assert _operators(result) == ["Abs", "Exp", "If", "Relu"]


def test_nested_constant_conditions_and_a_stored_constant() -> None:
    result = _optimized(
        "agraph (float[a] x, bool d) => (float[a] y) <bool c = {1}> { y = If(d) < "
        "then_branch = yes () => (float[a] p) { p = If(c) < "
        "then_branch = inner () => (float[a] u) <float[1] k = {2}> { u = Add(x, k) }, "
        "else_branch = other () => (float[a] v) { v = Sqrt(x) }> }, "
        "else_branch = no () => (float[a] q) { k = Abs(x) q = Relu(k) }> }",
        "IfConstant",
    )
    assert _operators(result) == ["If"]
    branch = next(a.g for a in result.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in branch.node] == ["Add"]


def test_one_result_of_a_branch_twice() -> None:
    result = _optimized(
        "agraph (float[a] x, bool d) => (float[a] y, float[a] z) <bool c = {1}> { "
        "s, t = If(c) < then_branch = yes () "
        "=> (float[a] p, float[a] q) { p = Exp(x) "
        "q = Identity(p) }, else_branch = no () => (float[a] r, float[a] u) { r = Neg(x) "
        "u = Abs(x) }> y = Relu(s) z = Neg(t) }",
        "IfConstant",
    )
    assert sorted(_operators(result)) == ["Exp", "Neg", "Relu"]


@pytest.mark.parametrize("condition", ["", "c"])
def test_a_round_that_needs_its_number_and_holds_a_branch(condition: str) -> None:
    result = _optimized(
        "agraph (float[a] x, bool d) => (float[a] y, float[b,a] z) <int64 n = {1}, "
        f"bool c = {{1}}> {{ y, z = Loop(n, {condition}, x) < body = round (int64 i, bool f, "
        "float[a] p) => (bool e, float[a] q, float[a] r) { e = Not(f) k = Cast <to = 1> (i) "
        "q = Sub(k, p) r = If(d) < then_branch = inner () "
        "=> (float[a] u) { u = Add(q, k) }, else_branch = other () => (float[a] v) { "
        "v = Mul(q, p) }> }> }",
        "LoopOnce",
    )
    assert "Loop" not in _operators(result)
    assert _operators(result)[-1] == "Unsqueeze"


def test_a_call_of_a_function_with_the_name_of_an_operator_stays_a_call() -> None:
    result = _optimized(
        "agraph (float[a] x, bool d) => (float[a] y) <bool c = {1}> { y = If(c) < then_branch = yes"
        " () => (float[a] p) { t = com.microsoft.Gelu(x) p = Relu(t) }, else_branch = no () =>"
        ' (float[a] q) { q = Neg(x) }> } <domain: "com.microsoft", opset_import: ["" : 18]> Gelu'
        " (x) => (y) { z = Neg(x) y = Exp(z) }",
        "default+onnxruntime",
    )
    assert _operators(result) == ["Gelu", "Relu"]


def test_a_deprecated_operator_of_a_branch() -> None:
    model = parse(
        "agraph (float[1,2,b] x) => (float[1,2,b] y) <float[1] w = {2}, bool c = {1}> { "
        "y = If(c) < then_branch = yes () "
        "=> (float[1,2,b] p) { p = GroupNormalization <num_groups = 1> (x, w, w) }, "
        "else_branch = no () => (float[1,2,b] q) { q = Neg(x) }> }"
    )
    result = xoptim.optimize(model, patterns=["IfConstant"], strict=True)
    assert _operators(result) == ["GroupNormalization"]
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    np.testing.assert_array_equal(_run(model, x=x)[0], _run(result, x=x)[0])
