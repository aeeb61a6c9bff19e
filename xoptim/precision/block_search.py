"""Search for the scales and zero points of blocks that give the smallest error of the weights."""

from typing import Final, NamedTuple

import numpy as np

from xoptim.match.block_rounding import BlockFormat, Blocks, in_blocks, positive_scales
from xoptim.match.quantization import Numbers

_RANGE_PARTS: Final = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6)
"""Parts of the range of a block that its integers may cover. Numbers beyond them are clipped."""
_FITS: Final = 2
"""Number of times that scale and zero point are fitted, and the weights rounded again."""
_COLUMNS: Final = 1024
"""Columns that are searched at once, so that copies of large weights do not fill the memory."""
_LEAST_IMPORTANCE: Final = 1e-6
"""Smallest importance, as a part of the largest one: a channel that is 0 on all samples may differ
from 0 on other data.
"""


def searched_blocks(
    matrix: np.ndarray, form: BlockFormat, importance: np.ndarray | None = None
) -> Blocks:
    """Round a matrix with the scales and zero points that leave the smallest squared error.

    Candidates cover the range of a block, or a part of it. From each, integers and an affine
    function are fitted in turn: the integers by rounding, scale and zero point by weighted least
    squares. Rounding to nearest is one of the candidates, so no block errs more.

    Args:
        matrix: finite numbers, of shape (rows, columns).
        form: bits and block size.
        importance: the weight of the squared error of each row, such as the mean square of the
            activations that are multiplied by it; ``None`` where all rows count the same.
    """
    columns = matrix.shape[1]
    parts = [
        _searched(matrix[:, start : start + _COLUMNS], form, importance)
        for start in range(0, columns, _COLUMNS)
    ]
    if len(parts) == 1:
        return parts[0]
    return Blocks(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))


class _Fit(NamedTuple):
    """The integers of all blocks, and their weighted squared errors of shape (blocks, columns)."""

    integers: Numbers
    scales: Numbers
    zeros: Numbers
    errors: Numbers

    def better(self, rival: "_Fit") -> "_Fit":
        """The fit with the smaller error, block by block; this fit where errors are equal."""
        is_better = rival.errors < self.errors
        return _Fit(
            np.where(is_better[:, None], rival.integers, self.integers),
            *(np.where(is_better, new, old) for new, old in zip(rival[1:], self[1:], strict=True)),
        )


class _Search:
    """Searches the scales and zero points of the blocks of a matrix.

    Args:
        blocks: numbers, of shape (blocks, size, columns).
        importance: of each row, of shape (blocks, size, 1); 0 for rows of padding.
        largest: the largest integer.
    """

    def __init__(self, blocks: Numbers, importance: Numbers, largest: int) -> None:
        self._blocks, self._importance, self._largest = blocks, importance, largest
        self._total = importance.sum(axis=1)
        self._mean = self._weighted(blocks) / self._total

    def rounded(self, scales: Numbers, zeros: Numbers) -> _Fit:
        """The nearest integers with some scales and zero points."""
        scales = positive_scales(scales).astype(np.float64)
        integers = np.clip(
            np.rint(self._blocks / scales[:, None]) + zeros[:, None], 0, self._largest
        )
        residual = self._blocks - (integers - zeros[:, None]) * scales[:, None]
        return _Fit(integers, scales, zeros, self._weighted(residual**2))

    def fitted(self, fit: _Fit) -> _Fit:
        """The integers rounded again with the affine function that fits them best.

        Slope and intercept of a weighted linear regression give the zero point. The zero point is
        rounded to an integer, so the scale is fitted once more with it.
        """
        mean = self._weighted(fit.integers) / self._total
        distances = fit.integers - mean[:, None]
        variance = self._weighted(distances**2)
        slope = _quotient(self._weighted(distances * self._blocks), variance, fit.scales)
        zeros = np.clip(np.rint(mean - self._mean / slope), 0, self._largest)
        steps = fit.integers - zeros[:, None]
        scales = _quotient(
            self._weighted(steps * self._blocks), self._weighted(steps**2), fit.scales
        )
        return self.rounded(scales, zeros)

    def _weighted(self, numbers: Numbers) -> Numbers:
        total: Numbers = (self._importance * numbers).sum(axis=1)
        return total


def _searched(matrix: np.ndarray, form: BlockFormat, importance: np.ndarray | None) -> Blocks:
    """The blocks of a few columns; see `searched_blocks`."""
    blocks = in_blocks(matrix.astype(np.float64), form.size)
    search = _Search(blocks, _importance_of(len(matrix), form, importance), form.largest)
    low, high = blocks.min(axis=1, initial=0), blocks.max(axis=1, initial=0)
    best: _Fit | None = None
    for part in _RANGE_PARTS:
        scales = positive_scales(part * (high - low) / form.largest)
        fit = search.rounded(scales, np.clip(np.rint(-part * low / scales), 0, form.largest))
        best = fit if best is None else best.better(fit)
        for _ in range(_FITS):
            fit = search.fitted(fit)
            best = best.better(fit)
    assert best is not None
    integers = best.integers.reshape(-1, matrix.shape[1])[: len(matrix)]
    return Blocks(
        integers.astype(np.uint8), best.scales.astype(np.float32), best.zeros.astype(np.uint8)
    )


def _importance_of(rows: int, form: BlockFormat, importance: np.ndarray | None) -> Numbers:
    """The importance of each row, scaled to a maximum of 1 in each block; 0 for padding."""
    importances = np.ones(rows) if importance is None else importance.astype(np.float64)
    blocks = in_blocks(importances[:, None], form.size)
    largest = blocks.max(axis=1, keepdims=True)
    relative = np.where(largest > 0, blocks / np.where(largest > 0, largest, 1), 1)
    is_row = in_blocks(np.ones((rows, 1)), form.size)
    return np.maximum(relative, _LEAST_IMPORTANCE) * is_row


def _quotient(numerator: Numbers, denominator: Numbers, default: Numbers) -> Numbers:
    """The quotient of positive numbers; ``default`` where numerator or denominator is not positive,
    or where the quotient is too small for float32.
    """
    is_positive = (numerator > 0) & (denominator > 0)
    quotient: Numbers = np.where(
        is_positive, numerator / np.where(denominator > 0, denominator, 1), default
    )
    return np.where(quotient > np.finfo(np.float32).tiny, quotient, default)
