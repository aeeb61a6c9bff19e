"""Magnitudes of the elements of results."""

from typing import Any, Final

import ml_dtypes
import numpy as np

GROWTH: Final = 1e6
"""A result explodes if it is more than this many times larger than the values that led to it. A
term of the size of these values is then less than a tenth of the relative tolerance of float32.
"""
_SAMPLE: Final = 1 << 20  # elements that the median is taken of


def median_magnitude(values: np.ndarray) -> float:
    """Median magnitude of the finite non-zero elements, 0 when there is none.

    Numbers close to the type's maximum are skipped: masks use them for minus infinity.
    """
    sample = values[:: -(-values.size // _SAMPLE) or 1]  # every k-th element, k rounded up
    magnitude = np.abs(sample.astype(np.complex128 if values.dtype.kind == "c" else np.float64))
    magnitude = magnitude[(magnitude > 0) & (magnitude < largest_measured(values.dtype))]
    return float(np.median(magnitude)) if magnitude.size else 0.0


def largest_magnitude(values: np.ndarray) -> float:
    """Largest magnitude of the elements, without numbers close to the type's maximum."""
    magnitude = np.abs(values)
    return float(np.max(magnitude, initial=0.0, where=magnitude < largest_measured(values.dtype)))


def largest_measured(dtype: np.dtype) -> float:
    """The magnitude from which numbers of a type may stand for infinity."""
    # In 8 bits, the numbers close to the maximum are ordinary values.
    if dtype.itemsize == 1:
        return np.inf
    largest: Any = ml_dtypes.finfo(dtype).max  # type: ignore[no-untyped-call]
    return 0.25 * float(largest)
