"""Element types: numpy counterparts, groups, tolerances, and conversions between them."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import ml_dtypes
import numpy as np
from onnx import TensorProto, TensorProto as T

Exactness: TypeAlias = Literal["exact", "rounding", "finite", "approximate"]
"""Exactness of a rewrite: bit-identical, equal up to rounding (a zero may change its sign), equal
up to rounding while no NaN, inf or -0 occurs, or approximate.
"""
GRADES: Final[tuple[Exactness, ...]] = get_args(Exactness)
"""The values of `Exactness`, from the strongest to the weakest guarantee."""


def weakest(grades: Iterable[Exactness]) -> Exactness:
    """The weakest of some guarantees, ``exact`` when there is none."""
    return max(grades, key=GRADES.index, default=GRADES[0])


class ElementType(NamedTuple):
    """Facts about one element type."""

    name: str  # as in ONNX text (``float``, ``int64``, ``bfloat16``)
    # ``f`` float, ``i`` signed integer, ``u`` unsigned integer, ``c`` complex, ``b`` Boolean, ``s``
    # string
    kind: Literal["f", "i", "u", "c", "b", "s"]
    bits: int  # size of one element; 0 for strings
    # type of the numpy array that holds the elements, one each (int4 is unpacked, strings are
    # objects)
    numpy: np.dtype


# Numbers rather than TensorProto.* for the last types, which old releases of onnx do not define.
ELEMENT_TYPES: Final[dict[int, ElementType]] = {
    TensorProto.FLOAT: ElementType("float", "f", 32, np.dtype(np.float32)),
    TensorProto.UINT8: ElementType("uint8", "u", 8, np.dtype(np.uint8)),
    TensorProto.INT8: ElementType("int8", "i", 8, np.dtype(np.int8)),
    TensorProto.UINT16: ElementType("uint16", "u", 16, np.dtype(np.uint16)),
    TensorProto.INT16: ElementType("int16", "i", 16, np.dtype(np.int16)),
    TensorProto.INT32: ElementType("int32", "i", 32, np.dtype(np.int32)),
    TensorProto.INT64: ElementType("int64", "i", 64, np.dtype(np.int64)),
    TensorProto.STRING: ElementType("string", "s", 0, np.dtype(np.object_)),
    TensorProto.BOOL: ElementType("bool", "b", 8, np.dtype(np.bool_)),
    TensorProto.FLOAT16: ElementType("float16", "f", 16, np.dtype(np.float16)),
    TensorProto.DOUBLE: ElementType("double", "f", 64, np.dtype(np.float64)),
    TensorProto.UINT32: ElementType("uint32", "u", 32, np.dtype(np.uint32)),
    TensorProto.UINT64: ElementType("uint64", "u", 64, np.dtype(np.uint64)),
    TensorProto.COMPLEX64: ElementType("complex64", "c", 64, np.dtype(np.complex64)),
    TensorProto.COMPLEX128: ElementType("complex128", "c", 128, np.dtype(np.complex128)),
    TensorProto.BFLOAT16: ElementType("bfloat16", "f", 16, np.dtype(ml_dtypes.bfloat16)),
    TensorProto.FLOAT8E4M3FN: ElementType(
        "float8e4m3fn", "f", 8, np.dtype(ml_dtypes.float8_e4m3fn)
    ),
    TensorProto.FLOAT8E4M3FNUZ: ElementType(
        "float8e4m3fnuz", "f", 8, np.dtype(ml_dtypes.float8_e4m3fnuz)
    ),
    TensorProto.FLOAT8E5M2: ElementType("float8e5m2", "f", 8, np.dtype(ml_dtypes.float8_e5m2)),
    TensorProto.FLOAT8E5M2FNUZ: ElementType(
        "float8e5m2fnuz", "f", 8, np.dtype(ml_dtypes.float8_e5m2fnuz)
    ),
    TensorProto.UINT4: ElementType("uint4", "u", 4, np.dtype(ml_dtypes.uint4)),
    TensorProto.INT4: ElementType("int4", "i", 4, np.dtype(ml_dtypes.int4)),
    23: ElementType("float4e2m1", "f", 4, np.dtype(ml_dtypes.float4_e2m1fn)),
    24: ElementType("float8e8m0", "f", 8, np.dtype(ml_dtypes.float8_e8m0fnu)),
    25: ElementType("uint2", "u", 2, np.dtype(ml_dtypes.uint2)),
    26: ElementType("int2", "i", 2, np.dtype(ml_dtypes.int2)),
}
FLOATS: Final = frozenset(number for number, entry in ELEMENT_TYPES.items() if entry.kind == "f")
"""The real floating-point types, of any size."""
_BY_NUMPY: Final = {entry.numpy: number for number, entry in ELEMENT_TYPES.items()}


def numpy_dtype(element_type: int) -> np.dtype:
    """The numpy type that holds one element of an ONNX type (``ml_dtypes`` for types that numpy
    lacks); raises `KeyError`.
    """
    return ELEMENT_TYPES[element_type].numpy


def element_type(dtype: np.dtype | type) -> int:
    """The ONNX element type of a numpy type.

    Objects, ``str`` and ``bytes`` of any length are strings. Raises `KeyError`.
    """
    dtype = np.dtype(dtype)
    return TensorProto.STRING if dtype.kind in "OSUT" else _BY_NUMPY[dtype]


def bits(element_type: int) -> int:
    """Bits of one element as ONNX stores it (4 for int4).

    0 for strings, which have no size, and unknown types.
    """
    return ELEMENT_TYPES[element_type].bits if element_type in ELEMENT_TYPES else 0


def byte_size(element_type: int, count: int) -> int:
    """Bytes that ``count`` elements take as ONNX packs them, the last byte padded.

    0 for strings.
    """
    return (bits(element_type) * count + 7) // 8


def is_float(element_type: int) -> bool:
    """Whether the type is a real floating-point one, of any size."""
    return _kind(element_type) == "f"


def is_integer(element_type: int) -> bool:
    """Whether the type is an integer, signed or not (a Boolean is not an integer)."""
    return _kind(element_type) in ("i", "u")


def is_signed_integer(element_type: int) -> bool:
    """Whether the type is an integer that can be negative."""
    return _kind(element_type) == "i"


def type_name(element_type: int) -> str:
    """Name as in ONNX text, ``float`` or ``bfloat16``.

    ``undefined`` for 0 and ``type 99`` for an unknown number.
    """
    if element_type in ELEMENT_TYPES:
        return ELEMENT_TYPES[element_type].name
    return f"type {element_type}" if element_type else "undefined"


def _kind(element_type: int) -> str:
    return ELEMENT_TYPES[element_type].kind if element_type in ELEMENT_TYPES else ""


class Tolerance(NamedTuple):
    """The tolerance of an output.

    It allows a difference of ``a`` from the reference ``b``: ``|a - b| <= atol + rtol * (|b| +
    scale)``. ``scale`` is the typical magnitude in the whole tensor (its median): a small number
    that results from cancellation carries the rounding error of the large ones it came from.

    Attributes:
        rtol: relative tolerance.
        atol: absolute tolerance.
    """

    rtol: float
    atol: float


# Measured: when onnxruntime fuses and reorders operators, exported transformers and CNNs differ by
# less than 4.3e-6 in float32 and 1.4e-3 in float16. Types of 8 bits and less are allowed one ULP.
_ROUNDING: Final[dict[int, Tolerance]] = {
    TensorProto.DOUBLE: Tolerance(1e-12, 1e-15),
    TensorProto.COMPLEX128: Tolerance(1e-12, 1e-15),
    TensorProto.FLOAT: Tolerance(1e-5, 1e-7),
    TensorProto.COMPLEX64: Tolerance(1e-5, 1e-7),
    TensorProto.FLOAT16: Tolerance(8e-3, 1e-6),
    TensorProto.BFLOAT16: Tolerance(4e-2, 1e-6),
    TensorProto.FLOAT8E4M3FN: Tolerance(0.125, 2.0**-9),
    TensorProto.FLOAT8E4M3FNUZ: Tolerance(0.125, 2.0**-10),
    TensorProto.FLOAT8E5M2: Tolerance(0.25, 2.0**-16),
    TensorProto.FLOAT8E5M2FNUZ: Tolerance(0.25, 2.0**-17),
    23: Tolerance(0.5, 0.5),
    24: Tolerance(1.0, 0.0),
}
# Published approximations (tanh or sigmoid forms of Gelu, low-order exponentials) err by up to 2 %
# of the values.
_APPROXIMATE: Final = Tolerance(2e-2, 1e-3)
_EQUAL: Final = Tolerance(0.0, 0.0)


def tolerance(element_type: int, exactness: Exactness) -> Tolerance:
    """The tolerance of results of an element type, zero for ``exact`` and for types that are not
    floating-point.

    ``exactness`` is the weakest promise among the rewrites; ``finite`` promises as much as
    ``rounding`` where numbers are finite. Raises `ValueError` for an unknown exactness.
    """
    if exactness not in GRADES:
        raise ValueError(
            f"exactness is 'exact', 'rounding', 'finite' or 'approximate', not {exactness!r}"
        )
    rounding = _ROUNDING.get(element_type)
    if exactness == "exact" or rounding is None:
        return _EQUAL
    if exactness == "approximate":
        return Tolerance(
            max(rounding.rtol, _APPROXIMATE.rtol), max(rounding.atol, _APPROXIMATE.atol)
        )
    return rounding


_COMMON_TYPES: Final = frozenset(
    (
        *(T.UINT8, T.INT8, T.UINT16, T.INT16, T.UINT32, T.INT32, T.UINT64, T.INT64),
        *(T.BFLOAT16, T.FLOAT16, T.FLOAT, T.DOUBLE),
    )
)

LOSSLESS: Final[dict[int, frozenset[int]]] = {
    T.BOOL: _COMMON_TYPES,
    T.UINT8: _COMMON_TYPES - {T.INT8},
    T.INT8: _COMMON_TYPES - {T.UINT8, T.UINT16, T.UINT32, T.UINT64},
    T.UINT16: frozenset((T.UINT32, T.INT32, T.UINT64, T.INT64, T.FLOAT, T.DOUBLE)),
    T.INT16: frozenset((T.INT32, T.INT64, T.FLOAT, T.DOUBLE)),
    T.UINT32: frozenset((T.UINT64, T.INT64, T.DOUBLE)),
    T.INT32: frozenset((T.INT64, T.DOUBLE)),
    T.FLOAT16: frozenset((T.FLOAT, T.DOUBLE)),
    T.BFLOAT16: frozenset((T.FLOAT, T.DOUBLE)),
    T.FLOAT: frozenset((T.DOUBLE,)),
    T.UINT64: frozenset(),
    T.INT64: frozenset(),
    T.DOUBLE: frozenset(),
}
"""Types that represent every value of a type exactly.

A significand has 8 bits in bfloat16, 11 in float16, 24 in float, 53 in double. Types of fewer than
8 bits, and floats of 8 bits, are left out: runtimes have few conversions of them.
"""


def is_one_conversion(source: int, middle: int, target: int) -> bool:
    """Whether converting from ``source`` to ``middle`` and on to ``target`` is the same as
    converting at once, for all values.

    Either the first step is exact, and the second one starts from the same number. Or all three
    types are integers, and the last one has no more bits than the middle one: ONNX drops the high
    bits of integers. Types are those of ``TensorProto.DataType``.
    """
    if source not in LOSSLESS or target not in _COMMON_TYPES | {T.BOOL}:
        return False
    types = (source, middle, target)
    if source == middle or middle in LOSSLESS[source]:
        # A float that is too large for the next integer type has no defined value there.
        may_overflow = is_integer(source) and is_float(middle) and is_integer(target)
        return not may_overflow or target == source or target in LOSSLESS[source]
    return all(is_integer(t) and t in _COMMON_TYPES for t in types) and bits(middle) >= bits(target)
