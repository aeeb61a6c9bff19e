"""Integers of few bits: in bytes, and with scales for which onnxruntime's kernels compute."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ._folding import Array

_FAR: Final = 2.0**120
"""Largest scale or product of two, and the reciprocal of the smallest one, which stay in the range
of 32-bit floats.
"""
_STEEP: Final = 2.0**8
"""Most steps of the result by which it changes with one step of an operand."""


def packed(rows: Array, bits: int) -> Array:
    """Rows of integers of 2, 4 or 8 bits in bytes, the first of a byte in its lowest bits, filled
    up with 0 at the end.
    """
    count = 8 // bits
    full = np.pad(rows, ((0, 0), (0, -rows.shape[1] % count)))
    found: Array = np.ascontiguousarray(full[:, ::count])
    for index in range(1, count):
        found = found | full[:, index::count] << index * bits
    return found


def are_moderate(scales: Sequence[Array], *, is_multiplied: bool) -> bool:
    """Whether the kernels compute without overflow, and without sums that keep few digits.

    QLinearAdd adds a term for all zero points to terms of up to 255 times the ratio of two scales.
    QLinearGlobalAveragePool refuses to run with a larger ratio.

    Args:
        scales: of each operand but a bias, and of the result; one number, or one for each channel
            of the result.
        is_multiplied: whether the result is made of products of the first two operands.
    """
    *operands, result = (each.astype(np.float64) for each in scales)
    factors = [operands[0] * operands[1]] if is_multiplied else operands
    if not all(
        bool(np.all((each >= 1 / _FAR) & (each <= _FAR))) for each in (*operands, *factors, result)
    ):
        return False
    return all(bool(np.all(each / result <= _STEEP)) for each in factors)
