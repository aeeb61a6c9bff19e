"""Integers of few bits in bytes."""

import numpy as np

from ._folding import Array


def packed(rows: Array, bits: int) -> Array:
    """Rows of integers in bytes: two of 4 bits in one, the first of them in its lower half, filled up with 0 at the end."""
    if bits == 8:
        return np.ascontiguousarray(rows)
    even = np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))
    low, high = even[:, ::2], even[:, 1::2]
    found: Array = low | high << 4
    return found
