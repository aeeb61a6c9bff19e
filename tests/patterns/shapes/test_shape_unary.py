"""Sizes are read of earlier tensors where the provider can."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import run
from xoptim import optimize


@pytest.mark.parametrize(("reader", "moves"), [("Size", False), ("Shape", True)])
def test_types_without_a_kernel(reader: str, moves: bool) -> None:
    """onnxruntime has Shape for bfloat16, and not Size."""
    table = numpy_helper.from_array(np.ones((4, 3), ml_dtypes.bfloat16), "table")
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["x"], to=TensorProto.FLOAT),
        helper.make_node(reader, ["x"], ["y"]),
        helper.make_node("Exp", ["x"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.INT64, None),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    after = optimize(model, patterns="ShapeUnary")
    (node,) = [node for node in after.graph.node if node.op_type == reader]
    assert (node.input[0] == "rows") == moves
    feeds = {"i": np.array([0, 3])}
    for expected, actual in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(expected, actual)
