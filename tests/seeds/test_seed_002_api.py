"""The section "Available Patterns and API" of the document: each method exists and does what its sentence says."""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.support import load, node_of
from xoptim import GraphBuilderPatternOptimization, PatternRewriter

GRAPH = """
agraph (float[n,3] x, bool c, float[] u) => (float[n,2] y, float[n,2] z)
<float[3,2] w = {1, 2, 3, 4, 5, 6}, int64[1] one = {1}, float half = {0.5}, int64[2] axes = {0, 1}>
{
    two = Add(one, one)
    k = Constant <value = float[1] {2.5}> ()
    a = MatMul(x, w)
    r = Relu(a)
    s = Softmax(r)
    p = Transpose <perm = [1, 0]> (w)
    q = Custom.op(u)
    y = If (c) < then_branch = t () => (float[n,2] v) { v = Neg(a) }, else_branch = e () => (float[n,2] v2) { v2 = Abs(s) } >
    z = Mul(r, r)
    dead = Exp(u)
}
"""
METHODS = (
    *("has_type", "get_type", "has_shape", "get_shape", "has_rank", "get_rank", "try_infer_type", "try_infer_shape"),
    *("has_device", "get_device", "is_constant", "is_constant_scalar", "get_computed_constant", "get_attribute"),
    *("next_node", "next_nodes", "node_before", "is_output", "is_used_by_subgraph", "is_used_more_than_once"),
    *("is_used_only_by", "make_node", "make_node_check_opset"),
)


@pytest.fixture(params=[GraphBuilderPatternOptimization, PatternRewriter])
def g(request: pytest.FixtureRequest) -> Iterator[GraphBuilderPatternOptimization]:
    """The arguments of `match` and of `apply`."""
    model = load(GRAPH, domains={"Custom": 1})
    before = list(model.graph.nodes)
    yield request.param(model.graph)
    assert list(model.graph.nodes) == before, "no question and no new node changes the graph"


def test_all_methods_are_there() -> None:
    for name in METHODS:
        method = getattr(GraphBuilderPatternOptimization, name)
        assert callable(method)
        assert inspect.getdoc(method)
    assert isinstance(GraphBuilderPatternOptimization.main_opset, property)


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_main_opset(opset: int) -> None:
    model = load("agraph (float[n] x) => (float[n] y) { y = Neg(x) }", opset)
    assert GraphBuilderPatternOptimization(model.graph).main_opset == opset


def test_type(g: GraphBuilderPatternOptimization) -> None:
    assert [g.has_type(name) for name in ("x", "a", "one", "q", "nothing")] == [True, True, True, False, False]
    assert (g.get_type("a"), g.get_type("c"), g.get_type("two")) == (TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64)
    assert (g.try_infer_type("a"), g.try_infer_type("q")) == (TensorProto.FLOAT, TensorProto.UNDEFINED)
    with pytest.raises(LookupError, match="the type of 'q' is unknown"):
        g.get_type("q")


def test_shape_and_rank(g: GraphBuilderPatternOptimization) -> None:
    assert [g.has_shape(name) for name in ("x", "a", "c", "u", "q", "dead")] == [True, True, True, False, False, False]
    assert [g.has_rank(name) for name in ("x", "a", "c", "u", "q", "dead")] == [True, True, True, False, False, False]
    assert [str(dim) for dim in g.get_shape("a")] == ["n", "2"]
    assert g.get_shape("a")[0] is g.get_shape("x")[0], "equal symbols are one object"
    assert (g.get_shape("p"), g.get_shape("c")) == ((2, 3), ())
    assert [g.get_rank(name) for name in ("x", "c", "one", "p")] == [2, 0, 1, 2]
    assert (g.try_infer_shape("p"), g.try_infer_shape("u")) == ((2, 3), None)
    for method in (g.get_shape, g.get_rank):
        with pytest.raises(LookupError, match="the shape of 'u' is unknown"):
            method("u")


def test_device(g: GraphBuilderPatternOptimization) -> None:
    assert not g.has_device("x")
    with pytest.raises(LookupError, match="the device of 'x' is unknown"):
        g.get_device("x")


def test_is_constant(g: GraphBuilderPatternOptimization) -> None:
    constants = {"w": "an initializer", "k": "a Constant", "two": "computed from constants", "p": "computed from constants"}
    assert [name for name in ("w", "k", "two", "p", "x", "a", "q", "dead", "") if g.is_constant(name)] == list(constants)


def test_is_constant_scalar(g: GraphBuilderPatternOptimization) -> None:
    assert [g.is_constant_scalar(name) for name in ("half", "one", "k", "two", "w", "x", "axes")] == [True] * 4 + [False] * 3
    assert g.is_constant_scalar("half", 0.5)
    assert g.is_constant_scalar("k", 2.5)
    assert g.is_constant_scalar("two", 2)
    assert not g.is_constant_scalar("half", 0.25)
    assert not g.is_constant_scalar("two", 1)
    assert not g.is_constant_scalar("x", 1)


