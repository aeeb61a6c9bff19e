"""Limits of elements that are made of integers."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from xoptim.facts.dims import bounds
from xoptim.facts.dtypes import is_integer
from xoptim.proof.elements import Element, Factor, Number, Term
from xoptim.proof.kinds import CONSTANT, EXTREMES, MAXIMUM, Stored, limits_of
from xoptim.proof.laws import dim_of

Range: TypeAlias = tuple[Number | None, Number | None]
_NO_LIMITS: Final[Range] = (None, None)


def range_of(value: Element) -> Range:
    """Limits of an element that is made of integers with limits; no limits for any other one.

    The element itself may be no integer, such as half of one.
    """
    dim = dim_of(value)
    if dim is not None:
        return bounds(dim)
    low: Number = 0
    high: Number = 0
    for term, number in value.terms.items():
        limits = _range_of_term(term, number)
        if limits is None:
            return _NO_LIMITS
        low, high = low + limits[0], high + limits[1]
    return low, high


def _range_of_term(term: Term, number: Number) -> tuple[Number, Number] | None:
    sums, powers = term
    low = high = number
    for base, power in powers:
        least, greatest = _range_of_factor(base)
        if least is None or greatest is None or power < 0:
            return None
        limits = least, greatest
        for _ in range(power):
            ends = [a * b for a in (low, high) for b in limits]
            low, high = min(ends), max(ends)
    for _, extent in sums:
        if not isinstance(extent, int):
            return None
        low, high = low * extent, high * extent
    return low, high


def _range_of_factor(base: Factor) -> Range:
    if base.is_boolean:
        return 0, 1
    kind = base.key[0]
    if kind == "input" and isinstance(base.key[2], int) and is_integer(base.key[2]):
        return limits_of(base.key[2])
    if kind == CONSTANT and isinstance(base.key[1], Stored):
        array = base.key[1].array
        is_integral = array.size and np.issubdtype(array.dtype, np.integer)
        return (int(array.min()), int(array.max())) if is_integral else _NO_LIMITS
    return _range_of_extreme(base) if kind in EXTREMES else _NO_LIMITS


def _range_of_extreme(base: Factor) -> Range:
    """The limits of a maximum or a minimum."""
    ranges = [range_of(arg) for arg in base.args if isinstance(arg, Element)]
    lows = [low for low, _ in ranges if low is not None]
    highs = [high for _, high in ranges if high is not None]
    if base.key[0] == MAXIMUM:
        return max(lows, default=None), max(highs) if len(highs) == len(ranges) else None
    return min(lows) if len(lows) == len(ranges) else None, min(highs, default=None)
