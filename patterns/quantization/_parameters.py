"""Scales and zero points of quantized tensors."""

from __future__ import annotations

from typing import Final, NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import element_type, is_float
from xoptim.match import GraphView, Node

from .._axes import axis_of

_STEPS: Final[dict[int, int]] = {
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4), 15),
    **dict.fromkeys((TensorProto.INT8, TensorProto.UINT8), 255),
    **dict.fromkeys((TensorProto.INT16, TensorProto.UINT16), 65535),
}
"""Difference between the largest and the smallest integer of the types that tensors are quantized to."""


class Parameters(NamedTuple):
    """How a tensor is quantized.

    Attributes:
        scales: one, or one for each part along the axis.
        zeros: zero points, as many.
        axis: counted from the front; ``None`` for one scale.
    """

    scales: np.ndarray
    zeros: np.ndarray
    axis: int | None

    def equals(self, other: Parameters) -> bool:
        """Whether they are equal bit by bit."""
        alike = self.scales.dtype == other.scales.dtype and self.axis == other.axis
        return alike and np.array_equal(self.scales, other.scales) and np.array_equal(self.zeros, other.zeros)


def parameters(g: GraphView, node: Node) -> Parameters | None:
    """The parameters of a QuantizeLinear or DequantizeLinear, ``None`` unless they are constants; ``None`` too for blocks."""
    if any(node.get_attribute(name) for name in ("block_size", "precision")):
        return None
    if node.op_type == "DequantizeLinear" and node.get_attribute("output_dtype"):
        return None
    zero = node.input[2] if len(node.input) > 2 else ""
    scales, zeros = g.get_computed_constant(node.input[1]), g.get_computed_constant(zero)
    if scales is None or scales.ndim > 1 or (zero and (zeros is None or zeros.shape != scales.shape)):
        return None
    axis = axis_of(g, node) if scales.size > 1 else None
    if scales.size > 1 and axis is None:
        return None
    zeros = np.zeros(scales.size, np.int64) if zeros is None else zeros.reshape(-1).astype(np.int64)
    return Parameters(scales.reshape(-1), zeros, axis)


def are_kept(scales: np.ndarray, dtype: int) -> bool:
    """Whether all integers of a type are the same after they were dequantized and quantized again.

    An integer times its scale is rounded, and so is the quotient by the scale: together they may not move it by a half, nor
    may the product leave the range of normal numbers.
    """
    steps = _STEPS.get(dtype)
    if steps is None or not scales.size or not is_float(element_type(scales.dtype)):
        return False
    limits = ml_dtypes.finfo(scales.dtype)  # type: ignore[no-untyped-call]
    sizes = np.abs(scales.astype(np.float64))
    normal = (sizes >= float(limits.smallest_normal)) & (sizes * steps < float(limits.max))
    return bool(normal.all()) and 2 * float(limits.eps) * steps < 1
