"""The error budget is spent in each output, and a larger one never makes a larger file."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.precision.test_quantize import quantized
from tests.share import is_whole
from tests.support import in_parts

pytestmark = pytest.mark.usefixtures("faster")
NETWORKS, CHUNKS = (200, 20) if is_whole("xoptim/precision") else (2, 1)
"""How many are quantized, and in how many parts."""
TOLERANCES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)[:: 1 if is_whole("xoptim/precision") else 2]
WIDTHS = (32, 48, 64, 96)


def random_network(seed: int) -> onnx.ModelProto:
    """A trunk of MatMuls with branches, each of which is an output of its own scale."""
    rng = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    tensors = {"x": 32}  # with their widths
    outputs = rng.integers(1, 5)
    for index in range(int(rng.integers(4, 11))):
        source = list(tensors)[int(rng.integers(max(0, len(tensors) - 3), len(tensors)))]
        width = int(rng.choice(WIDTHS))
        scale = 10.0 ** rng.integers(-1, 2) / np.sqrt(tensors[source])
        numbers = rng.standard_normal((tensors[source], width)) * scale
        if rng.random() < 0.3:
            numbers[0] *= 30  # a channel that quantizes badly
        weights.append(numpy_helper.from_array(numbers.astype(np.float32), f"w{index}"))
        nodes.append(helper.make_node("MatMul", [source, f"w{index}"], [f"m{index}"]))
        activation = str(rng.choice(("Tanh", "Relu", "Identity", "Sigmoid")))
        nodes.append(helper.make_node(activation, [f"m{index}"], [f"h{index}"]))
        tensors[f"h{index}"] = width
    names = list(tensors)[-int(outputs) :]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", tensors[name]])
        for name in ("x", *names)
    ]
    graph = helper.make_graph(nodes, f"random {seed}", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def samples(count: int = 4) -> list[dict[str, np.ndarray]]:
    """Values of the input."""
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((16, 32)).astype(np.float32)} for _ in range(count)]


def sizes(model: onnx.ModelProto, tolerances: Sequence[float], scheme: str) -> list[int]:
    """The bytes of the smallest file at each tolerance."""
    found = (
        quantized(model, scheme=scheme, tolerance=tolerance, goal="size", feeds=samples())
        for tolerance in tolerances
    )
    return [each.verified.proto.ByteSize() for each in found]


@in_parts("chunk", CHUNKS)
def test_a_larger_tolerance_never_makes_a_larger_file(chunk: int) -> None:
    for seed in range(chunk * NETWORKS // CHUNKS, (chunk + 1) * NETWORKS // CHUNKS):
        bytes_of = sizes(random_network(seed), TOLERANCES, ("int4", "int8")[seed % 2])
        assert bytes_of == sorted(bytes_of, reverse=True), f"network {seed}"


def heads(count: int) -> onnx.ModelProto:
    """Independent outputs."""
    rng = np.random.default_rng(0)
    numbers = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(count))
    weights = [numpy_helper.from_array(array, f"w{index}") for index, array in enumerate(numbers)]
    nodes = [
        helper.make_node("MatMul", ["x", tensor.name], [f"y{index}"])
        for index, tensor in enumerate(weights)
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64])
        for name in ("x", *(node.output[0] for node in nodes))
    ]
    graph = helper.make_graph(nodes, "heads", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_independent_outputs_have_budgets_of_their_own() -> None:
    """Together their errors would exceed one budget, and each alone is far below it."""
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.standard_normal((16, 64)).astype(np.float32)} for _ in range(4)]
    one, many = (
        quantized(heads(count), scheme="int8", tolerance=0.02, goal="size", feeds=feeds)
        for count in (1, 12)
    )
    assert len(one.applied) == 1
    assert len(many.applied) == 12
    assert many.error <= 0.02


def test_an_output_has_a_tolerance_of_its_own() -> None:
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.standard_normal((16, 64)).astype(np.float32)} for _ in range(4)]
    found = quantized(
        heads(3), scheme="int8", tolerance=0.02, tolerances={"y1": 1e-5}, goal="size", feeds=feeds
    )
    assert found.applied.keys() == {"y0", "y2"}
    assert found.error <= found.tolerance
