"""Differences of results by the magnitude of the elements, and whether rounding explains them."""

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

_ZERO: Final = -(1 << 14)  # used as the exponent of 0, below any other
_REACH: Final = 2  # powers of two by which elements may be larger and still count as similar
_MIN_SIMILAR: Final = 32  # elements: the noise of fewer may be small by chance


class ErrorBin(NamedTuple):
    """Differences of the elements of one power of two: their number, the largest, and the largest
    outside the tolerance.
    """

    elements: int
    largest: float
    broken: float


def spread(
    magnitude: np.ndarray, error: np.ndarray, excess: np.ndarray
) -> Iterator[tuple[int, ErrorBin]]:
    """The differences by powers of two, in order; differences that are not finite are ignored.

    ``magnitude`` belongs to elements of the reference, ``excess`` is the differences in units of
    the tolerance.
    """
    finite = np.isfinite(magnitude) & np.isfinite(error)
    magnitude, error, broken = (
        magnitude[finite],
        error[finite],
        np.where(excess[finite] > 1.0, error[finite], 0.0),
    )
    exponents = np.where(magnitude > 0, np.frexp(magnitude)[1], _ZERO).astype(np.int16)
    order = np.argsort(exponents, kind="stable")
    powers, starts, counts = np.unique(exponents[order], return_index=True, return_counts=True)
    if powers.size:
        columns = (
            counts,
            np.maximum.reduceat(error[order], starts),
            np.maximum.reduceat(broken[order], starts),
        )
        yield from zip(
            powers.tolist(), map(ErrorBin, *(column.tolist() for column in columns)), strict=True
        )


def add_bins(bins: MutableMapping[int, ErrorBin], further: Iterator[tuple[int, ErrorBin]]) -> None:
    """Add the differences of further elements."""
    for power, new in further:
        old = bins.get(power, ErrorBin(0, 0.0, 0.0))
        bins[power] = ErrorBin(
            old.elements + new.elements, max(old.largest, new.largest), max(old.broken, new.broken)
        )


def explains(
    noise: Mapping[int, ErrorBin], differences: Mapping[int, ErrorBin], multiple: float
) -> bool:
    """Whether every difference outside the tolerance is as small as the noise of similar or smaller
    elements allows.

    ``noise`` is the effect of rounding on the same output, ``multiple`` the largest allowed ratio
    of a difference to it.
    """
    powers = sorted(noise)
    levels = list(accumulate((noise[power].largest for power in powers), max))
    counts = list(accumulate(noise[power].elements if power != _ZERO else 0 for power in powers))
    floor = next((i for i, count in enumerate(counts) if count >= _MIN_SIMILAR), len(powers) - 1)
    for power, difference in differences.items():
        similar = sum(1 for exponent in powers if exponent <= power + _REACH) - 1
        if difference.broken and (
            not powers or difference.broken > multiple * levels[max(similar, floor)]
        ):
            return False
    return True