def test_get_computed_constant(g: GraphBuilderPatternOptimization) -> None:
    for name, expected in (("two", [2]), ("k", [2.5]), ("p", [[1, 3, 5], [2, 4, 6]]), ("half", 0.5)):
        value = g.get_computed_constant(name)
        assert value is not None
        assert value.tolist() == expected
    assert g.get_computed_constant("a") is None


def test_get_attribute(g: GraphBuilderPatternOptimization) -> None:
    assert g.get_attribute(node_of(g.graph, "Transpose"), "perm") == [1, 0]
    assert g.get_attribute(node_of(g.graph, "Softmax"), "axis") == -1, "the default of the schema"
    assert g.get_attribute(node_of(g.graph, "Transpose"), "nothing") is None
    assert g.get_attribute(node_of(g.graph, "Transpose"), "nothing", 7) == 7


def test_next_nodes(g: GraphBuilderPatternOptimization) -> None:
    assert [node.op_type for node in g.next_nodes("r")] == ["Softmax", "Mul"]
    assert [node.op_type for node in g.next_nodes("w")] == ["MatMul", "Transpose"]
    assert g.next_nodes("y") == []
    only = g.next_node("x")
    assert only is not None
    assert only.op_type == "MatMul"
    assert (g.next_node("r"), g.next_node("y")) == (None, None)


def test_node_before(g: GraphBuilderPatternOptimization) -> None:
    assert g.node_before("a") is node_of(g.graph, "MatMul")
    assert [g.node_before(name) for name in ("x", "w", "")] == [None, None, None]


def test_is_output(g: GraphBuilderPatternOptimization) -> None:
    assert [name for name in ("y", "z", "a", "v", "dead") if g.is_output(name)] == ["y", "z"]


def test_use(g: GraphBuilderPatternOptimization) -> None:
    names = ("x", "a", "r", "s", "y", "dead", "one", "u")
    assert [name for name in names if g.is_used_by_subgraph(name)] == ["a", "s"]
    assert [name for name in names if g.is_used_more_than_once(name)] == ["a", "r", "s", "y", "one", "u"]
    relu, softmax, product = (node_of(g.graph, op_type) for op_type in ("Relu", "Softmax", "Mul"))
    assert g.is_used_only_by("r", softmax, product)
    assert g.is_used_only_by("r", softmax, product, relu)
    assert not g.is_used_only_by("r", product)
    assert not g.is_used_only_by("a", relu), "a subgraph reads it too"
    assert not g.is_used_only_by("z", product), "an output"


def test_make_node(g: GraphBuilderPatternOptimization) -> None:
    node = g.make_node("Gemm", ["x", "w"], ["new"], name="mine", transB=0, alpha=0.5, beta=None, doc_string="why")
    assert (node.op_type, node.domain, node.input, node.output) == ("Gemm", "", ("x", "w"), ("new",))
    assert (dict(node.attribute), node.name, node.doc_string) == ({"transB": 0, "alpha": 0.5}, "mine", "why")
    assert (node.graph, g.node_before("new")) == (None, None), "not in the graph"
    first, second = (g.make_node("Split", "x", 2, domain="com.microsoft") for _ in range(2))
    assert len({*first.output, *second.output}) == 4, "new names are new"
    assert first.name != second.name
    assert g.make_node("Clip", ["x", "", ""]).input == ("x",), "operands left out at the end are not written"


@pytest.mark.parametrize(
    ("op_type", "attributes", "since"),
    [
        ("Squeeze", {"axes": [1]}, 13),
        ("Unsqueeze", {"axes": [0, 1]}, 13),
        ("ReduceSum", {"axes": [1]}, 13),
        ("ReduceMean", {"axes": [1], "keepdims": 0}, 18),
        ("Split", {"split": [1, 2], "axis": 1}, 13),
        ("Clip", {"min": 0.0, "max": 6.0}, 11),
        ("Clip", {"max": 6.0}, 11),
        ("Pad", {"pads": [0, 1, 0, 1]}, 11),
        ("TopK", {"k": 2}, 10),
    ],
)
def test_make_node_check_opset(op_type: str, attributes: dict[str, Any], since: int) -> None:
    for opset in (since - 1, since):
        model = load("agraph (float16[n,3] x) => (float16[n,3] y) { y = Neg(x) }", opset)
        g = PatternRewriter(model.graph)
        node = g.make_node_check_opset(op_type, ["x"], **attributes)
        if opset < since:
            assert (node.input, dict(node.attribute)) == (("x",), attributes)
            continue
        assert not {"axes", "split", "min", "max", "pads", "k"} & node.attribute.keys()
        values = [g.get_computed_constant(name) for name in node.input[1:] if name]
        moved = [value for name, value in attributes.items() if name not in ("keepdims", "axis")]
        for value, given in zip(values, moved, strict=True):
            assert value is not None
            assert value.dtype == (np.float16 if isinstance(given, float) else np.int64)
            assert value.tolist() == given or value.tolist() == [given]
