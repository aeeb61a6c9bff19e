"""Constants of bodies of If, Loop and Scan in float16, next to operators that compute in it."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from xoptim.engine.options import OptimizationOptions
from xoptim.facts.protos import inner_graphs
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized

WIDTH = 64
KINDS = ["If", "Loop", "Scan"]


def weights(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)
    array: np.ndarray = drawn.astype(np.float32)
    return array


def body(name: str, tensor: onnx.TensorProto, inputs: list[Any], outer: str) -> onnx.GraphProto:
    """Multiplies ``outer`` by weights, which the body has as a Constant if it is one."""
    nodes = [
        helper.make_node("Constant", [], [f"{name}_w"], value=tensor),
        helper.make_node("MatMul", [outer, f"{name}_w"], [f"{name}_p"]),
        helper.make_node("Tanh", [f"{name}_p"], [f"{name}_y"]),
    ]
    outputs = [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)]
    if any(value.name == f"{name}_go" for value in inputs):
        nodes.append(helper.make_node("Identity", [f"{name}_go"], [f"{name}_still"]))
        still = helper.make_tensor_value_info(f"{name}_still", TensorProto.BOOL, ())
        outputs.insert(0, still)
    return helper.make_graph(nodes, name, inputs, outputs)


def controlled(kind: str) -> onnx.ModelProto:
    """A MatMul of the main graph, and one in a body, both with large weights."""
    tensor = numpy_helper.from_array(weights(1))
    state = helper.make_tensor_value_info("s_x", TensorProto.FLOAT, ["n", WIDTH])
    if kind == "If":
        other = numpy_helper.from_array(weights(4))
        branches = [body("a", tensor, [], "m"), body("b", other, [], "m")]
        node = helper.make_node(
            "If", ["c"], ["t"], then_branch=branches[0], else_branch=branches[1]
        )
    elif kind == "Loop":
        ports = [
            helper.make_tensor_value_info("l_i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("l_go", TensorProto.BOOL, ()),
            state,
        ]
        node = helper.make_node("Loop", ["three", "c"], ["t"], body=body("l", tensor, ports, "s_x"))
    else:
        row = helper.make_tensor_value_info("s_x", TensorProto.FLOAT, [WIDTH])
        node = helper.make_node(
            "Scan", ["m"], ["t"], body=body("s", tensor, [row], "s_x"), num_scan_inputs=1
        )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        node,
        helper.make_node("MatMul", ["t", "v"], ["y"]),
    ]
    if kind == "Loop":
        node.input.append("m")
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, ()),
    ]
    stored = {"w": weights(0), "v": weights(2), "three": np.array(3)}
    graph = helper.make_graph(
        nodes,
        "controlled",
        ports,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    return [
        {"x": rng.standard_normal((4, WIDTH)).astype(np.float32), "c": np.array(index % 2 == 0)}
        for index in range(4)
    ]


def quantized(model: onnx.ModelProto, **options: Any) -> Quantized:
    # `ScanInput` moves the MatMul out of the body of the Scan.
    chosen, how = OptimizationOptions(patterns="default-ScanInput"), Plan()
    precision = PrecisionOptions(feeds=samples(), **options)
    return quantize(optimize_verified(Source(model), chosen, how), chosen, how, precision)


def large_types(model: onnx.ModelProto) -> set[int]:
    """The element types of the large constants of all graphs."""
    graphs = [model.graph, *inner_graphs(model.graph.node)]
    tensors = (tensor for graph in graphs for tensor in graph.initializer)
    return {tensor.data_type for tensor in tensors if np.prod(tensor.dims) >= WIDTH * WIDTH}


@pytest.mark.parametrize("kind", KINDS)
def test_constants_of_bodies_have_16_bits(kind: str) -> None:
    model = controlled(kind)
    found = quantized(model, scheme="float16", compute="float16", tolerance=0.02)
    assert not found.fault
    assert not found.reason
    assert large_types(found.verified.proto) == {TensorProto.FLOAT16}
    assert found.verified.proto.ByteSize() < 0.6 * model.ByteSize()
    assert "in 16 bits" in found.summary()
    assert f" {kind} compute in float32" in found.inner


def test_a_model_with_nothing_but_a_body() -> None:
    """Nothing computes in float16, but the file is half as large."""
    model = controlled("Loop")
    del model.graph.node[2], model.graph.node[0]
    model.graph.node[0].input[2], model.graph.node[0].output[0] = "x", "y"
    del model.graph.initializer[:2]
    found = quantized(model, scheme="float16", compute="float16", tolerance=0.02)
    assert not found.reason
    assert found.operators == {}
    assert large_types(found.verified.proto) == {TensorProto.FLOAT16}


def test_a_constant_that_a_body_shares_with_the_main_graph() -> None:
    model = controlled("If")
    for attribute in model.graph.node[1].attribute:
        del attribute.g.node[0]
        attribute.g.node[0].input[1] = "w"
    branch = next(each.g for each in model.graph.node[1].attribute if each.g.name == "b")
    branch.node.append(helper.make_node("Neg", ["b_y"], ["b_z"]))
    branch.output[0].name = "b_z"
    found = quantized(model, scheme="float16", compute="float16", tolerance=0.02)
    assert not found.fault
    assert large_types(found.verified.proto) == {TensorProto.FLOAT16}
    assert found.verified.proto.ByteSize() < 0.6 * model.ByteSize()


def test_constants_stay_where_they_err_too_much() -> None:
    found = quantized(controlled("If"), scheme="float16", compute="float16", tolerance=1e-7)
    assert not found.fault
    assert TensorProto.FLOAT16 not in large_types(found.verified.proto)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scheme", "kinds"),
    [
        ("int8", {TensorProto.INT8, TensorProto.UINT8}),
        ("int4", {TensorProto.UINT4, TensorProto.INT4, TensorProto.INT8, TensorProto.UINT8}),
    ],
)
def test_smallest_files_store_constants_of_bodies(kind: str, scheme: str, kinds: set[int]) -> None:
    found = quantized(controlled(kind), scheme=scheme, goal="size", tolerance=0.3)
    assert not found.fault
    assert large_types(found.verified.proto) <= kinds
