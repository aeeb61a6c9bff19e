"""The kinds of factors, and the arrays of constants."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from xoptim.facts.dtypes import bits, is_signed_integer
from xoptim.facts.polynomials import digest_of

SIZE: Final = "size"
"""Kind of a factor that is an integer: a size, an index, or an operation on them."""
CONSTANT: Final = "constant"
"""Kind of a factor that is an element of a constant, at some indices."""
WITHIN: Final = "within"
"""Kind of a factor that is 1 where its argument is at least 0, and 0 elsewhere."""
SUM: Final = "sum"
"""Kind of a factor that is a sum, in a denominator."""
ROOT: Final = "root"
"""Kind of a factor that is a square root."""
EXP: Final = "exp"
"""Kind of a factor that is an exponential."""
WHOLE: Final = "whole"
"""Kind of a factor that is a function of complete tensors.

Its arguments are the operands at the index symbols of `CaseFacts.place`, which stand for all
indices.
"""
SPECIAL: Final = "special"
"""Kind of a factor that is no real number: NaN or an infinity."""
MASKED: Final = "masked"
"""Kind of a factor that is its second argument where the first one is 1, and -infinity where it is
0."""
MAXIMUM: Final = "maximum"
"""Kind of a factor that is the greatest of real numbers."""
MINIMUM: Final = "minimum"
"""Kind of a factor that is the least of real numbers."""
TANH: Final = "tanh"
"""Kind of a factor that is a hyperbolic tangent."""
ERF: Final = "erf"
"""Kind of a factor that is the error function."""
ROUND: Final = "round"
"""Kind of a factor that is a real number rounded half to even."""
FLOOR: Final = "floor"
"""Kind of a factor that is the greatest integer that is at most a real number."""
WRAPPED: Final = "wrapped"
"""Kind of a factor that is an integer modulo a power of 2, in the range of a type."""
QUOTIENT: Final = "quotient"
"""Kind of a factor that is a quotient of integers, rounded toward 0."""
POSITION: Final = "position"
"""Kind of a factor that is an index along an axis, counted from the start."""
LOG: Final = "log"
"""Kind of a factor that is a natural logarithm."""

EXTREMES: Final = (MAXIMUM, MINIMUM)
LESS: Final = "less"
AT_MOST: Final = "at most"
EQUAL: Final = "equal"
COMPARISONS: Final = (LESS, AT_MOST, EQUAL)
"""Kinds of factors that compare their arguments: 1 where the comparison holds, else 0."""


def limits_of(dtype: int) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    count = bits(dtype)
    if is_signed_integer(dtype):
        return -(1 << count - 1), (1 << count - 1) - 1
    return 0, (1 << count) - 1


_SAMPLED: Final = 64
"""Number of elements of an array that decide its hash."""


class Stored:
    """The array of a constant; arrays with equal types, shapes and bytes are equal."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        # the types of ml_dtypes, such as bfloat16, have kind V
        is_integer = array.dtype.kind in "iub"
        self.is_integral = is_integer  # whether all elements are integers
        numbers = array if array.dtype.kind == "f" else array.astype(np.float64)
        self.is_finite = is_integer or bool(np.isfinite(numbers).all())
        self._bits = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        step = 1 + array.size // _SAMPLED * array.dtype.itemsize
        self._hash = hash((array.dtype.str, array.shape, self._bits[::step].tobytes()))

    @property
    def digest(self) -> bytes:
        """A digest of the type, the shape and the elements, 16 bytes."""
        label = f"{self.array.dtype} {self.array.shape}".encode()
        return digest_of(label, self._bits.tobytes())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Stored) or self._hash != other._hash:
            return False
        first, second = self.array, other.array
        is_alike = first.dtype == second.dtype and first.shape == second.shape
        return is_alike and np.array_equal(self._bits, other._bits)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.array.dtype}{[*self.array.shape]}:{self.digest.hex()[:6]}"


class AnyArray(NamedTuple):
    """A constant whose elements may be any finite numbers of a type.

    ``place``: its number among the constants of this kind.
    """

    place: int
    dtype: int
