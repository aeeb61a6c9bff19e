"""Thresholds of trees after a Scaler, as thresholds before it: found by search, so that every decision stays."""

import numpy as np

from .._folding import Array

_INFINITY = int(np.array(np.inf, np.float32).view(np.int32))


def _float(keys: Array) -> Array:
    """The 32-bit floats with these places in the order of all of them, 0 having the place 0."""
    return np.where(keys < 0, np.int64(-0x80000000) - keys, keys).astype(np.int64).astype(np.int32).view(np.float32)


@np.errstate(all="ignore")
def thresholds_before(limits: Array, offset: Array, scale: Array, strict: Array) -> Array:
    """For each threshold the one that the operand of the Scaler has to be compared with for the same decision.

    In floats, ``(x - offset) · scale`` never falls where x rises, since each operation rounds to the nearest number and the
    scale is positive. So there is a largest float whose image is at most the threshold (below it, if ``strict``): 33 steps of
    bisection find it, with the operations that the runtime does.

    Args:
        limits: finite thresholds, 32-bit floats.
        offset: the offsets of the columns that are compared, as many as thresholds.
        scale: likewise; more than 0.
        strict: whether x is compared by < or >=, not by <= or >: the result is then the next larger float.
    """
    low, high = (np.full(limits.shape, end, np.int64) for end in (-_INFINITY, _INFINITY))
    for _ in range(33):
        middle = (low + high + 1) >> 1
        image = (_float(middle) - offset) * scale
        fits = np.where(strict, image < limits, image <= limits)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return _float(np.where(strict, low + 1, low))
