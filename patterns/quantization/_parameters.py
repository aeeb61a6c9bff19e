"""Scales and zero points of quantized tensors."""

from __future__ import annotations

from typing import Final, NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import element_type, is_float
from xoptim.match import GraphView, Node

from .._nodes import axis_of, is_op

_STEPS: Final[dict[int, int]] = {
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4), 15),
    **dict.fromkeys((TensorProto.INT8, TensorProto.UINT8), 255),
    **dict.fromkeys((TensorProto.INT16, TensorProto.UINT16), 65535),
}
"""Difference between the largest and the smallest integer of the types that tensors are quantized
to.
"""

_LIMITS: Final[dict[int, tuple[int, int]]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
}
_MARGIN: Final = 0.25
"""A part of a step: more than the rounding of a quotient by the scale, less than the half that
rounds to the next integer.
"""


class Parameters(NamedTuple):
    """How a tensor is quantized: with a scale and a zero point for each index along an axis, which
    is not negative, or with one of each.
    """

    scales: np.ndarray
    zeros: np.ndarray
    axis: int | None

    def equals(self, other: Parameters) -> bool:
        """Whether they are equal bit by bit."""
        return (
            self.scales.dtype == other.scales.dtype
            and self.axis == other.axis
            and np.array_equal(self.scales, other.scales)
            and np.array_equal(self.zeros, other.zeros)
        )


def parameters(g: GraphView, node: Node) -> Parameters | None:
    """The parameters of a QuantizeLinear or DequantizeLinear, ``None`` unless they are constants.

    Also ``None`` for block-wise quantization.
    """
    if any(node.get_attribute(name) for name in ("block_size", "precision")):
        return None
    if node.op_type == "DequantizeLinear" and node.get_attribute("output_dtype"):
        return None
    zero = node.input[2] if len(node.input) > 2 else ""
    scales, zeros = g.get_computed_constant(node.input[1]), g.get_computed_constant(zero)
    if (
        scales is None
        or scales.ndim > 1
        or (zero and (zeros is None or zeros.shape != scales.shape))
    ):
        return None
    axis = axis_of(g, node) if scales.size > 1 else None
    if scales.size > 1 and axis is None:
        return None
    zeros = np.zeros(scales.size, np.int64) if zeros is None else zeros.reshape(-1).astype(np.int64)
    return Parameters(scales.reshape(-1), zeros, axis)


def are_kept(scales: np.ndarray, dtype: int) -> bool:
    """Whether all integers of a type are the same after they were dequantized and quantized again.

    An integer times its scale is rounded, and so is the quotient by the scale: together, both
    roundings may not move it by a half, nor may the product leave the range of normal numbers.
    """
    steps = _STEPS.get(dtype)
    if steps is None or not scales.size or not is_float(element_type(scales.dtype)):
        return False
    limits = ml_dtypes.finfo(scales.dtype)  # type: ignore[no-untyped-call]
    sizes = np.abs(scales.astype(np.float64))
    normal = (sizes >= float(limits.smallest_normal)) & (sizes * steps < float(limits.max))
    return bool(normal.all()) and 2 * float(limits.eps) * steps < 1


def gives_same(g: GraphView, reader: Node, above: Node) -> bool:
    """Whether a QuantizeLinear of parts of a tensor gives the integers that a DequantizeLinear of
    the whole tensor read.
    """
    before, after = parameters(g, above), parameters(g, reader)
    if before is None or after is None or before.axis is not None or not before.equals(after):
        return False
    dtype = g.try_infer_type(above.input[0])
    return are_kept(before.scales, dtype) and g.try_infer_type(reader.output[0]) == dtype


def saturates(g: GraphView, node: Node, low: float | None, high: float | None) -> bool:
    """Whether a QuantizeLinear to 8 bits maps two bounds, and all numbers beyond them, to the
    limits of the integers.
    """
    used, limits = parameters(g, node), _LIMITS.get(g.try_infer_type(node.output[0]))
    if (
        used is None
        or limits is None
        or not are_kept(used.scales, TensorProto.UINT8)
        or not (used.scales > 0).all()
    ):
        return False
    scales = used.scales.astype(np.float64)
    below = low is None or (low / scales + used.zeros <= limits[0] + _MARGIN).all()
    above = high is None or (high / scales + used.zeros >= limits[1] - _MARGIN).all()
    return bool(below and above)


def parts_pair(g: GraphView, source: str, result: str, dtype: int) -> bool:
    """Whether operators between ``source`` and ``result`` would separate a QuantizeLinear to int8
    from its DequantizeLinear.

    On most CPUs, onnxruntime has its fast kernels for uint8 and changes int8 to it, but only in
    adjacent pairs.
    """
    readers = g.next_nodes(result)
    is_paired = is_op(g.node_before(source), "QuantizeLinear") or any(
        is_op(each, "DequantizeLinear") for each in readers
    )
    return dtype == TensorProto.INT8 and is_paired


def is_one(g: GraphView, name: str) -> bool:
    """Whether a scale or zero point is known to be a single number of rank 0 or 1, or absent."""
    return not name or g.try_infer_shape(name) in ((), (1,))


def is_one_or_columns(g: GraphView, name: str, matrix: str) -> bool:
    """Whether a scale or zero point is a single number, absent, or a vector of one for each column
    of a matrix.
    """
    shape = g.try_infer_shape(matrix)
    if shape is None or len(shape) < 2:
        return False
    return is_one(g, name) or (len(shape) == 2 and g.try_infer_shape(name) == shape[1:])
