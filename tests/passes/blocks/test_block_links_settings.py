import onnx
import pytest

from tests.support import load
from xoptim.graph.load import load_model
from xoptim.passes.blocks.block import settings

HEADER = "agraph (float[n,4] x, float[m,4] z, double[n,4] d, int64[k] i, float f) => (y, v)"


def settings_of(nodes: str) -> list[object]:
    """The settings of the nodes of a graph."""
    graph = load(f"{HEADER} {{ {nodes} }}").graph
    return [settings(graph, node) for node in graph.nodes]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("Relu(x)", "Relu(x)", True),
        ("Relu(x)", "Relu(d)", False),
        ("Relu(x)", "Tanh(x)", False),
        ("Elu <alpha = 0.5> (x)", "Elu <alpha = 0.25> (x)", False),
        ("Elu <alpha = 1.0> (x)", "Elu(x)", False),
        ("Clip(x, f)", "Clip(x, , f)", False),
        ("acme.F <a = 1, b = 2> (x)", "acme.F <b = 2, a = 1> (x)", True),
        ("acme.F(x)", "other.F(x)", False),
        ("Compress <axis = 0> (x, b)", "Compress <axis = 0> (x, b)", True),
    ],
)
def test_settings_of_two_nodes(one: str, other: str, equal: bool) -> None:
    *_, first, second = settings_of(f"b = Cast <to = 9> (i) y = {one} v = {other}")
    assert first is not None
    assert (first == second) is equal


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("Relu(x)", "Relu(z)", True),
        ("Add(x, f)", "Add(z, f)", True),
        ("Add(x, f)", "Add(x, x)", True),
        ("Add(f, f)", "Add(x, x)", False),
        ("ReduceSum(x)", "ReduceSum <keepdims = 0> (x)", False),
    ],
    ids=["size", "size of an operand", "axes of an operand", "axes of a result", "attribute"],
)
def test_only_the_axes_of_results_count(one: str, other: str, equal: bool) -> None:
    *_, first, second = settings_of(f"y = {one} v = {other}")
    assert (first == second) is equal


def test_nodes_that_are_never_in_a_block() -> None:
    branches = (
        "then_branch = t () => (float[n,4] p) { "
        "p = Neg(x) }, else_branch = e () => (float[n,4] q) { q = Abs(x) }"
    )
    assert (
        settings_of(
            f"c = ReduceMax <keepdims = 0> (i) b = Cast <to = 9> (c) y = If (b) <{branches}> "
            "v = Neg(y)"
        )[2]
        is None
    )
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["p"])], "g", [], [onnx.ValueInfoProto(name="p")]
    )
    node = onnx.helper.make_node("F", ["x"], ["y"], domain="acme", cases=[body, body])
    values = [onnx.helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    graph = load_model(
        onnx.helper.make_model(onnx.helper.make_graph([node], "g", values[:1], values[1:]))
    ).graph
    assert settings(graph, next(iter(graph.nodes))) is None


def test_values_that_are_named_elsewhere() -> None:
    graph = load(f"{HEADER} {{ y = Relu(x) v = Relu(z) }}").graph
    graph.pinned.add("y")
    assert [settings(graph, node) is None for node in graph.nodes] == [True, False]
