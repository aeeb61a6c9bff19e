"""Registration of numpy kernels, and the checks that they share."""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final

import numpy as np

from xoptim.facts.attributes import MOVED
from xoptim.operators.protocols import Array, EvaluationNode, Kernel
from xoptim.operators.registry import record

LARGEST_RESULT = 1 << 24
"""Number of elements above which a kernel refuses to build a result that is larger than its
inputs.
"""


_MALFORMED = (ValueError, IndexError, TypeError, OverflowError, AttributeError, KeyError)


def kernel(*op_types: str, domain: str = "") -> Callable[[Kernel], Kernel]:
    """Register a kernel for operators of a domain; it computes the same bits as onnxruntime.

    An error of numpy on a malformed node becomes a refusal; floating-point warnings are silenced.
    """

    def register(function: Kernel) -> Kernel:
        @wraps(function)
        def guarded(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
            try:
                with np.errstate(all="ignore"):
                    return function(node, inputs)
            except _MALFORMED:
                return None

        for op_type in op_types:
            record(domain, op_type).kernel = guarded
        return guarded

    return register


def optional(inputs: Sequence[Array | None], index: int) -> Array | None:
    """An input, ``None`` when it is omitted or beyond the end."""
    return inputs[index] if index < len(inputs) else None


def required(inputs: Sequence[Array | None], index: int) -> Array:
    """An input that the operator requires.

    Raises `ValueError` when it is omitted (`kernel` turns that into a refusal).
    """
    value = inputs[index] if index < len(inputs) else None
    if value is None:
        raise ValueError(f"input {index} is missing")
    return value


def ints(value: Array) -> list[int]:
    """Elements of an integer tensor; raises `TypeError` for other elements."""
    if value.dtype.kind not in "iu":
        raise TypeError(f"{value.dtype} where integers are expected")
    result: list[int] = value.ravel().tolist()
    return result


def ints_of(node: EvaluationNode, name: str, inputs: Sequence[Array | None]) -> list[int] | None:
    """Integers that are an attribute in old operator sets and an operand in new ones.

    ``None`` when neither is given.
    """
    value = optional(inputs, MOVED[node.op_type, name].place)
    if value is not None:
        return ints(value)
    numbers = node.attribute(name)
    return None if numbers is None else [int(v) for v in numbers]


def flag(node: EvaluationNode, name: str, default: bool = False) -> bool:
    """An attribute that is 0 or 1.

    Raises `TypeError` when its value is not known, as in the body of a function.
    """
    value = node.attribute(name, default)
    if not isinstance(value, int):
        raise TypeError(f"{name} is not known")
    return value != 0


def checked_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; raises `IndexError` when it does not exist."""
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} of a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis


def checked_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front.

    Raises `IndexError` or, when an axis is named twice, `ValueError`.
    """
    result = [checked_axis(axis, rank) for axis in axes]
    if len(set(result)) != len(result):
        raise ValueError(f"axes {list(axes)} repeat")
    return result


def is_number(*values: Array) -> bool:
    """Whether all are tensors of one dtype on which numpy and onnxruntime do the same arithmetic.

    These are integers, float32 and float64. Float16 is excluded: onnxruntime computes chains of
    float16 nodes in float32 and rounds only at the end, so the result of a single node differs.
    """
    dtype = values[0].dtype
    return (dtype.kind in "iu" or dtype in _FLOATS) and all(v.dtype == dtype for v in values)


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def without_nan(value: Array) -> list[Array] | None:
    """The result, or a refusal when it holds a NaN, whose bits depend on the compiler."""
    if value.dtype.kind == "f" and bool(np.isnan(value).any()):
        return None
    return [value]


def divisor_is_safe(divisor: Array, dividend: Array | None = None) -> bool:
    """Whether an integer division by these values cannot stop the process.

    A zero divisor stops it on some builds of onnxruntime; -1 does when the dividend is the least
    integer of its type.
    """
    if divisor.dtype.kind not in "iu":
        return True
    if bool((divisor == 0).any()):
        return False
    if divisor.dtype.kind == "u" or not bool((divisor == -1).any()):
        return True
    return dividend is not None and not bool((dividend == np.iinfo(divisor.dtype).min).any())


_ROWS: Final = 512
_LINE: Final = 64
"""Rows of a block, and bytes of a row (a cache line): a block fits into the L1 cache."""


def copy_in_blocks(source: Array, result: Array) -> None:
    """Copy an array into a contiguous one; a transposed array in blocks, five times as fast as
    numpy copies it.
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
