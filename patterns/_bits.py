"""Integers of few bits: in bytes, and with scales for which onnxruntime's kernels compute."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ._folding import Array

_MAX_SCALE: Final = 2.0**120
"""Largest scale or product of two, and reciprocal of the smallest, to stay in float32."""
_MAX_RATIO: Final = 2.0**8
"""Largest ratio of the scale of an operand, or a product of two, to that of the result."""


def packed(rows: Array, bits: int) -> Array:
    """Rows of integers of 2, 4 or 8 bits in bytes, the first of a byte in its lowest bits, filled
    up with 0 at the end.
    """
    count = 8 // bits
    full = np.pad(rows, ((0, 0), (0, -rows.shape[1] % count)))
    joined: Array = np.ascontiguousarray(full[:, ::count])
    for index in range(1, count):
        joined = joined | full[:, index::count] << index * bits
    return joined


def are_moderate(scales: Sequence[Array], *, is_multiplied: bool) -> bool:
    """Whether the kernels compute without overflow, and without sums that keep few digits.

    QLinearAdd adds a term for all zero points to terms of up to 255 times the ratio of two scales.
    QLinearGlobalAveragePool refuses to run with a larger ratio.

    Args:
        scales: of each operand but a bias, and of the result; one number, or one for each channel
            of the result.
        is_multiplied: whether the result is made of products of the first two operands.
    """
    *operands, result = (scale.astype(np.float64) for scale in scales)
    factors = [operands[0] * operands[1]] if is_multiplied else operands
    if not all(
        bool(np.all((scale >= 1 / _MAX_SCALE) & (scale <= _MAX_SCALE)))
        for scale in (*operands, *factors, result)
    ):
        return False
    return all(bool(np.all(factor / result <= _MAX_RATIO)) for factor in factors)
