"""Operators of ONNX Runtime that are short formulas of standard ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from onnx import TensorProto

from xoptim.proof.calls import Call, axis_within, denotes, settled_tensor
from xoptim.proof.denotations.functions import sigmoid_of
from xoptim.proof.denotations.movement import gather_nd, number_of, permuted
from xoptim.proof.denotations.padding import padded
from xoptim.proof.denotations.sums import is_covered, multiplied, normalized, real, summed_over
from xoptim.proof.denotations.windows import max_pool
from xoptim.proof.elements import ONE, ZERO, Element
from xoptim.proof.kinds import MAXIMUM
from xoptim.proof.laws import exponential, extreme, logarithm, root
from xoptim.proof.tensors import Indices, Tensor, elementwise, require_equal, reshaped

_ORT: Final = "com.microsoft"
_GATES: Final[dict[str, Callable[[Element], Element]]] = {
    "silu": lambda e: e * sigmoid_of(e),
    "swish": lambda e: e * sigmoid_of(e),
    "sigmoid": sigmoid_of,
}


def _is_float32(call: Call, *places: int) -> bool:
    """Whether the result and some operands are float32, read as real numbers."""
    return is_covered(call, *places) and call.dtype() == TensorProto.FLOAT


def _typed(call: Call, x: Tensor) -> Call:
    """The call with the type and the shape of an operand as those of its first result."""
    info = replace(call.results[0], dtype=x.dtype, shape=x.shape)
    return replace(call, results=[info, *call.results[1:]])


@denotes("GatedAdd", domain=_ORT)
def gated_add(call: Call) -> Tensor | None:
    """``x + y * gate``, where the gate is one number for each row."""
    x, y, gate = (call.operand(place) for place in range(3))
    if len(call.operands) > 3 or gate.rank != x.rank or gate.shape[-1] != 1:
        return None
    if not _is_float32(_typed(call, x), 0, 1, 2) or y.shape != x.shape:
        return None
    for gate_size, size in zip(gate.shape[:-1], x.shape[:-1], strict=True):
        require_equal(gate_size, size, or_one=False)
    return elementwise(lambda a, b, g: real(a) + real(b) * real(g), [x, y, gate], x.shape, x.dtype)


@denotes("ScaledSiLU", domain=_ORT)
def scaled_silu(call: Call) -> Tensor | None:
    """``z * Sigmoid(z)`` of ``z = x * alpha``, or of x times a scalar operand."""
    x = call.operand(0)
    if not _is_float32(_typed(call, x), 0) or (call.has(1) and call.operand(1).dtype != x.dtype):
        return None
    factor = number_of(call, x.dtype, call.attribute("alpha", 1.0))
    if call.has(1):
        scale = call.operand(1)
        if scale.rank:
            return None
        factor = real(scale.at(()))
    return x.mapped(lambda e: real(e) * factor * sigmoid_of(real(e) * factor))


@denotes("LinearAttentionGate", domain=_ORT)
def linear_attention_gate(call: Call) -> list[Tensor] | None:
    """``scale * Softplus(x + bias)`` with a bias and a scale for each head, and ``Sigmoid(b)``."""
    x, bias, scale = (call.operand(place) for place in range(3))
    if not _is_float32(_typed(call, x), 0, 1, 2) or not x.rank:
        return None
    for parameter in (bias, scale):
        if parameter.rank != 1:
            return None
        require_equal(parameter.shape[0], x.shape[-1], or_one=False)

    def decay(indices: Indices) -> Element:
        power = exponential(real(x.at(indices) + bias.at([indices[-1]])))
        return real(scale.at([indices[-1]])) * logarithm(ONE + power)

    results = [Tensor(x.shape, x.dtype, decay)]
    if len(call.node.output) > 1:
        b = call.operand(3)
        if b.dtype != x.dtype:
            return None
        results.append(b.mapped(lambda e: sigmoid_of(real(e))))
    return results


@denotes("GatedRMSNorm", domain=_ORT)
def gated_rms_norm(call: Call) -> Tensor | None:
    """``x / sqrt(mean of x^2 + epsilon) * scale * activation(gate)`` in parts of the last axis that
    are as long as the scale.
    """
    x, scale, gate = (call.operand(place) for place in range(3))
    name = call.attribute("activation", "silu")
    activation = _GATES.get(name.decode() if isinstance(name, bytes) else str(name))
    if not _is_float32(_typed(call, x), 0, 1, 2) or activation is None:
        return None
    if not x.rank or scale.rank != 1 or gate.shape != x.shape:
        return None
    width, length = x.shape[-1], scale.shape[0]
    if not isinstance(width, int) or not isinstance(length, int) or length < 1 or width % length:
        return None
    parts = reshaped(call.case, x, (*x.shape[:-1], width // length, length))
    epsilon = number_of(call, x.dtype, call.attribute("epsilon", 1e-5))
    normal = normalized(call.case, parts, [parts.rank - 1], epsilon, is_centered=False)
    scaled = elementwise(lambda e, s: e * real(s), [normal, scale], normal.shape, normal.dtype)
    flat = reshaped(call.case, scaled, x.shape)
    return elementwise(lambda e, g: e * activation(real(g)), [flat, gate], x.shape, x.dtype)


@denotes("CDist", domain=_ORT)
def distances(call: Call) -> Tensor | None:
    """Euclidean distances between the rows of two matrices, or their squares.

    The squares are written as ``max(square, 0)``, which they are equal to.
    """
    a, b = call.operand(0), call.operand(1)
    metric = call.attribute("metric", "sqeuclidean")
    name = metric.decode() if isinstance(metric, bytes) else metric
    if a.rank != 2 or b.rank != 2 or name not in ("euclidean", "sqeuclidean"):
        return None
    shape = (a.shape[0], b.shape[0])
    info = replace(call.results[0], dtype=a.dtype, shape=shape)
    if not _is_float32(replace(call, results=[info]), 0, 1):
        return None
    require_equal(a.shape[1], b.shape[1], or_one=False)
    products = multiplied(call.case, a, permuted(b, [1, 0]))
    squares = [summed_over(call.case, x, [1], keeps=False, change=lambda e: e * e) for x in (a, b)]

    def read(indices: Indices) -> Element:
        row, column = indices
        total = squares[0].at([row]) + squares[1].at([column])
        square = extreme(MAXIMUM, total - products.at(indices).scaled(2), ZERO)
        return root(square) if name == "euclidean" else square

    return Tensor(shape, a.dtype, read)


@denotes("ExpandDims", domain=_ORT)
def expand_dims(call: Call) -> Tensor | None:
    """The operand with another axis of size 1."""
    x, axes = call.operand(0), call.ints(1)
    if axes is None or len(axes) != 1:
        return None
    place = axis_within(axes[0], x.rank + 1)
    return reshaped(call.case, x, (*x.shape[:place], 1, *x.shape[place:]))


@denotes("Pad", domain=_ORT)
def pad(call: Call) -> Tensor | None:
    """As the Pad of the standard, with a row of pads and a vector of one value."""
    x, pads = call.operand(0), call.dims(1)
    if pads is None or len(pads) != 2 * x.rank:
        return None
    mode = call.attribute("mode", "constant")
    value = ZERO
    if call.has(2):
        filler = call.operand(2)
        if any(size != 1 for size in filler.shape):
            return None
        value = filler.at([0] * filler.rank)
    name = mode.decode() if isinstance(mode, bytes) else mode
    return padded(call, x, {k: (pads[k], pads[k + x.rank]) for k in range(x.rank)}, name, value)


@denotes("GatherND", domain=_ORT)
def gather_tuples(call: Call) -> Tensor | None:
    """As the GatherND of the standard, without batch dimensions."""
    return None if call.attribute("batch_dims", 0) else gather_nd(call)


@denotes("MatMulInteger16", domain=_ORT)
def matmul_integer16(call: Call) -> Tensor | None:
    """The product of matrices of integers of 16 bits, in 32 bits."""
    pair = [call.operand(0), call.operand(1)]
    if any(x.dtype != TensorProto.INT16 for x in pair):
        return None
    a, b = (settled_tensor(x).typed(TensorProto.INT32) for x in pair)
    return multiplied(call.case, a, b)


@denotes("NhwcMaxPool", domain=_ORT)
def nhwc_max_pool(call: Call) -> Tensor | None:
    """A MaxPool of images with their channels last."""
    x, shape = call.operand(0), call.shape()
    if x.rank < 3:
        return None
    first = permuted(x, [0, x.rank - 1, *range(1, x.rank - 1)])
    info = replace(call.results[0], shape=(shape[0], shape[-1], *shape[1:-1]))
    result = max_pool(replace(call, operands=[first], results=[info]))
    return None if result is None else permuted(result, [0, *range(2, x.rank), 1])
