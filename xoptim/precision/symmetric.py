"""Activations as signed integers whose zero point is 0, as TensorRT needs them."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from xoptim.match.quantization import Range

_ZERO: Final = 128
"""The zero point of a range from -128 to 127 steps, as uint8."""
_HIGHEST: Final = 127


def symmetric_ranges(ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Ranges from -128 to 127 steps, whose zero point as uint8 is 128."""
    limits = {name: max(-low, high) for name, (low, high) in ranges.items()}
    return {name: (-limit * _ZERO / _HIGHEST, limit) for name, limit in limits.items()}


def use_signed_activations(model: onnx.ModelProto) -> None:
    """Write activations with the zero point 128 as signed integers with the zero point 0, and
    biases of 32 bits as float32: the same numbers.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    zeros = _zero_points(model, stored)
    for name in zeros:
        stored[name].CopyFrom(numpy_helper.from_array(np.zeros((), np.int8), name))
    nodes = [node for node in model.graph.node if not _is_bias(node, stored)]
    for node in model.graph.node:
        if _is_bias(node, stored):
            numbers, scales = (numpy_helper.to_array(stored[name]) for name in node.input[:2])
            bias = numbers.astype(np.float32) * scales
            model.graph.initializer.append(numpy_helper.from_array(bias, node.output[0]))
    if len(nodes) < len(model.graph.node):
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(copies)


def _zero_points(model: onnx.ModelProto, stored: Mapping[str, TensorProto]) -> set[str]:
    """The zero points of 128 that only activations have."""
    quantizers = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    integers = {node.output[0] for node in quantizers}
    zeros = {
        node.input[2] for node in quantizers if len(node.input) > 2 and node.input[2] in stored
    }
    operands = {
        name
        for node in model.graph.node
        for index, name in enumerate(node.input)
        if not (
            index == 2
            and (
                node.op_type == "QuantizeLinear"
                or (node.op_type == "DequantizeLinear" and node.input[0] in integers)
            )
        )
    }
    return {name for name in zeros - operands if _is_middle(stored[name])}


def _is_middle(tensor: TensorProto) -> bool:
    if tensor.data_type != TensorProto.UINT8 or tensor.dims:
        return False
    return int(numpy_helper.to_array(tensor)) == _ZERO


def _is_bias(node: onnx.NodeProto, stored: Mapping[str, TensorProto]) -> bool:
    """Whether a node dequantizes a constant of 32-bit integers."""
    if node.op_type != "DequantizeLinear" or node.input[0] not in stored:
        return False
    return stored[node.input[0]].data_type == TensorProto.INT32 and node.input[1] in stored
