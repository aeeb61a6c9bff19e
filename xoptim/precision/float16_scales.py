"""Rounding of scales to float16 values, so that weights can be dequantized to float16."""

from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

OPSET: Final = 21
"""The first operator set with block-wise scales in float16."""
_SMALLEST_NORMAL: Final = 2.0**-14
"""Smaller numbers have fewer digits in float16."""


def with_float16_scales(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with the scales of dequantized weights rounded to float16, but stored as float32.

    A tensor with a scale outside the normal range of float16 is not rounded: its weights are
    dequantized to float32.
    """
    rounded = onnx.ModelProto()
    rounded.CopyFrom(model)
    stored = {tensor.name: tensor for tensor in rounded.graph.initializer}
    readers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    for node in rounded.graph.node:
        for index, name in enumerate(node.input):
            readers.setdefault(name, []).append((node, index))
    for name, uses in readers.items():
        is_scale = all(
            node.op_type == "DequantizeLinear" and index == 1 and node.input[0] in stored
            for node, index in uses
        )
        if is_scale and name in stored and stored[name].data_type == TensorProto.FLOAT:
            _round(stored[name])
    return rounded


def _round(tensor: TensorProto) -> None:
    """Round a tensor in place where all of its numbers stay normal."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return
    numbers = numpy_helper.to_array(tensor)
    with np.errstate(over="ignore"):
        half = numbers.astype(np.float16)
    if np.isfinite(half).all() and (half >= _SMALLEST_NORMAL).all():
        tensor.CopyFrom(numpy_helper.from_array(half.astype(np.float32), tensor.name))
