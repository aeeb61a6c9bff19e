"""Numbers to feed in place of moderate ones: tails of functions, ends of ranges, integers that doubles cannot represent."""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import ml_dtypes
import numpy as np


class Values(NamedTuple):
    """Other numbers for the inputs of a model, made from plain numbers and the position among the inputs of that kind.

    ``digits``: whether each result is judged by its relative error, even if it is small beside the others.
    """

    word: str
    change: Callable[[np.ndarray, int], np.ndarray]
    digits: bool = False


_TAIL: Final = (20, -20, 0.25, -90, 90, -0.25, 1e-3, -100, 100, 1e-30, -1e-30, -7, 7, -40, 40, -1e-5, 1e4, -1e4)
_LARGE_INTEGERS: Final = (2**53 + 1, -3, 2**62 + 3, 0, -(2**53) - 1, 2**31 + 1, 7, -(2**62) - 5, 1, 2**24 + 1)


def is_real(array: np.ndarray) -> bool:
    """Whether an array holds floating-point numbers, types of ``ml_dtypes`` included."""
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def limits(dtype: np.dtype) -> tuple[float, float, int]:
    """Smallest normal number, largest number, and bits of the mantissa of a floating-point type."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(info.smallest_normal), float(info.max), int(info.nmant)


def _tails(array: np.ndarray, position: int) -> np.ndarray:
    if not is_real(array):
        return array
    largest = limits(array.dtype)[1]
    return np.resize(np.roll([v for v in _TAIL if abs(v) < largest], -position * 5), array.shape).astype(array.dtype)


def _large_integers(array: np.ndarray, position: int) -> np.ndarray:
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4:
        return array
    with np.errstate(all="ignore"):
        return np.resize(np.roll(np.array(_LARGE_INTEGERS), -position), array.shape).astype(array.dtype)


def _share(part: int, smallest: float, largest: float) -> float:
    return largest / part


def _scaled(
    factor: Callable[[float, float], float], *, which: int = 0, negative: bool = False
) -> Callable[[np.ndarray, int], np.ndarray]:
    """Scales one of the inputs; products of two scaled ones would be out of range."""

    def change(array: np.ndarray, position: int) -> np.ndarray:
        if not is_real(array) or position != which:
            return array
        smallest, largest, _ = limits(array.dtype)
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64) * factor(smallest, largest)
            return (-np.abs(wide) if negative else wide).astype(array.dtype)

    return change


PLAIN: Final = Values("plain", lambda array, position: array)
TAILS: Final = Values("tails", _tails, digits=True)
LARGE_INTEGERS: Final = Values("large integers", _large_integers)
SMALL: Final = Values("small", _scaled(lambda smallest, largest: largest**-0.6), digits=True)
"""Moderate when multiplied by a number; the product of two of them is out of range."""
LARGE: Final = Values("large", _scaled(lambda smallest, largest: smallest**-0.8), digits=True)
VERY_NEGATIVE: Final = tuple(
    Values(f"input {which} down to 1/{part} of the largest", _scaled(partial(_share, part), which=which, negative=True))
    for which in (0, 1)
    for part in (4, 16)
)
