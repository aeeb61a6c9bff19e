"""Small known values that operators pass on: integers, as numbers or symbols, also in other types.

The value of an element is in the range of its type: if the bounds of an expression do not show
that, an operation that wraps around represents it (`wrapped`). A Boolean is 0 or 1. A
floating-point tensor has values only if all are integers that its type represents exactly, and none
is a negative zero: then a runtime computes exactly these numbers.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim, as_integer, bounds
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.shapes import Info, Shape
from xoptim.operators.protocols import NodeContext

DATA_LIMIT: Final = 64
"""Largest number of elements whose values are inferred."""
_BITS: Final[dict[int, int]] = {TensorProto.INT64: 64, TensorProto.INT32: 32}
INTEGERS: Final[frozenset[int]] = frozenset(_BITS)
_EXACT: Final[dict[int, tuple[int, int]]] = {
    TensorProto.DOUBLE: (-(2**53), 2**53),
    TensorProto.FLOAT: (-(2**24), 2**24),
    TensorProto.FLOAT16: (-(2**11), 2**11),
    TensorProto.BFLOAT16: (-(2**8), 2**8),
    TensorProto.BOOL: (0, 1),
}
RANGES: Final[dict[int, tuple[int, int]]] = {
    TensorProto.INT64: (-(2**63), 2**63 - 1),
    TensorProto.INT32: (-(2**31), 2**31 - 1),
    **_EXACT,
}
"""Limits between which a type represents all integers; symbols are in integer types only."""
Values = tuple[Dim, ...]


def values(ctx: NodeContext, index: int) -> Values | None:
    """Elements of an input of rank 0 or 1, numbers or symbols, when all are known."""
    info = ctx.input(index)
    if info is None or info.container:
        return None
    if info.data is not None:
        return info.data
    if info.dtype in INTEGERS:
        return ctx.data(index)
    if info.dtype not in _EXACT or info.shape is None or len(info.shape) > 1:
        return None
    size = info.shape[0] if info.shape else 1
    array = ctx.constant(index) if type(size) is int and size <= DATA_LIMIT else None
    return None if array is None else integral_values(array)


def wrapped(dtype: int, value: Dim | None) -> Dim | None:
    """Return the value in an element type after a sum, a difference, a product or a conversion of
    integers.

    A number out of range is left to `valued`, which drops it.
    """
    bits = _BITS.get(dtype)
    return value if value is None or bits is None or type(value) is int else as_integer(value, bits)


def is_exact_in_double(value: Dim, limit: int = 2**53) -> bool:
    """Whether a value's magnitude is known to be below a limit; by default, doubles hold it
    exactly.
    """
    low, high = bounds(value)
    return low is not None and high is not None and low > -limit and high < limit


def dimension(ctx: NodeContext, value: Dim | None) -> Dim:
    """A value used as a size: a new symbol when it is unknown or negative (no valid model has a
    negative size).
    """
    return ctx.fresh() if value is None or (type(value) is int and value < 0) else value


def integral_values(array: np.ndarray[Any, Any]) -> Values | None:
    """Elements of an array as integers, ``None`` when one of them is not an integer, or is a
    negative zero.
    """
    if array.size > DATA_LIMIT or array.dtype.kind not in "iufbV":
        return None
    if array.dtype.kind in "iub":  # the types of ml_dtypes, such as bfloat16, have kind V
        return tuple(map(int, array.ravel().tolist()))
    wide: list[float] = array.ravel().astype(np.float64).tolist()
    exact = (
        abs(x) <= 2.0**53 and x.is_integer() and (x != 0 or math.copysign(1.0, x) > 0) for x in wide
    )
    return tuple(map(int, wide)) if all(exact) else None


def known_value(info: Info) -> np.ndarray[Any, Any] | None:
    """The value of a small tensor whose elements all follow from shapes, else ``None``."""
    data = info.data
    if data is None or info.shape is None or not all(type(d) is int for d in data):
        return None
    return np.array(data).astype(numpy_dtype(info.dtype)).reshape([len(data)] if info.shape else [])


def valued(dtype: int, shape: Shape | None, data: Sequence[Dim | None] | None) -> Info:
    """Facts about a result that may have known values.

    The values are dropped when one is missing, when the type does not represent one, when there are
    too many, or when their number does not fit the shape.
    """
    if (
        data is None
        or shape is None
        or len(shape) > 1
        or len(data) > DATA_LIMIT
        or dtype not in RANGES
    ):
        return Info(dtype, shape)
    # the number of known elements determines a symbolic length
    if shape and type(shape[0]) is not int:
        shape = (len(data),)
    if len(data) != (shape[0] if shape else 1):
        return Info(dtype, shape)
    low, high = RANGES[dtype]
    elements: list[Dim] = []
    for value in data:
        if value is None or (
            not low <= value <= high if type(value) is int else dtype not in INTEGERS
        ):
            return Info(dtype, shape)
        elements.append(value)
    return Info(dtype, shape, tuple(elements))


def pairwise(
    rule: Callable[[Dim, Dim], Dim | None], a: Values | None, b: Values | None
) -> list[Dim | None] | None:
    """A binary rule applied element by element, one element broadcast to many."""
    if a is None or b is None:
        return None
    if len(a) != len(b):
        if len(a) == 1:
            a = a * len(b)
        elif len(b) == 1:
            b = b * len(a)
        else:
            return None
    return [rule(x, y) for x, y in zip(a, b, strict=True)]
