"""Quantized integers: packing into bytes, and scales that onnxruntime's kernels support."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ._folding import Array

_MAX_SCALE: Final = 2.0**120
"""Largest scale, and largest product of two scales; the reciprocal is the smallest. float32 holds
all of them.
"""
_MAX_RATIO: Final = 2.0**8
"""Largest ratio of the scale of an operand, or a product of two scales, to the result's scale."""


def packed(rows: Array, bits: int) -> Array:
    """Rows of integers of 2, 4 or 8 bits, packed into bytes.

    The first integer of a byte is in its lowest bits. A row is filled up with 0.
    """
    count = 8 // bits
    full = np.pad(rows, ((0, 0), (0, -rows.shape[1] % count)))
    joined: Array = np.ascontiguousarray(full[:, ::count])
    for index in range(1, count):
        joined = joined | full[:, index::count] << index * bits
    return joined


def are_moderate(scales: Sequence[Array], *, is_multiplied: bool) -> bool:
    """Whether the QLinear kernels compute with these scales without overflow or loss of digits.

    QLinearAdd sums terms of up to 255 times the ratio of two scales, so large ratios lose digits.
    QLinearGlobalAveragePool fails for larger ratios.

    Args:
        scales: the scales of each operand except a bias, and of the result; one number, or one for
            each channel of the result.
        is_multiplied: whether the result is a product of the first two operands, or a sum of
            products.
    """
    *operands, result = (scale.astype(np.float64) for scale in scales)
    factors = [operands[0] * operands[1]] if is_multiplied else operands
    if not all(
        bool(np.all((scale >= 1 / _MAX_SCALE) & (scale <= _MAX_SCALE)))
        for scale in (*operands, *factors, result)
    ):
        return False
    return all(bool(np.all(factor / result <= _MAX_RATIO)) for factor in factors)
