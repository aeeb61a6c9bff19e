"""Numpy kernels that are exact: movements, reads of shapes, integers, and what IEEE 754 defines to
the last bit.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx

from xoptim.facts.dtypes import numpy_dtype
from xoptim.operators.evaluate.kernel_table import (
    LARGEST_RESULT,
    axes_of,
    axis_of,
    flag,
    ints,
    ints_of,
    is_number,
    kernel,
    optional,
    required,
    without_nan,
)
from xoptim.operators.protocols import Array, EvaluationNode


def _operands(node: EvaluationNode, inputs: list[Array | None]) -> tuple[Array, Array] | None:
    """Both operands, when they have one dtype and shapes that the operator set combines as numpy
    does.
    """
    a, b = required(inputs, 0), required(inputs, 1)
    if a.dtype != b.dtype or (node.opset < 7 and a.shape != b.shape):
        return None
    return a, b


def _binary(op_type: str, ufunc: np.ufunc, *, numbers: bool = True, truths: bool = False) -> None:
    @kernel(op_type)
    def compute(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
        pair = _operands(node, inputs)
        if pair is None or not (
            (numbers and is_number(*pair)) or (truths and pair[0].dtype == np.bool_)
        ):
            return None
        return without_nan(np.asarray(ufunc(*pair)))


def _unary(op_type: str, ufunc: np.ufunc, kinds: str) -> None:
    @kernel(op_type)
    def compute(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
        x = required(inputs, 0)
        known = x.dtype.kind in kinds and (x.dtype == np.bool_ or is_number(x))
        return without_nan(np.asarray(ufunc(x))) if known else None


_binary("Add", np.add)
_binary("Sub", np.subtract)
_binary("Mul", np.multiply)
_unary("Neg", np.negative, "if")
_unary("Abs", np.abs, "iuf")
_unary("Sqrt", np.sqrt, "f")
_unary("Floor", np.floor, "f")
_unary("Ceil", np.ceil, "f")
_unary("Sign", np.sign, "iu")
_unary("Not", np.logical_not, "b")
_binary("Equal", np.equal, truths=True)
_binary("Greater", np.greater)
_binary("GreaterOrEqual", np.greater_equal)
_binary("Less", np.less)
_binary("LessOrEqual", np.less_equal)
_binary("And", np.logical_and, numbers=False, truths=True)
_binary("Or", np.logical_or, numbers=False, truths=True)
_binary("Xor", np.logical_xor, numbers=False, truths=True)


def divisor_is_safe(divisor: Array, dividend: Array | None = None) -> bool:
    """Whether an integer division by these values cannot stop the process.

    A zero divisor stops it on some builds of onnxruntime, -1 does when the dividend is the least
    number of its type.
    """
    if divisor.dtype.kind not in "iu":
        return True
    if bool((divisor == 0).any()):
        return False
    if divisor.dtype.kind == "u" or not bool((divisor == -1).any()):
        return True
    return dividend is not None and not bool((dividend == np.iinfo(divisor.dtype).min).any())


@kernel("Div")
def div(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Quotient: rounded towards zero for integers, to nearest for floats."""
    pair = _operands(node, inputs)
    if pair is None or not is_number(*pair):
        return None
    a, b = pair
    if a.dtype.kind == "f":
        return without_nan(np.asarray(a / b))
    if not divisor_is_safe(b, a):
        return None
    quotient = np.floor_divide(a, b)
    # floor_divide rounds down: one more where the exact quotient is negative and not whole
    return [np.asarray(quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(a.dtype))]


