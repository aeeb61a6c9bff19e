"""Distances of numbers in units in the last place."""

from typing import Final

import ml_dtypes
import numpy as np

_PATTERNS: Final = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.int8}


def ulp_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The number of steps between two elements; infinite where only one of them is NaN.

    0 and -0 are one number, and so are all bit patterns of NaN. The distance of complex numbers is
    the larger distance of their two parts.
    """
    if a.dtype.kind == "c":
        part = a.dtype.type(0).real.dtype
        pairs = (x.view(part).reshape(*x.shape, 2) for x in map(np.ascontiguousarray, (a, b)))
        larger: np.ndarray = ulp_distances(*pairs).max(axis=-1, initial=0.0)
        return larger
    x, y = _ordered(a), _ordered(b)
    distances: np.ndarray = np.abs(x.astype(np.float64) - y.astype(np.float64))
    near = distances < 2.0**52  # beyond, float64 rounds the positions themselves
    distances[near] = np.abs(x[near] - y[near])
    nan = [np.isnan(array.astype(np.float64)) for array in (a, b)]
    distances[nan[0] ^ nan[1]] = np.inf
    distances[nan[0] & nan[1]] = 0.0
    return distances


def _ordered(array: np.ndarray) -> np.ndarray:
    """Position of each number in the order of all numbers of its type, 0 for zero."""
    size = array.dtype.itemsize
    bits = np.ascontiguousarray(array).view(_PATTERNS[size]).astype(np.int64)
    sign = -(1 << (8 * size - 1))
    return np.where(bits < 0, sign - bits, bits)


def largest_ulp(expected: np.ndarray, actual: np.ndarray) -> float:
    """Largest distance of finite elements.

    0 when there are none, or their type has less than a byte.
    """
    if expected.dtype == np.dtype(ml_dtypes.float4_e2m1fn) or not expected.size:
        return 0.0
    distances = ulp_distances(expected.reshape(-1), actual.reshape(-1))
    return float(np.max(distances, initial=0.0, where=np.isfinite(distances)))
