"""Conversions between element types that are exact, and chains of conversions that a single one replaces."""

from __future__ import annotations

from typing import Final

from onnx import TensorProto as T

from xoptim.facts.dtypes import bits, is_float, is_integer

_EVERY: Final = frozenset(
    (
        *(T.UINT8, T.INT8, T.UINT16, T.INT16, T.UINT32, T.INT32, T.UINT64, T.INT64),
        *(T.BFLOAT16, T.FLOAT16, T.FLOAT, T.DOUBLE),
    )
)
"""The common types but for Booleans."""

LOSSLESS: Final[dict[int, frozenset[int]]] = {
    T.BOOL: _EVERY,
    T.UINT8: _EVERY - {T.INT8},
    T.INT8: _EVERY - {T.UINT8, T.UINT16, T.UINT32, T.UINT64},
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
"""Types that represent every value of a type exactly. A significand has 8 bits in bfloat16, 11 in float16, 24 in float, 53 in
double. The narrow types of 8 bits and less are left out: runtimes convert between few of them."""


def is_one_conversion(source: int, middle: int, target: int) -> bool:
    """Whether converting from ``source`` to ``middle`` and on to ``target`` is the same as converting at once, for all values.

    Either the first step is exact, and the second one starts from the same number; or all three are integers, and the last
    one keeps no more bits than the middle one (ONNX drops the high bits of integers). Types are those of
    ``TensorProto.DataType``.
    """
    if source not in LOSSLESS or target not in _EVERY | {T.BOOL}:
        return False
    types = (source, middle, target)
    if source == middle or middle in LOSSLESS[source]:
        # A float that is too large for the next integer type has no defined value there.
        guesses = is_integer(source) and is_float(middle) and is_integer(target)
        return not guesses or target == source or target in LOSSLESS[source]
    return all(is_integer(t) and t in _EVERY for t in types) and bits(middle) >= bits(target)
