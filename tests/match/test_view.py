"""The methods that the seed document lists under "Available Patterns and API", and what came with
them.
"""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.support import load, node_of, text_of
from xoptim.facts.dims import named
from xoptim.match.view import GraphView, PatternRewriter

TEXT = """agraph (bool c, float[N,3] x, float[N,3] z, float[1] o) => (float[N,3] y, float[N,3] q,
  unknown)
<float[1] one = {1}, float[3] w = {1, 2, 3}, float[1] o = {1}, int64 i = {7}> {
  a = Add(x, one)
  b = Relu(a)
  d = Mul(a, a)
  two = Add(one, one)
  r = Relu(x)
  s = Relu(x)
  q = Neg(b)
  y = If (c) <then_branch = t () => (float[N,3] p) { p = Add(d, s) },
    else_branch = e () => (float[N,3] p) { p = Neg(x) }>
  unknown = test.Thing(y)
  sh = Shape(x)
  k = Constant <value = string {"text"}> ()
  unused = Softmax(r)
}"""


@pytest.fixture(params=[GraphView, PatternRewriter])
def g(request: pytest.FixtureRequest) -> Any:
    """The arguments of `match` and of `apply`."""
    return request.param(load(TEXT, domains={"test": 2}).graph, "cuda")


def test_opsets(g: GraphView) -> None:
    assert (g.main_opset, g.opsets, g.provider) == (18, {"": 18, "test": 2}, "cuda")
    g.opsets["new"] = 1
    assert "new" not in g.opsets


def test_shapes_and_types(g: GraphView) -> None:
    n = named("N")
    assert g.has_type("a")
    assert g.get_type("sh") == g.try_infer_type("sh") == TensorProto.INT64
    assert g.has_shape("a")
    assert g.get_shape("a") == g.try_infer_shape("a") == (n, 3)
    assert (g.has_rank("a"), g.get_rank("a"), g.get_rank("i")) == (True, 2, 0)
    assert (g.static_shape("w"), g.static_shape("a")) == ((3,), None)
    assert g.same_shape("x", "a")
    assert not g.same_shape("x", "w")
    assert not g.same_shape("unknown", "unknown")
    assert g.info("a").dtype == TensorProto.FLOAT


def test_what_is_unknown_is_an_error_to_ask_for(g: GraphView) -> None:
    for name in ("unknown", "nothing"):
        assert not any(known(name) for known in (g.has_type, g.has_shape, g.has_rank, g.has_device))
        assert g.try_infer_type(name) == 0
        assert g.try_infer_shape(name) is None
        for ask in (g.get_type, g.get_shape, g.get_rank, g.get_device):
            with pytest.raises(LookupError, match=f"'{name}'"):
                ask(name)


def test_constants(g: GraphView) -> None:
    assert [g.is_constant(n) for n in ("one", "two", "k", "w", "x", "o", "a", "")] == [True] * 4 + [
        False
    ] * 4
    assert g.is_constant_scalar("one")
    assert g.is_constant_scalar("one", 1)
    assert g.is_constant_scalar("two", 2.0)
    assert g.is_constant_scalar("i", 7)
    assert not g.is_constant_scalar("one", 2)
    assert [g.is_constant_scalar(n) for n in ("w", "x", "o", "", "k", "nothing")] == [False] * 6
    assert [g.get_constant_scalar(n) for n in ("one", "two", "i", "w", "k", "")] == [
        1.0,
        2.0,
        7,
        None,
        None,
        None,
    ]
    two, text = g.get_computed_constant("two"), g.get_computed_constant("k")
    assert two is not None
    assert (two.tolist(), two.dtype) == ([2], np.dtype(np.float32))
    assert text is not None
    assert (
        g.get_computed_constant("a")
        is g.get_computed_constant("")
        is g.get_computed_constant("o")
        is None
    )
    assert [g.get_ints("i"), g.get_ints("one"), g.get_ints("x")] == [[7], None, None]
    assert g.known_value("sh") is None


def test_attributes(g: GraphView) -> None:
    softmax = node_of(g.graph, "Softmax")
    assert g.get_attribute(softmax, "axis") == -1
    assert (g.get_attribute(softmax, "none"), g.get_attribute(softmax, "none", 5)) == (None, 5)
    assert "axis" not in softmax.attribute


def test_walking(g: GraphView) -> None:
    relu = node_of(g.graph, "Relu")
    assert g.node_before("b") is relu
    assert g.node_before("x") is g.node_before("one") is g.node_before("") is None
    assert [n.op_type for n in g.next_nodes("a")] == ["Relu", "Mul"]
    assert g.next_node("a") is None
    assert g.next_node("b") is node_of(g.graph, "Neg")
    assert g.next_nodes("d") == [], "nodes of subgraphs are not among them"
    assert g.next_node("nothing") is None
    assert g.nodes == list(g.iter_nodes())
    assert (g.input_names, g.output_names) == (["c", "x", "z", "o"], ["y", "q", "unknown"])
    assert g.is_before(node_of(g.graph, "Add"), relu)
    body = node_of(g.graph, "If").bodies["then_branch"]
    assert g.is_before(relu, node_of(body, "Add"))
    assert not g.is_before(node_of(body, "Add"), relu)


def test_uses(g: GraphView) -> None:
    assert [g.is_output(n) for n in ("y", "b", "x")] == [True, False, False]
    assert [g.is_used(n) for n in ("a", "q", "d", "unused", "nothing")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert [g.is_used_by_subgraph(n) for n in ("d", "s", "a", "x")] == [True, True, False, True]
    # a: two readers; d: captured; q: an output; b, r: one reader; unused: none; y: an output that
    # is read
    assert [g.is_used_more_than_once(n) for n in ("a", "d", "q", "y", "b", "r", "unused")] == [
        True
    ] * 4 + [False] * 3
    assert [g.is_exclusive(n) for n in ("b", "d")] == [True, False]
    relu, mul, neg = (node_of(g.graph, op) for op in ("Relu", "Mul", "Neg"))
    assert g.is_used_only_by("a", relu, mul)
    assert not g.is_used_only_by("a", relu)
    assert g.is_used_only_by("b", neg)
    assert not g.is_used_only_by("q", neg), "an output"
    assert not g.is_used_only_by("d", *g.nodes), "captured by a subgraph"
    assert g.is_used_only_by("unused")


def test_asking_changes_nothing() -> None:
    model = load(TEXT, domains={"test": 2})
    before = text_of(model)
    g = GraphView(model.graph)
    for ask in (
        g.info,
        g.is_constant,
        g.get_computed_constant,
        g.node_before,
        g.next_nodes,
        g.is_used_more_than_once,
    ):
        for name in ("two", "a", "nothing"):
            ask(name)
    assert text_of(model) == before
