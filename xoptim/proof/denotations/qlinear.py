"""Quantized operators of ONNX Runtime: the operator on real numbers, between DequantizeLinear and
QuantizeLinear; images may have their channels last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from xoptim.proof.calls import Call, denotes
from xoptim.proof.denotations.movement import number_of, permuted
from xoptim.proof.denotations.quantization import bias_of, quantized_result, read_quantized
from xoptim.proof.denotations.sums import mean_over, multiplied, real, softmax_of
from xoptim.proof.denotations.windows import average_pool, convolved
from xoptim.proof.tensors import Tensor, elementwise, require_broadcast

_ORT: Final = "com.microsoft"
_ALONG_SINCE: Final = 13
"""Operator set since which Softmax works along one axis."""


def _channels_first(call: Call, x: Tensor) -> Tensor:
    """An image with its channels first."""
    last = call.attribute("channels_last", 0)
    return permuted(x, [0, x.rank - 1, *range(1, x.rank - 1)]) if last else x


def _channels_back(call: Call, x: Tensor) -> Tensor:
    """An image with its channels where the node has them."""
    return permuted(x, [0, *range(2, x.rank), 1]) if call.attribute("channels_last", 0) else x


def _inner(call: Call, x: Tensor) -> Call:
    """The call on an image of real numbers with its channels first."""
    shape = list(call.shape())
    if call.attribute("channels_last", 0):
        shape = [shape[0], shape[-1], *shape[1:-1]]
    result = replace(call.results[0], dtype=x.dtype, shape=tuple(shape))
    return replace(call, operands=[x], results=[result])


@denotes("QLinearGlobalAveragePool", domain=_ORT)
def qlinear_global_average(call: Call) -> Tensor | None:
    """A quantized mean over the pixels of an image."""
    if call.case.is_exact:
        return None
    x = _channels_first(call, read_quantized(call, 0))
    mean = mean_over(call.case, x, [*range(2, x.rank)])
    return quantized_result(call, _channels_back(call, mean), 3, 4)


@denotes("QLinearAveragePool", domain=_ORT)
def qlinear_average_pool(call: Call) -> Tensor | None:
    """A quantized mean of a window."""
    if call.case.is_exact:
        return None
    x = _channels_first(call, read_quantized(call, 0))
    result = average_pool(_inner(call, x))
    return None if result is None else quantized_result(call, _channels_back(call, result), 3, 4)


@denotes("QLinearConv", domain=_ORT)
def qlinear_conv(call: Call) -> Tensor | None:
    """A quantized convolution; the kernel has its channels first."""
    if call.case.is_exact:
        return None
    x = _channels_first(call, read_quantized(call, 0))
    kernel = read_quantized(call, 3, 0)
    result = convolved(_inner(call, x), x, kernel, bias_of(call, 8, 0))
    return None if result is None else quantized_result(call, _channels_back(call, result), 6, 7)


@denotes("QLinearSoftmax", domain=_ORT)
def qlinear_softmax(call: Call) -> Tensor | None:
    """A quantized Softmax of the operator set that an attribute names."""
    opset = call.attribute("opset")
    if call.case.is_exact or not isinstance(opset, int) or "axis" not in call.node.attribute:
        return None
    axis = call.attribute("axis")
    result = softmax_of(call.case, read_quantized(call, 0), axis, flattens=opset < _ALONG_SINCE)
    return quantized_result(call, result, 3, 4)


@denotes("QLinearWhere", domain=_ORT)
def qlinear_where(call: Call) -> Tensor | None:
    """A quantized choice."""
    if call.case.is_exact:
        return None
    pair = [read_quantized(call, 1), read_quantized(call, 4)]
    choice = elementwise(
        lambda c, a, b: b + c * (a - b), [call.operand(0), *pair], call.shape(), pair[0].dtype
    )
    return quantized_result(call, choice, 7, 8)


@denotes("QGemm", domain=_ORT)
def qgemm(call: Call) -> Tensor | None:
    """``alpha * (A * B + C)``; the scale of C is the product of the scales of A and B."""
    if call.case.is_exact:
        return None
    flags = [call.attribute(name, 0) for name in ("transA", "transB")]
    a = read_quantized(call, 0)
    b = read_quantized(call, 3, 0 if flags[1] else 1)
    a, b = (permuted(x, [1, 0]) if flag else x for x, flag in zip((a, b), flags, strict=True))
    alpha = number_of(call, a.dtype, call.attribute("alpha", 1.0))
    result = multiplied(call.case, a, b)
    bias = bias_of(call, 6, -1)
    if bias is not None:
        require_broadcast([bias], result.shape)
        result = elementwise(lambda e, c: e + real(c), [result, bias], result.shape, result.dtype)
    result = result.mapped(lambda e: e * alpha)
    return quantized_result(call, result, 7, 8) if call.has(7) else result
