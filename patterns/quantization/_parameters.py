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
"""Difference between the limits of each type that tensors are quantized to."""

_LIMITS: Final[dict[int, tuple[int, int]]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
}
_MARGIN: Final = 0.25
"""A margin for rounding errors, in units of the scale. It is larger than the error of a division by
the scale, and less than 0.5, with which QuantizeLinear would round to the next integer.
"""


class Parameters(NamedTuple):
    """How a tensor is quantized.

    Attributes:
        scales: a vector.
        zeros: the zero points, a vector of the same size.
        axis: the axis of the scales, from 0 on; ``None`` if they are per tensor.
    """

    scales: np.ndarray
    zeros: np.ndarray
    axis: int | None

    def equals(self, other: Parameters) -> bool:
        """Whether all parameters are equal, bit by bit."""
        return (
            self.scales.dtype == other.scales.dtype
            and self.axis == other.axis
            and np.array_equal(self.scales, other.scales)
            and np.array_equal(self.zeros, other.zeros)
        )


def parameters(g: GraphView, node: Node) -> Parameters | None:
    """The parameters of a QuantizeLinear or DequantizeLinear.

    ``None`` if they are not constant, and for block-wise quantization.
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


def keep_integers(scales: np.ndarray, dtype: int) -> bool:
    """Whether dequantizing and quantizing again returns all integers of a type unchanged.

    The product with the scale and the quotient by it are rounded. Both errors together must stay
    below 0.5. The product must be a normal number, since a session may flush subnormals to 0.

    float16 may have subnormal scales: kernels compute in float32, and the product is a multiple of
    the smallest float16 number, so it is exact or normal.
    """
    steps = _STEPS.get(dtype)
    if steps is None or not scales.size or not is_float(element_type(scales.dtype)):
        return False
    limits = ml_dtypes.finfo(scales.dtype)  # type: ignore[no-untyped-call]
    magnitudes = np.abs(scales.astype(np.float64))
    is_half = scales.dtype == np.float16
    smallest = float(limits.smallest_subnormal if is_half else limits.smallest_normal)
    are_in_range = (magnitudes >= smallest) & (magnitudes * steps < float(limits.max))
    return bool(are_in_range.all()) and 2 * float(limits.eps) * steps < 1


def returns_same_integers(g: GraphView, quantize: Node, dequantize: Node) -> bool:
    """Whether a QuantizeLinear of elements of a dequantized tensor returns the same integers."""
    first, second = parameters(g, dequantize), parameters(g, quantize)
    if first is None or second is None or first.axis is not None or not first.equals(second):
        return False
    dtype = g.try_infer_type(dequantize.input[0])
    return keep_integers(first.scales, dtype) and g.try_infer_type(quantize.output[0]) == dtype


def saturates(g: GraphView, node: Node, low: float | None, high: float | None) -> bool:
    """Whether a QuantizeLinear to 8 bits maps ``low`` and ``high`` to the type's limits.

    It then maps all numbers beyond these bounds to the limits as well. ``None`` is no bound.
    """
    quantization, limits = parameters(g, node), _LIMITS.get(g.try_infer_type(node.output[0]))
    if (
        quantization is None
        or limits is None
        or not keep_integers(quantization.scales, TensorProto.UINT8)
        or not (quantization.scales > 0).all()
    ):
        return False
    scales = quantization.scales.astype(np.float64)
    low_saturates = low is None or (low / scales + quantization.zeros <= limits[0] + _MARGIN).all()
    high_saturates = (
        high is None or (high / scales + quantization.zeros >= limits[1] - _MARGIN).all()
    )
    return bool(low_saturates and high_saturates)


def separates_pair(g: GraphView, source: str, result: str, dtype: int) -> bool:
    """Whether int8 operators from ``source`` to ``result`` would separate a QDQ pair.

    On most CPUs, onnxruntime's fast kernels are for uint8. It changes the type of an int8
    QuantizeLinear and its DequantizeLinear to uint8, but only if they are adjacent.
    """
    consumers = g.next_nodes(result)
    is_paired = is_op(g.node_before(source), "QuantizeLinear") or any(
        is_op(consumer, "DequantizeLinear") for consumer in consumers
    )
    return dtype == TensorProto.INT8 and is_paired


def is_single(g: GraphView, name: str) -> bool:
    """Whether a scale or zero point is absent, or known to have one element (and rank 0 or 1)."""
    return not name or g.try_infer_shape(name) in ((), (1,))


def is_single_or_per_column(g: GraphView, name: str, matrix: str) -> bool:
    """Whether a scale or zero point is absent, a single number, or one per column of a matrix."""
    shape = g.try_infer_shape(matrix)
    if shape is None or len(shape) < 2:
        return False
    return is_single(g, name) or (len(shape) == 2 and g.try_infer_shape(name) == shape[1:])
