"""The view of a node that a shape formula reads."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import load, node_of, parse
from xoptim.facts.dims import named
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.propagate import GraphNodeContext

TEXT = """agraph (float[N,2] x, int64[2] o) => (y)
<int64[2] s = {2, 3}, int64 k = {4}, float[1] f = {0.5}, int64[2] o = {1, 1}> {
  d = Shape(x)
  y = test.Op <axis = 1> (x, s, "", k, f, d, o)
}"""


def context(graph: Graph, node: Node) -> GraphNodeContext:
    return GraphNodeContext(graph, node, lambda body, inputs: [])


def test_inputs() -> None:
    graph = load(TEXT, domains={"test": 3}).graph
    node = node_of(graph, "Op")
    seen = context(graph, node)
    assert (seen.op_type, seen.domain, seen.opset, seen.num_outputs) == ("Op", "test", 3, 1)
    assert [seen.attribute("axis"), seen.attribute("other"), seen.attribute("other", 5)] == [
        1,
        None,
        5,
    ]
    first = seen.input(0)
    assert first is not None
    assert first.shape == (named("N"), 2)
    assert seen.input(2) is None
    assert seen.input(9) is None
    assert seen.data(1) == (2, 3)
    assert seen.data(3) == (4,)
    assert seen.data(5) == (named("N"), 2)
    assert [seen.data(i) for i in (0, 2, 6, 9)] == [None] * 4
    assert [seen.ints(i) for i in (1, 3)] == [[2, 3], [4]]
    assert [seen.ints(i) for i in (0, 2, 4, 5, 6, 9)] == [None] * 6
    constant = seen.constant(4)
    assert constant is not None
    assert constant.tolist() == [0.5]
    assert [seen.constant(i) for i in (0, 2, 5, 6, 9)] == [None] * 5
    assert seen.fresh() is not seen.fresh()
    assert seen.body("none") == []
    assert seen.unseen_bodies() == {}


def test_large_constants_are_not_read(tmp_path: Path) -> None:
    proto = parse("agraph (float[2] x) => (y) { y = test.Op(x, a, b, c) }", domains={"test": 1})
    for name, size in (("a", 1 << 15), ("b", 100), ("c", 1 << 11)):
        proto.graph.initializer.append(numpy_helper.from_array(np.ones(size, np.int64), name))
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    onnx.save(
        copy, tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=1 << 10
    )
    read = [False, True, True]
    for source, base in (
        (proto, None),
        (onnx.load(tmp_path / "m.onnx", load_external_data=False), tmp_path),
    ):
        graph = load_model(source, base).graph
        seen = context(graph, node_of(graph, "Op"))
        assert [seen.constant(i) is not None for i in (1, 2, 3)] == read
        assert [seen.ints(i) is not None for i in (1, 2, 3)] == read


def test_subgraphs() -> None:
    graph = load(
        "agraph (bool c, float[n] x) => (float[n] y) { "
        "y = If (c) <then_branch = t () => (float[n] p) { p = Neg(x) }, else_branch = e () "
        "=> (float[n] p) { p = Abs(x) }> }"
    ).graph
    asked: list[str] = []

    def infer(body: Graph, inputs: object) -> list[object]:
        asked.append(body.name)
        return []

    seen = GraphNodeContext(graph, node_of(graph, "If"), infer)  # type: ignore[arg-type]
    seen.body("then_branch")
    assert asked == ["t"]
    assert list(seen.unseen_bodies()) == ["else_branch"]
    with pytest.raises(AttributeError):
        seen.nothing = 1  # type: ignore[attr-defined]
