"""The section "Available Patterns and API" of the document: each method exists.

What views answer is tested with the views.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support import load
from xoptim import GraphBuilderPatternOptimization, PatternRewriter

GRAPH = (
    "agraph (float[n,3] x) => (float[n,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> { "
    "y = MatMul(x, w) }"
)
METHODS = (
    "has_type",
    "get_type",
    "has_shape",
    "get_shape",
    "has_rank",
    "get_rank",
    "try_infer_type",
    "try_infer_shape",
    "has_device",
    "get_device",
    "is_constant",
    "is_constant_scalar",
    "get_computed_constant",
    "get_attribute",
    "next_node",
    "next_nodes",
    "node_before",
    "is_output",
    "is_used_by_subgraph",
    "is_used_more_than_once",
    "is_used_only_by",
    "make_node",
    "make_node_check_opset",
)


@pytest.fixture(params=[GraphBuilderPatternOptimization, PatternRewriter])
def g(request: pytest.FixtureRequest) -> Iterator[GraphBuilderPatternOptimization]:
    """The arguments of `match` and of `apply`."""
    model = load(GRAPH)
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


def test_device(g: GraphBuilderPatternOptimization) -> None:
    assert not g.has_device("x")
    with pytest.raises(LookupError, match="the device of 'x' is unknown"):
        g.get_device("x")


def test_make_node(g: GraphBuilderPatternOptimization) -> None:
    node = g.make_node(
        "Gemm", ["x", "w"], ["new"], name="mine", transB=0, alpha=0.5, beta=None, doc_string="why"
    )
    assert (node.op_type, node.domain, node.input, node.output) == (
        "Gemm",
        "",
        ("x", "w"),
        ("new",),
    )
    assert (dict(node.attribute), node.name, node.doc_string) == (
        {"transB": 0, "alpha": 0.5},
        "mine",
        "why",
    )
    assert (node.graph, g.node_before("new")) == (None, None), "not in the graph"
    first, second = (g.make_node("Split", "x", 2, domain="com.microsoft") for _ in range(2))
    assert len({*first.output, *second.output}) == 4, "new names are new"
    assert first.name != second.name
    assert g.make_node("Clip", ["x", "", ""]).input == ("x",), (
        "operands left out at the end are not written"
    )


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