@kernel("Cast", "CastLike")
def cast(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The elements in another type, where the standard defines the result.

    Refused: NaN, floats out of the range of the integer type, double to half (onnxruntime rounds
    twice), text, and every type that numpy does not support but bfloat16.
    """
    x = required(inputs, 0)
    target = (
        required(inputs, 1).dtype
        if node.op_type == "CastLike"
        else numpy_dtype(node.attribute("to"))
    )
    if not all(
        dtype == _BFLOAT16 or (dtype.isbuiltin == 1 and dtype.kind in "iufb")
        for dtype in (x.dtype, target)
    ):
        return None
    if x.dtype == target:
        return [x]
    return _cast_integer(x, target) if x.dtype.kind in "iub" else _cast_float(x, target)


_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_EXACT_IN_HALF = {np.dtype(np.float16): 1 << 11, _BFLOAT16: 1 << 8}


def _cast_integer(x: Array, target: np.dtype[Any]) -> list[Array] | None:
    # Beyond these numbers the cast would round, perhaps twice by way of another type.
    exact = _EXACT_IN_HALF.get(target)
    if (
        exact is not None
        and x.dtype.kind != "b"
        and x.size
        and (x.min() < -exact or x.max() > exact)
    ):
        return None
    return [x.astype(target)]


def _cast_float(x: Array, target: np.dtype[Any]) -> list[Array] | None:
    if x.dtype != np.float64 and x.dtype != np.float32:
        x = x.astype(np.float32)
    if bool(np.isnan(x).any()):
        return None
    if target in _EXACT_IN_HALF:
        return [x.astype(target)] if x.dtype == np.float32 else None
    if target.kind in "fb":
        return [x.astype(target)]
    whole, limits = np.trunc(x), np.iinfo(target)
    # both bounds are powers of two (or zero), hence exact as floats
    if bool(((whole < float(limits.min)) | (whole >= float(limits.max + 1))).any()):
        return None
    return [x.astype(target)]


_ROWS: Final = 512
_LINE: Final = 64
"""Rows of a block, and bytes of a row, a line of the cache: all of a block fits into the first
cache.
"""


def copy_in_blocks(source: Array, result: Array) -> None:
    """Copy an array into one whose elements are in order, a transposed one in blocks: five times as
    fast as numpy's order.
    """
    last = source.ndim - 1
    fast = min(
        range(source.ndim),
        key=lambda axis: (abs(source.strides[axis]) or math.inf, -axis),
        default=last,
    )
    if fast == last:
        result[...] = source
        return
    columns = max(_LINE // source.dtype.itemsize, 1)
    for i in range(0, source.shape[fast], _ROWS):
        for j in range(0, source.shape[last], columns):
            block = [slice(None)] * source.ndim
            block[fast], block[last] = slice(i, i + _ROWS), slice(j, j + columns)
            result[tuple(block)] = source[tuple(block)]


@kernel("Identity")
def identity(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The input itself."""
    return [required(inputs, 0)]


@kernel("Shape")
def shape(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Dimensions ``start`` to ``end``, both clamped to the rank."""
    return [
        np.array(
            required(inputs, 0).shape[node.attribute("start", 0) : node.attribute("end")],
            dtype=np.int64,
        )
    ]


@kernel("Constant")
def constant(node: EvaluationNode, _inputs: list[Array | None]) -> list[Array] | None:
    """The value, from any of the attributes that may hold it."""
    value = node.attribute("value")
    if value is not None:
        return [_tensor(value)]
    sparse = node.attribute("sparse_value")
    if sparse is not None:
        return [_dense(sparse)]
    for suffix, dtype in (("int", np.int64), ("float", np.float32), ("string", object)):
        for name in (f"value_{suffix}", f"value_{suffix}s"):
            value = node.attribute(name)
            if value is not None:
                return [np.array(value, dtype=dtype)]
    return None


def _tensor(value: Any) -> Array:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value if isinstance(value, np.ndarray) else value.numpy())


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    """The dense form of a sparse tensor, whose positions are linear or one coordinate per axis."""
    values, positions = _tensor(sparse.values), _tensor(sparse.indices)
    if prod(sparse.dims) > LARGEST_RESULT:
        raise ValueError("the dense form is too large")
    dense = np.zeros(tuple(sparse.dims), dtype=values.dtype)
    if positions.ndim == 2:
        positions = np.ravel_multi_index(tuple(positions.T), dense.shape)
    dense.reshape(-1)[positions] = values
    return dense


@kernel("ConstantOfShape")
def constant_of_shape(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """A tensor filled with the one element of ``value``."""
    dims = ints(required(inputs, 0))
    value = node.attribute("value")
    fill = np.zeros(1, np.float32) if value is None else _tensor(value)
    if fill.size != 1 or min(dims, default=0) < 0 or prod(dims) > LARGEST_RESULT:
        return None
    return [np.full(dims, fill.reshape(()), dtype=fill.dtype)]


@kernel("Reshape")
def reshape(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The elements in another shape: 0 copies a dimension (unless ``allowzero``), -1 means the
    remaining factor.
    """
    data = required(inputs, 0)
    dims = ints_of(node, "shape", inputs)
    # runtimes refuse models with others
    typed = all(array is None or array.dtype == np.int64 for array in inputs[1:])
    if dims is None or min(dims, default=0) < -1 or not typed:
        return None
    if not flag(node, "allowzero"):
        dims = [data.shape[axis] if dim == 0 else dim for axis, dim in enumerate(dims)]
    if -1 in dims and 0 in dims:
        return None
    return [data.reshape(dims)]


@kernel("Squeeze")
def squeeze(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The same without some axes of length one (all of them when none is named, as onnxruntime
    reads an empty list too).
    """
    data = required(inputs, 0)
    axes = ints_of(node, "axes", inputs)
    if not axes:
        return [data.reshape([dim for dim in data.shape if dim != 1])]
    dropped = {axis_of(axis, data.ndim) for axis in axes}
    if any(data.shape[axis] != 1 for axis in dropped):
        return None
    return [data.reshape([dim for axis, dim in enumerate(data.shape) if axis not in dropped])]


@kernel("Unsqueeze")
def unsqueeze(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The same with axes of length one at the given positions of the result."""
    data = required(inputs, 0)
    axes = ints_of(node, "axes", inputs)
    if axes is None:
        return None
    rank = data.ndim + len(axes)
    added = set(axes_of(axes, rank))
    dims = iter(data.shape)
    return [data.reshape([1 if axis in added else next(dims) for axis in range(rank)])]


@kernel("Transpose")
def transpose(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Axes permuted, reversed by default."""
    data = required(inputs, 0)
    perm = node.attribute("perm")
    if perm is not None and sorted(perm) != list(range(data.ndim)):
        return None
    moved = data.transpose(perm)
    result = np.empty(moved.shape, moved.dtype)
    copy_in_blocks(moved, result)
    return [result]


@kernel("Concat")
def concat(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Tensors of one dtype, concatenated."""
    axis = node.attribute("axis", 1 if node.opset < 4 else None)
    values = [value for value in inputs if value is not None]
    if (
        axis is None
        or len(values) != len(inputs)
        or any(v.dtype != values[0].dtype for v in values)
    ):
        return None
    return [np.concatenate(values, axis=axis_of(axis, values[0].ndim))]


@kernel("Gather")
def gather(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Entries of one axis, picked by position; negative positions count from the end."""
    data, positions = required(inputs, 0), required(inputs, 1)
    axis = axis_of(node.attribute("axis", 0), data.ndim)
    if not _within(positions, data.shape[axis]):
        return None
    return [np.asarray(np.take(data, positions, axis=axis))]


def _within(positions: Array, length: int) -> bool:
    """Whether all positions are integers of an axis of that length, counted from either end."""
    if positions.dtype.kind not in "iu":
        return False
    return positions.size == 0 or bool(positions.min() >= -length and positions.max() < length)


@kernel("Slice")
def slice_(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Ranges of some axes, with steps of either sign."""
    data = required(inputs, 0)
    ranges = slice_ranges(node, inputs, data.shape)
    return None if ranges is None else [data[tuple(ranges)].copy()]


def slice_ranges(
    node: EvaluationNode, inputs: list[Array | None], shape: Sequence[int]
) -> list[slice] | None:
    """The range of each axis that a Slice takes, as Python counts it.

    ``None`` when the node is not understood.

    The data, the first of the inputs, is not read; ``shape`` is its shape.
    """
    starts = ints_of(node, "starts", inputs)
    ends = ints_of(node, "ends", inputs)
    if starts is None or ends is None or len(starts) != len(ends):
        return None
    axes = ints_of(node, "axes", inputs)
    step_values = optional(inputs, 4)
    axes = axes_of(range(len(starts)) if axes is None else axes, len(shape))
    steps = [1] * len(starts) if step_values is None else ints(step_values)
    if len(axes) != len(starts) or len(steps) != len(starts) or 0 in steps:
        return None
    if any(step < 0 and end >= _OPEN_END for end, step in zip(ends, steps, strict=True)):
        return None
    ranges = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        ranges[axis] = _range_of(start, end, step, shape[axis])
    return ranges


_OPEN_END = 2**31 - 1
"""Ends from here on, with a negative step, are empty ranges by the standard and whole axes in
onnxruntime.
"""


def _range_of(start: int, end: int, step: int, length: int) -> slice:
    """The Python slice of an ONNX range: a negative end below ``-length`` means "before the
    first".
    """
    start = start + length if start < 0 else start
    end = end + length if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    end = min(max(end, -1), length - 1)
    return slice(min(max(start, 0), max(length - 1, 0)), None if end < 0 else end, step)


@kernel("Expand")
def expand(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The data broadcast together with the given shape."""
    data = required(inputs, 0)
    dims = np.broadcast_shapes(data.shape, tuple(ints(required(inputs, 1))))
    if prod(dims) > max(LARGEST_RESULT, data.size):
        return None
    return [np.broadcast_to(data, dims).copy()]


@kernel("Split")
def split(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Consecutive parts of one axis: of the given lengths, or equal but for a shorter last one."""
    data = required(inputs, 0)
    axis = axis_of(node.attribute("axis", 0), data.ndim)
    lengths = split_lengths(node, inputs, data.shape[axis])
    return (
        None
        if lengths is None
        else [part.copy() for part in np.split(data, list(accumulate(lengths))[:-1], axis=axis)]
    )


def split_lengths(
    node: EvaluationNode, inputs: list[Array | None], length: int
) -> list[int] | None:
    """The lengths of the parts of a Split, ``None`` when they do not fit an axis of this length."""
    lengths = ints_of(node, "split", inputs)
    if lengths is None:
        lengths = _equal_parts(length, node)
    return (
        lengths
        if sum(lengths) == length and min(lengths) >= 0 and len(lengths) == node.num_outputs
        else None
    )


def _equal_parts(length: int, node: EvaluationNode) -> list[int]:
    count = node.attribute("num_outputs", node.num_outputs)
    part = -(-length // count)
    if count > length if node.opset >= 18 else length % count:
        raise ValueError(f"{length} does not divide into {count}")
    return [part] * (count - 1) + [length - part * (count - 1)]


@kernel("Trilu")
def trilu(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The upper (default) or lower triangle of each matrix, zeros elsewhere."""
    data, offset = required(inputs, 0), optional(inputs, 1)
    if data.ndim < 2:
        return None
    k = 0 if offset is None else int(offset.reshape(()))
    rows, columns = data.shape[-2:]
    k = min(max(k, -rows - 1), columns + 1)
    distance = np.arange(columns) - np.arange(rows)[:, None]
    kept = distance >= k if flag(node, "upper", True) else distance <= k
    return [np.where(kept, data, np.zeros((), data.dtype))]


@kernel("Where")
def where(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Elements of the second input where the first holds, of the third elsewhere."""
    condition, then, other = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    if condition.dtype != np.bool_ or then.dtype != other.dtype:
        return None
    return [np.where(condition, then, other)]
