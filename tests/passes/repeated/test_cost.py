"""Estimates of the time of nodes."""

import pytest

from tests.support import load
from xoptim.graph.graph import Graph
from xoptim.passes.repeated.cost import COSTS, Estimate, launches_and_times, slowest

CPU = COSTS["cpu"]
WEIGHTS = (
    "float[4,4] w = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, float[4] v = {0, 1, 2, "
    "3}, int64 one = {1}"
)


def graph_of(nodes: str, inputs: str = "float[2,4] x") -> Graph:
    return load(f"agraph ({inputs}) => (y) <{WEIGHTS}> {{ {nodes} }}").graph


def launches(nodes: str) -> float:
    graph = graph_of(nodes)
    return Estimate(graph, CPU, 1).launches(list(graph.nodes))


def time(nodes: str, inputs: str, size: int = 1) -> float:
    graph = graph_of(nodes, inputs)
    return Estimate(graph, CPU, size).time(list(graph.nodes))


def test_operators_that_onnxruntime_computes_within_others() -> None:
    assert launches("p = MatMul(x, w) s = Add(p, v) y = Relu(s)") == CPU.matmul
    assert launches("p = Gemm(x, w, v) y = Sigmoid(p)") == CPU.matmul
    assert launches("s = Sigmoid(x) y = Mul(x, s)") == CPU.launch
    assert (
        launches("p = MatMul(x, w) s = Add(p, v) t = Relu(s) y = Add(s, t)")
        == CPU.matmul + 2 * CPU.launch
    )
    assert launches("s = Add(x, v) y = Relu(s)") == 2 * CPU.launch
    assert launches("s = Transpose(x) y = Identity(s)") == CPU.handled + CPU.launch
    assert launches("y = Concat <axis = 0> (x, x, x)") == CPU.handled + 2 * CPU.port
    assert launches("y = Gather(x, one)") == CPU.lane


def test_elements_and_runs() -> None:
    assert time("y = Abs(x)", "float[8,64] x") == pytest.approx(CPU.launch + 512 * CPU.light)
    assert time("y = Add(x, z)", "float[8,64] x, float[64] z") == pytest.approx(
        CPU.launch + 512 * CPU.light + 8 * CPU.run
    )
    assert time("y = Add(x, z)", "float[8,64] x, float z") == pytest.approx(
        CPU.launch + 512 * CPU.light
    )
    assert time("y = Transpose <perm = [1, 0, 2]> (x)", "float[8,2,64] x") == pytest.approx(
        CPU.handled + 1024 * CPU.copied + 16 * CPU.run
    )
    assert time("y = Gather(x, i)", "float[9,64] x, int64[8] i") == pytest.approx(
        CPU.handled + 512 * CPU.copied + 8 * CPU.run
    )
    large = 1 << 20
    assert time("y = Abs(x)", f"float[{large}] x") == pytest.approx(
        CPU.launch + large * (CPU.light + CPU.spilled)
    )


def test_products() -> None:
    one = time("y = MatMul(x, z)", "float[1,64] x, float[64,64] z")
    assert one == pytest.approx(CPU.matmul + 4096 * (CPU.read + CPU.multiplied))
    rows = time("y = MatMul(x, z)", "float[8,64] x, float[64,64] z")
    assert rows == pytest.approx(CPU.matmul + 4096 * (CPU.read + CPU.packed + 8 * CPU.multiplied))
    stored = time("y = MatMul(x, w)", "float[8,4] x")
    assert stored == pytest.approx(CPU.matmul + 16 * (CPU.read + 8 * CPU.multiplied)), (
        "it is packed ahead of time"
    )
    stacked = time("y = MatMul(x, z)", "float[1,64] x, float[8,64,64] z")
    assert stacked == pytest.approx(
        CPU.matmul + 8 * CPU.matrix + 8 * 4096 * (CPU.read + CPU.multiplied)
    )


def test_sizes_that_are_not_known() -> None:
    graph, edit = (
        graph_of("y = Abs(x)", "float[n,64] x"),
        graph_of("a = Transpose(x) y = Transpose(a)", "float[n,64] x"),
    )
    before, after = slowest((graph, list(graph.nodes)), (edit, list(edit.nodes)), [], CPU)
    assert (before, after) == tuple(
        Estimate(each, CPU, 1024).time(list(each.nodes)) for each in (graph, edit)
    )
    found = list(launches_and_times(graph, list(graph.nodes), CPU))
    assert [launched for launched, _ in found] == [CPU.launch] * 4
    assert [each for _, each in found] == sorted(each for _, each in found)


def test_nodes_near_by() -> None:
    """An activation is computed within the product, but not behind a stack of products."""
    graph, edit = (
        graph_of("p = Gemm(x, w, v) y = Relu(p)"),
        graph_of("s = Transpose(x) p = Transpose(s) y = Relu(p)"),
    )
    product, relu = graph.nodes
    *made, _ = edit.nodes
    before, after = slowest((graph, [product]), (edit, made), [relu], CPU)
    alone = Estimate(graph, CPU, 1).time([relu])
    assert before == pytest.approx(Estimate(graph, CPU, 1).time([product, relu]) - alone)
    assert before < Estimate(graph, CPU, 1).time([product])
    assert after == pytest.approx(Estimate(edit, CPU, 1).time(made))


def test_shapes_that_are_not_known() -> None:
    assert time("s = NonZero(x) y = Reshape(x, z)", "float[4] x, int64[m] z") < float("inf")
    assert time("r = Reshape(x, z) y = Abs(r)", "float[4] x, int64[m] z") == float("inf")
