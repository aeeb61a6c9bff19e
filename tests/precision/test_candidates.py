"""MatMuls: those of subgraphs, and those that share their weights with a table."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import xoptim
from tests.precision.models import network, words
from tests.precision.test_quantize import quantized
from tests.support import run
from xoptim.facts.protos import every_node, inner_graphs
from xoptim.precision.candidates import Candidate, with_dependents

_FLOAT = TensorProto.FLOAT
pytestmark = pytest.mark.usefixtures("faster")


def test_products_with_the_same_weights_go_along_in_the_same_form() -> None:
    products = [
        Candidate("a", "", "P", "MatMul", (1, 1), "w"),
        Candidate("a", "", "Q", "MatMul", (1, 1), "w"),
        Candidate("b", "", "P", "MatMul", (1, 1), "w", "a"),
        Candidate("b", "", "Q", "MatMul", (1, 1), "w", "a"),
        Candidate("c", "", "P", "MatMul", (1, 1), "v"),
    ]
    assert with_dependents(products[:1], products) == {"a": "P", "b": "P"}
    assert with_dependents(products[:2], products) == {"a": "Q", "b": "Q"}
    assert with_dependents(products[4:], products) == {"c": "P"}
    # the one that represents the weights is not worthwhile
    assert with_dependents(products[4:], products[2:]) == {"c": "P"}


def test_what_reads_a_result_of_stored_weights_stays() -> None:
    """A constant that is only stored in lower precision gives float32 results."""
    products = [
        Candidate("a", "", "P", "Conv", (1, 1)),
        Candidate("a", "", "S", "Conv", (1, 1), is_weight_only=True),
        Candidate("s", "", "E", "Relu", (0, 0), reads=("a",)),
    ]
    assert with_dependents(products[:1], products) == {"a": "P", "s": "E"}
    assert with_dependents(products[1:2], products) == {"a": "S"}


def test_followers_read_nothing_but_rounded_tensors() -> None:
    products = [
        Candidate("a", "", "P", "Conv", (1, 1)),
        Candidate("s", "", "E", "Add", (0, 0), reads=("a", "x")),
        Candidate("t", "", "E", "Add", (0, 0), reads=("a", "a")),
        Candidate("u", "", "E", "Mul", (0, 0), reads=("s", "t")),
    ]
    assert with_dependents(products[:1], products) == {"a": "P", "t": "E"}
    assert with_dependents(products[:2], products) == {"a": "P", "s": "E", "t": "E", "u": "E"}


def tied(form: str) -> onnx.ModelProto:
    """A network whose last MatMul has the table of words as its weights, directly or through a
    Transpose.
    """
    model = network(layers=1)
    last = model.graph.node.pop()
    model.graph.ClearField("output")
    model.graph.output.append(
        onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 300])
    )
    if form == "Gemm":
        model.graph.node.append(
            onnx.helper.make_node("Gemm", [last.input[0], "table"], ["scores"], transB=1)
        )
    else:
        model.graph.node.append(
            onnx.helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0])
        )
        model.graph.node.append(
            onnx.helper.make_node("MatMul", [last.input[0], "turned"], ["scores"])
        )
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in ("last", "end")]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model


def tables(model: onnx.ModelProto) -> list[tuple[int, list[int]]]:
    """Types and shapes of the constants that are as large as the table."""
    large = [tensor for tensor in model.graph.initializer if np.prod(tensor.dims) >= 300 * 32]
    return [(tensor.data_type, [*tensor.dims]) for tensor in large]


@pytest.mark.parametrize("form", ["Gemm", "MatMul"])
@pytest.mark.parametrize(
    ("scheme", "patterns", "expected", "part"),
    [
        ("int8", "default", [(onnx.TensorProto.INT8, [300, 64])], 0.33),
        ("float16", "default", [(onnx.TensorProto.FLOAT16, [300, 64])], 0.54),
        ("bfloat16", "default", [(onnx.TensorProto.BFLOAT16, [300, 64])], 0.54),
        ("int8", "default+onnxruntime-FusedGemm", [(onnx.TensorProto.INT8, [300, 64])], 0.33),
        ("int4", "default+onnxruntime-FusedGemm", [(onnx.TensorProto.UINT8, [300, 2, 16])], 0.22),
    ],
)
def test_a_table_is_stored_once(
    form: str,
    scheme: str,
    patterns: str,
    expected: list[tuple[int, list[int]]],
    part: float,
    tmp_path: Path,
) -> None:
    model = tied(form)
    found = quantized(model, patterns, scheme=scheme, tolerance=0.9)
    assert not found.fault
    assert {each.shared_with or each.result for each in found.candidates} <= {*found.applied}
    assert tables(found.verified.proto) == expected
    sizes = []
    for name, each in (
        ("float", model),
        ("small", found.verified.proto),
        ("again", xoptim.optimize(found.verified.proto)),
    ):
        onnx.save(each, tmp_path / name)
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[1] < part * sizes[0]
    assert sizes[2] < sizes[0]


@pytest.mark.parametrize("scheme", ["int8", "int4", "float16"])
@pytest.mark.parametrize("tolerance", [0.9, 0.03, 0.003])
def test_no_choice_is_larger_than_the_floats(scheme: str, tolerance: float) -> None:
    for patterns in ("default", "default+onnxruntime"):
        model = tied("MatMul")
        found = quantized(model, patterns, scheme=scheme, tolerance=tolerance)
        assert not found.fault
        assert found.verified.proto.ByteSize() < 1.05 * model.ByteSize()
        kinds = [kind for kind, _ in tables(found.verified.proto)]
        assert _FLOAT not in kinds or len(kinds) == 1  # the table is not stored in float32 as well


def test_weights_that_something_else_reads_stay() -> None:
    model = tied("Gemm")
    model.graph.node.append(onnx.helper.make_node("ReduceSum", ["table"], ["sum"], keepdims=0))
    model.graph.node.append(onnx.helper.make_node("Mul", ["scores", "sum"], ["scaled"]))
    model.graph.node.append(onnx.helper.make_node("Sub", ["h0", "table"], ["kept"]))
    for name in ("scaled", "kept"):
        model.graph.output.append(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        )
    found = quantized(model, tolerance=0.9, feeds=[words(count=300)])
    able = [each for each in found.candidates if not each.is_weight_only]
    assert {each.weights for each in able} == {"w0"}
    assert "h0" not in found.applied
    assert found.applied["table"] == "Int8Weights"  # once, for all that read it
    assert len(tables(found.verified.proto)) == 1


def stored(**arrays: np.ndarray) -> list[onnx.TensorProto]:
    """Constants."""
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def port(name: str, shape: list[str | int] | None = None) -> onnx.ValueInfoProto:
    """A declaration of 32-bit floats."""
    return helper.make_tensor_value_info(name, _FLOAT, shape)


def model_of(nodes: list[onnx.NodeProto], outputs: list[str], width: int = 64) -> onnx.ModelProto:
    """A model that reads ``x`` and a condition, with two matrices."""
    rng = np.random.default_rng(0)
    matrices = {
        name: (rng.standard_normal((width, width)) / 8).astype(np.float32) for name in ("w", "v")
    }
    inputs = [
        port("x", ["n", width]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    ends = [port(name) for name in outputs]
    tensors = stored(**matrices, three=np.array(3), yes=np.array(True))
    graph = helper.make_graph(nodes, "outer", inputs, ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def branches() -> onnx.ModelProto:
    """Both branches have the same names, and weights from outside.

    One of them returns a constant of its own, too.
    """
    graphs = []
    for order in (("w", "v"), ("v", "w")):
        nodes = [
            helper.make_node("MatMul", ["x", order[0]], ["a"]),
            helper.make_node("Tanh", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", order[1]], ["y"]),
        ]
        ends = [port(name) for name in ("y", "k")]
        graphs.append(
            helper.make_graph(nodes, "branch", [], ends, stored(k=np.ones(3, np.float32)))
        )
    node = helper.make_node(
        "If", ["c"], ["z", "constant"], then_branch=graphs[0], else_branch=graphs[1]
    )
    return model_of([node], ["z", "constant"])


def loop() -> onnx.ModelProto:
    """Three rounds of a MatMul within a Loop, and a MatMul by the same weights after it."""
    nodes = [
        helper.make_node("Identity", ["going"], ["goes"]),
        helper.make_node("MatMul", ["before", "w"], ["a"]),
        helper.make_node("Tanh", ["a"], ["after"]),
    ]
    inputs = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("going", TensorProto.BOOL, []),
        port("before", ["n", 64]),
    ]
    ends = [
        helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
        port("after", ["n", 64]),
    ]
    body = helper.make_graph(nodes, "body", inputs, ends)
    return model_of(
        [
            helper.make_node("Loop", ["three", "yes", "x"], ["y"], body=body),
            helper.make_node("MatMul", ["y", "w"], ["z"]),
        ],
        ["z"],
    )


def scan() -> onnx.ModelProto:
    """A MatMul for each row of ``x`` within a Scan, by weights of the body."""
    rng = np.random.default_rng(1)
    weights = (rng.standard_normal((64, 64)) / 8).astype(np.float32)
    nodes = [
        helper.make_node("Unsqueeze", ["row", "axes"], ["r"]),
        helper.make_node("Add", ["r", "state"], ["s"]),
        helper.make_node("MatMul", ["s", "m"], ["next"]),
        helper.make_node("Identity", ["next"], ["out"]),
    ]
    inputs = [port("state", [1, 64]), port("row", [64])]
    ends = [port(name, [1, 64]) for name in ("next", "out")]
    body = helper.make_graph(nodes, "body", inputs, ends, stored(m=weights, axes=np.array([0])))
    start = helper.make_node(
        "Constant", [], ["start"], value=numpy_helper.from_array(np.zeros((1, 64), np.float32))
    )
    node = helper.make_node("Scan", ["start", "x"], ["last", "all"], body=body, num_scan_inputs=1)
    return model_of([start, node], ["last", "all"])


@pytest.mark.parametrize("scheme", ["int8", "int4", "float16"])
@pytest.mark.parametrize(
    ("make", "products", "matrices"), [(branches, 4, 2), (loop, 2, 1), (scan, 1, 1)]
)
def test_products_of_subgraphs(scheme: str, make: object, products: int, matrices: int) -> None:
    assert callable(make)
    model = make()
    rng = np.random.default_rng(0)
    feeds = [
        {"x": rng.standard_normal((4, 64)).astype(np.float32), "c": np.array(bit)}
        for bit in (True, False)
    ]
    found = quantized(model, scheme=scheme, tolerance=0.9, feeds=feeds)
    assert not found.fault
    assert len(found.applied) == (matrices if scheme == "float16" else products)
    assert all(
        each.measured.error > 0 for each in found.choices if each.measured.candidate.is_independent
    )
    proto = found.verified.proto
    tensors = [
        tensor
        for graph in (proto.graph, *inner_graphs(proto.graph.node))
        for tensor in graph.initializer
    ]
    kinds = {"int8": TensorProto.INT8, "int4": TensorProto.UINT4, "float16": TensorProto.FLOAT16}
    stored_in = products if scheme == "int4" else matrices  # blocks stay in their subgraphs
    assert (
        sum(each.data_type == kinds[scheme] and [*each.dims] == [64, 64] for each in tensors)
        == stored_in
    )
    assert not any(each.data_type == _FLOAT and np.prod(each.dims) >= 64 * 64 for each in tensors)
    if scheme == "int8":
        assert (
            sum(node.op_type == "MatMulInteger" for node in every_node(proto.graph.node))
            == products
        )
    errors = []
    for values in feeds:
        for expected, actual in zip(
            run(model, values, optimized=True), run(proto, values, optimized=True), strict=True
        ):
            errors.append(np.abs(expected - actual).max() / np.abs(expected).max())
    assert found.error == pytest.approx(max(errors), rel=1e-3)
    assert 0 < found.error < 0.3


def test_a_tolerance_holds_in_subgraphs() -> None:
    rng = np.random.default_rng(0)
    feeds = [
        {"x": rng.standard_normal((4, 64)).astype(np.float32), "c": np.array(bit)}
        for bit in (True, False)
    ]
    everything = quantized(loop(), tolerance=0.9, feeds=feeds)
    stored = quantized(loop(), tolerance=everything.error / 2, feeds=feeds)
    assert {*stored.applied.values()} == {"Float16Weights"}
    assert 0 < stored.error < everything.error / 2
