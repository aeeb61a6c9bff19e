"""Read and write attributes that became operands in later operator sets (`xoptim.facts.attributes`)."""

from typing import Any

import numpy as np
from onnx import AttributeProto

from xoptim.facts.attributes import AttributeReference, Moved, moved
from xoptim.facts.dtypes import numpy_dtype
from xoptim.graph.constants import constant_array, store
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

AT_RUN_TIME = AttributeReference("", AttributeProto.UNDEFINED)
"""Marks a value that is present but only known when the model runs."""


def read_moved(graph: Graph, node: Node, name: str) -> Any:
    """Value of an attribute that may have become an input: a list, a number, ``None`` when absent, or `AT_RUN_TIME`."""
    operand = moved(node.op_type, name, node.opset) if not node.domain else None
    if operand is None:
        return node.get_attribute(name)
    if len(node.input) <= operand.place or not node.input[operand.place]:
        return None
    array = constant_array(graph, node.input[operand.place])
    if array is None or (operand.is_single and array.size != 1):
        return AT_RUN_TIME
    if operand.is_single:
        return array.reshape(-1)[0].item()
    return [int(v) for v in array.ravel()]


def adapted(graph: Graph, op_type: str, inputs: list[str], attributes: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Inputs and attributes of a new node in the form that the operator set of the graph requires."""
    opset = graph.opsets.get("", 0)
    written: dict[str, Any] = {}
    inputs = list(inputs)
    for name, value in attributes.items():
        operand = moved(op_type, name, opset)
        if operand is None:
            written[name] = value
            continue
        inputs += [""] * (operand.place + 1 - len(inputs))
        given = isinstance(value, str)
        inputs[operand.place] = value if given else store(graph, name, _array(graph, inputs[0], value, operand))
    return inputs, written


def _array(graph: Graph, first: str, value: Any, operand: Moved) -> np.ndarray:
    if operand.holds != "number":
        return np.atleast_1d(np.asarray(value, dtype=np.int64))
    dtype = graph.info_of(first).dtype
    return np.asarray(value, dtype=numpy_dtype(dtype) if dtype else np.float32)
