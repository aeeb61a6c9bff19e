"""Quantized operators: integers stand for real numbers, ``(integer - zero point) * scale``.

Sums of products of integers are exact. A quotient is rounded half to even, and limited to the range
of its integer type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import is_float, is_integer
from xoptim.proof.calls import Call, axis_within, denotes, pointwise_function, settled
from xoptim.proof.denotations.functions import sigmoid_of
from xoptim.proof.denotations.movement import joined, number_of
from xoptim.proof.denotations.sums import collected, multiplied
from xoptim.proof.denotations.windows import convolved
from xoptim.proof.elements import ZERO, Element, inverse, number
from xoptim.proof.indices import CaseFacts, Unproved
from xoptim.proof.kinds import EQUAL, LESS, MAXIMUM, MINIMUM, limits_of
from xoptim.proof.laws import comparison, extreme, rounded
from xoptim.proof.ranges import range_of
from xoptim.proof.tensors import (
    Indices,
    Tensor,
    elementwise,
    require_equal,
    require_vector,
    stored_tensor,
)

_INT32: Final = TensorProto.INT32


def along(call: Call, x: Tensor, p: Tensor, axis: int, block: int) -> Tensor:
    """A scale or a zero point for each element of ``x``; ``p`` is per tensor, per axis, or, with a
    ``block`` size, block-wise.
    """
    if "axis" in call.node.attribute:
        axis_within(axis, x.rank)
    if p.rank == 0 or (p.rank == 1 and p.shape[0] == 1 and not block):
        return Tensor(x.shape, p.dtype, lambda _: p.at([0] * p.rank))
    place = axis_within(axis, x.rank)
    if not block and p.rank == 1:
        require_equal(p.shape[0], x.shape[place], or_one=False)
        return Tensor(x.shape, p.dtype, lambda indices: p.at([indices[place]]))
    if not block or p.rank != x.rank:
        raise Unproved("a scale of another rank")
    for k in range(x.rank):
        if k != place:
            require_equal(p.shape[k], x.shape[k], or_one=False)
    require_equal(p.shape[place], -(-x.shape[place] // block), or_one=False)

    def read(indices: Indices) -> Element:
        quotient, _ = call.case.divided(indices[place], block)
        return p.at([*indices[:place], quotient, *indices[place + 1 :]])

    return Tensor(x.shape, p.dtype, read)


def limited(value: Element, dtype: int) -> Element:
    """An integer, limited to the range of a type."""
    low, high = limits_of(dtype)
    least, greatest = range_of(value)
    if least is not None and greatest is not None and low <= least and greatest <= high:
        return value
    return extreme(MINIMUM, extreme(MAXIMUM, value, number(low)), number(high))


def quantized(value: Element, scale: Element, zero: Element, dtype: int) -> Element:
    """A real number as an integer of a type."""
    return limited(rounded(value * inverse(scale)) + zero, dtype)


def dequantized(value: Element, scale: Element, zero: Element) -> Element:
    """The real number that an integer stands for."""
    return (value - zero) * scale


def _optional(call: Call, place: int, x: Tensor, axis: int, block: int = 0) -> Tensor:
    """A zero point for each element, 0 where the operand is omitted."""
    if not call.has(place):
        return Tensor(x.shape, x.dtype, lambda _: ZERO)
    return along(call, x, call.operand(place), axis, block)


@denotes("DequantizeLinear")
@denotes("DequantizeLinear", domain="com.microsoft")
def dequantize_linear(call: Call) -> Tensor | None:
    """``(x - zero) * scale``."""
    x = call.operand(0)
    axis, block = call.attribute("axis", 1), call.attribute("block_size", 0)
    if not is_integer(x.dtype) or not is_float(call.dtype()):
        return None
    scale = along(call, x, call.operand(1), axis, block)
    zero = _optional(call, 2, x, axis, block)
    return _of_elements(call, dequantized, x, scale, zero)


@denotes("QuantizeLinear")
@denotes("QuantizeLinear", domain="com.microsoft")
def quantize_linear(call: Call) -> Tensor | None:
    """``x / scale`` rounded, plus the zero point, limited to the range of the type."""
    x, dtype = call.operand(0), call.dtype()
    axis, block = call.attribute("axis", 1), call.attribute("block_size", 0)
    if not is_integer(dtype) or not is_float(x.dtype) or call.attribute("precision", 0):
        return None
    scale = along(call, x, call.operand(1), axis, block)
    zero = _optional(call, 2, x, axis, block)
    return _of_elements(call, lambda a, s, z: quantized(a, s, z, dtype), x, scale, zero)


def _of_elements(call: Call, compute: Callable[..., Element], *operands: Tensor) -> Tensor:
    """A function of elements, defined by ``compute``, or uninterpreted if the case is exact."""
    shape, dtype = operands[0].shape, call.dtype()
    if call.case.is_exact:
        opaque_function = pointwise_function(call, ("axis", "block_size", "output_dtype"))
        tensors = [x for place, x in enumerate(operands) if call.has(place)]
        return elementwise(opaque_function, tensors, shape, dtype)

    def checked(*elements: Element) -> Element:
        if any(element.is_special for element in elements):
            raise Unproved("a quantized number that may be NaN or infinite")
        return compute(*(settled(e, x.dtype) for e, x in zip(elements, operands, strict=True)))

    return elementwise(checked, operands, shape, dtype)


@denotes("DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call) -> list[Tensor] | None:
    """A tensor as uint8, with the scale and the zero point of its range, extended to 0."""
    return None if call.case.is_exact else dynamically_quantized(call.case, call.operand(0))


def dynamically_quantized(case: CaseFacts, x: Tensor) -> list[Tensor]:
    """A tensor as uint8, its scale and its zero point."""
    axes = [*range(x.rank)]
    high = collected(case, x, axes, "ReduceMax", keeps=False).at(())
    low = collected(case, x, axes, "ReduceMin", keeps=False).at(())
    top, bottom = extreme(MAXIMUM, high, ZERO), extreme(MINIMUM, low, ZERO)
    is_zero = comparison(EQUAL, x.dtype, top - bottom, ZERO)
    step = (top - bottom) * inverse(number(255))
    scale = step + is_zero * (number(1) - step)  # 1 where all elements are 0
    zero = limited(rounded(-bottom * inverse(scale)), TensorProto.UINT8)
    return [
        x.mapped(lambda e: quantized(e, scale, zero, TensorProto.UINT8), TensorProto.UINT8),
        Tensor((), x.dtype, lambda _: scale),
        Tensor((), TensorProto.UINT8, lambda _: zero),
    ]


def _shifted(call: Call, place: int, zero: int, axis: int) -> Tensor:
    """The integers of an operand less their zero point."""
    x = call.operand(place)
    pair = [x, _optional(call, zero, x, axis)]
    return elementwise(lambda a, z: a - z, pair, x.shape, _INT32)


@denotes("MatMulInteger")
def matmul_integer(call: Call) -> Tensor:
    """The product of matrices of integers less their zero points."""
    return multiplied(call.case, _shifted(call, 0, 2, -2), _shifted(call, 1, 3, -1))


@denotes("ConvInteger")
def conv_integer(call: Call) -> Tensor | None:
    """The convolution of integers less their zero points."""
    return convolved(call, _shifted(call, 0, 2, 1), _shifted(call, 1, 3, 0))


def read_quantized(call: Call, place: int, axis: int = 1) -> Tensor:
    """The real numbers of a quantized operand, its scale and its zero point."""
    x = call.operand(place)
    scale = along(call, x, call.operand(place + 1), axis, 0)
    parts = [x, scale, _optional(call, place + 2, x, axis)]
    return elementwise(dequantized, parts, x.shape, scale.dtype)


def quantized_result(call: Call, x: Tensor, scale: int, zero: int) -> Tensor:
    """Real numbers, quantized by the scale and the zero point in two operands."""
    dtype = call.dtype()
    s = along(call, x, call.operand(scale), 1, 0)
    z = _optional(call, zero, x, 1)
    return elementwise(lambda e, t, u: quantized(e, t, u, dtype), [x, s, z], x.shape, dtype)


@denotes("QLinearMatMul")
def qlinear_matmul(call: Call) -> Tensor | None:
    """A quantized MatMul."""
    if call.case.is_exact:
        return None
    result = multiplied(call.case, read_quantized(call, 0, -2), read_quantized(call, 3, -1))
    return quantized_result(call, result, 6, 7)


@denotes("QLinearConv")
def qlinear_conv(call: Call) -> Tensor | None:
    """A quantized convolution, whose bias is quantized by the product of the scales."""
    if call.case.is_exact:
        return None
    result = convolved(
        call, read_quantized(call, 0), read_quantized(call, 3, 0), bias_of(call, 8, 0)
    )
    return None if result is None else quantized_result(call, result, 6, 7)


def bias_of(call: Call, place: int, axis: int) -> Tensor | None:
    """The real numbers of a bias, if there is one: its scale is the product of the scales of the
    operands 0 and 3, of which the latter may be one per index of an axis.
    """
    if not call.has(place):
        return None
    b = call.operand(place)
    scales = [along(call, b, call.operand(1), 0, 0), along(call, b, call.operand(4), axis, 0)]
    return elementwise(lambda e, s, t: e * s * t, [b, *scales], b.shape, scales[0].dtype)


@denotes("QLinearAdd", "QLinearMul", domain="com.microsoft")
def qlinear_arithmetic(call: Call) -> Tensor | None:
    """A quantized sum or product."""
    if call.case.is_exact:
        return None
    is_sum = call.node.op_type == "QLinearAdd"
    pair = [read_quantized(call, 0), read_quantized(call, 3)]
    result = elementwise(lambda a, b: a + b if is_sum else a * b, pair, call.shape(), pair[0].dtype)
    return quantized_result(call, result, 6, 7)


@denotes("QLinearSigmoid", "QLinearLeakyRelu", domain="com.microsoft")
def qlinear_function(call: Call) -> Tensor | None:
    """A quantized activation."""
    if call.case.is_exact:
        return None
    x = read_quantized(call, 0)
    alpha = number_of(call, x.dtype, call.attribute("alpha", 0.01))

    def leaky(e: Element) -> Element:
        return e + comparison(LESS, x.dtype, e, ZERO) * (alpha * e - e)

    change = sigmoid_of if call.node.op_type == "QLinearSigmoid" else leaky
    return quantized_result(call, x.mapped(change), 3, 4)


@denotes("QLinearConcat", domain="com.microsoft")
def qlinear_concat(call: Call) -> Tensor | None:
    """A quantized Concat."""
    if call.case.is_exact:
        return None
    parts = [read_quantized(call, place) for place in range(2, len(call.operands), 3)]
    axis = axis_within(call.attribute("axis"), parts[0].rank)
    return quantized_result(call, joined(call, parts, axis), 0, 1)


@denotes("MatMulIntegerToFloat", domain="com.microsoft")
def matmul_integer_to_float(call: Call) -> Tensor | None:
    """A MatMul of integers less their zero points, times both scales, plus a bias."""
    if call.case.is_exact:
        return None
    a, b = call.operand(0), call.operand(1)
    first = elementwise(
        dequantized,
        [a, along(call, a, call.operand(2), -2, 0), _optional(call, 4, a, -2)],
        a.shape,
        call.dtype(),
    )
    return _scaled_matmul(call, first, b, (3, 5, 6))


@denotes("DynamicQuantizeMatMul", domain="com.microsoft")
def dynamic_quantize_matmul(call: Call) -> Tensor | None:
    """A MatMul whose first operand is quantized by its range."""
    if call.case.is_exact:
        return None
    x, scale, zero = dynamically_quantized(call.case, call.operand(0))
    first = x.mapped(lambda e: dequantized(e, scale.at(()), zero.at(())), scale.dtype)
    return _scaled_matmul(call, first, call.operand(1), (2, 3, 4))


def _scaled_matmul(call: Call, first: Tensor, b: Tensor, places: tuple[int, int, int]) -> Tensor:
    """The product of real numbers with quantized weights; the scale, the zero point and the bias
    are in the operands ``places``.
    """
    scale, zero, bias = places
    parts = [b, along(call, b, call.operand(scale), -1, 0), _optional(call, zero, b, -1)]
    second = elementwise(dequantized, parts, b.shape, first.dtype)
    result = multiplied(call.case, first, second)
    if not call.has(bias):
        return result
    require_vector(call.operand(bias), b.shape[-1])
    pair = [result, call.operand(bias)]
    return elementwise(lambda e, c: e + c, pair, result.shape, result.dtype)


@denotes("MatMulNBits", domain="com.microsoft")
def matmul_nbits(call: Call) -> Tensor | None:
    """A MatMul with transposed, block-wise quantized weights."""
    if call.case.is_exact or call.has(4):
        return None
    x, k, n = call.operand(0), call.attribute("K"), call.attribute("N")
    weights = _unpacked_weights(call, k, n)
    if weights is None:
        return None
    result = multiplied(call.case, x, weights)
    if not call.has(5):
        return result
    require_vector(call.operand(5), n)
    pair = [result, call.operand(5)]
    return elementwise(lambda e, c: e + c, pair, result.shape, result.dtype)


def _unpacked_weights(call: Call, k: int, n: int) -> Tensor | None:
    bits, block = call.attribute("bits", 4), call.attribute("block_size")
    packed = call.array(1)
    if packed is None or packed.dtype != np.uint8 or bits not in (2, 4, 8):
        return None
    count = -(-k // block)
    numbers = unpacked(packed, bits).reshape(n, count * block)[:, :k]
    scales = call.operand(2)
    scale_shape = (n * count,) if scales.rank == 1 else (n, count)
    for size, count_of_scales in zip(scales.shape, scale_shape, strict=True):
        require_equal(size, count_of_scales, or_one=False)
    middle = np.full((n, count), 1 << bits - 1)
    if call.has(3):
        zeros = call.array(3)
        if zeros is None or zeros.dtype != np.uint8:
            return None
        middle = unpacked(zeros.reshape(n, -1), bits)[:, :count]
    weights = numbers - np.repeat(middle, block, axis=1)[:, :k]
    stored = stored_tensor(weights, TensorProto.INT64, keeps_zeros=False)

    def read(indices: Indices) -> Element:
        row, column = indices
        quotient, _ = call.case.divided(row, block)
        place: list[Dim] = [column, quotient]
        if scales.rank == 1:
            place = [column * count + quotient]
        return stored.at([column, row]) * scales.at(place[: scales.rank])

    return Tensor((k, n), call.dtype(), read)


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in the bytes along the last axis, the lowest bits first."""
    shifts = np.arange(0, 8, bits)
    parts = packed[..., np.newaxis].astype(np.int64) >> shifts & (1 << bits) - 1
    return parts.reshape(*packed.shape[:-1], -1)
