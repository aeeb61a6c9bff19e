"""Rounding with error feedback: later rows of weights make up for the errors of earlier ones."""

from typing import Final, NamedTuple

import numpy as np

from xoptim.match.block_rounding import BlockFormat, Blocks
from xoptim.match.quantization import Numbers
from xoptim.precision.block_search import searched_blocks

_DAMPING: Final = 0.01
"""Part of the mean diagonal of the Hessian that is added to it (GPTQ, section 3.3)."""
_DAMPING_BY_ROWS: Final = 0.3
"""With fewer than 30 rows of activations per row of weights, the part is this number times the rows
of weights, divided by the rows of activations. A few activations leave directions undetermined, and
errors along these would grow on other values.
"""
_LAZY_ROWS: Final = 128
"""Number of rows whose errors are passed on to all later rows in one matrix multiplication."""
_COLUMNS: Final = 1024
"""Columns that are rounded at once, so that copies of large weights do not fill the memory."""
_SWEEPS: Final = 2
"""Number of passes in which each integer is chosen again while the others stay."""


class Curvature(NamedTuple):
    """The second derivatives of the error of the outputs, for each pair of rows of weights.

    Attributes:
        damped: the Hessian with damping, of shape (rows, rows).
        factor: the upper triangular U with UᵀU = H⁻¹, of the same shape.
    """

    damped: Numbers
    factor: Numbers

    @property
    def magnitudes(self) -> Numbers:
        """The standard deviation of each channel when all later channels are fixed, up to a factor.

        The shape is (rows,). The part of the error of a row that later rows of weights cannot
        correct is in proportion to this number.
        """
        magnitudes: Numbers = 1 / np.diagonal(self.factor)
        return magnitudes

    def divided(self, scale: Numbers) -> "Curvature":
        """The curvature for activations that are divided by a scale of each channel, of shape
        (rows,).
        """
        return Curvature(self.damped / np.outer(scale, scale), self.factor * scale)


def curvature_of(hessian: Numbers, count: int) -> Curvature | None:
    """The curvature for the Hessian XᵀX of ``count`` rows X of activations.

    ``None`` if the Hessian is zero, not finite, or indefinite because of rounding errors.
    """
    damped = _damped(hessian, count)
    factor = None if damped is None else _factor(damped)
    return None if damped is None or factor is None else Curvature(damped, factor)


def feedback_blocks(matrix: np.ndarray, curvature: Curvature, form: BlockFormat) -> Blocks:
    """Round a matrix so that its product with activations changes least.

    Rows are rounded in order, and the error of each is passed on to those that follow, through the
    inverse of the Hessian (E. Frantar et al., "GPTQ", 2022, algorithm 1). The scales of a block
    are searched when its first row is reached. Afterwards, each integer and each scale is chosen
    again with all others as they are (coordinate descent: K. Behdin et al., "QuantEase", 2023).

    Args:
        matrix: finite numbers, of shape (rows, columns).
        curvature: of the activations.
        form: bits and block size.
    """
    parts = []
    for start in range(0, matrix.shape[1], _COLUMNS):
        columns = matrix[:, start : start + _COLUMNS].astype(np.float64)
        rounding = _Rounding(columns, form)
        rounding.feed_back(curvature.factor)
        for _ in range(_SWEEPS):
            rounding.descend(curvature.damped)
        parts.append(rounding.blocks())
    return Blocks(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))


def output_error(matrix: np.ndarray, blocks: Blocks, hessian: Numbers, form: BlockFormat) -> float:
    """‖X(W - Ŵ)‖² of a matrix W and its dequantized blocks Ŵ, from XᵀX of the activations X."""
    total = 0.0
    for start in range(0, matrix.shape[1], _COLUMNS):
        part = Blocks(*(numbers[:, start : start + _COLUMNS] for numbers in blocks))
        residual = matrix[:, start : start + _COLUMNS] - part.dequantized(form.size)
        total += float(np.vdot(residual, hessian @ residual))
    return total


def _damped(hessian: Numbers, count: int) -> Numbers | None:
    """The Hessian with damping; ``None`` where it is zero or not finite."""
    mean = float(np.diagonal(hessian).mean()) if len(hessian) else 0.0
    if not np.isfinite(hessian).all() or not mean > 0:
        return None
    share = max(_DAMPING, _DAMPING_BY_ROWS * len(hessian) / count)
    damped: Numbers = hessian / mean
    damped[np.diag_indices(len(hessian))] += share
    return damped


def _factor(damped: Numbers) -> Numbers | None:
    """The upper triangular U with UᵀU = H⁻¹; ``None`` where rounding errors leave H indefinite.

    With H = RRᵀ for an upper triangular R, U is R⁻¹. R reversed is the Cholesky factor of H
    reversed, both along rows and columns.
    """
    try:
        root = np.linalg.cholesky(damped[::-1, ::-1])[::-1, ::-1]
        return np.triu(np.linalg.inv(root))
    except np.linalg.LinAlgError:
        return None


class _Rounding:
    """Integers of some columns, of shape (rows, columns)."""

    def __init__(self, columns: Numbers, form: BlockFormat) -> None:
        self._columns, self._form = columns, form
        self._integers = np.zeros(columns.shape)
        shape = form.count(len(columns)), columns.shape[1]
        self._scales, self._zeros = np.ones(shape), np.zeros(shape)

    def feed_back(self, factor: Numbers) -> None:
        """Round row by row, and pass the error of each row on to the later rows."""
        weights, rows = self._columns.copy(), len(self._columns)
        importance = 1 / np.square(np.diagonal(factor))
        for start in range(0, rows, _LAZY_ROWS):
            end = min(start + _LAZY_ROWS, rows)
            errors = np.zeros((end - start, weights.shape[1]))
            for row in range(start, end):
                if row % self._form.size == 0:
                    self._search(row, weights, importance)
                rounded = self._round(row, weights[row])
                errors[row - start] = (weights[row] - rounded) / factor[row, row]
                weights[row + 1 : end] -= factor[row, row + 1 : end, None] * errors[row - start]
            weights[end:] -= factor[start:end, end:].T @ errors

    def descend(self, damped: Numbers) -> None:
        """Choose each scale and each integer again while the others stay (coordinate descent)."""
        size = self._form.size
        residual = self._dequantized() - self._columns
        for block in range(len(self._scales)):
            rows = slice(block * size, min((block + 1) * size, len(residual)))
            gradient = damped[rows] @ residual
            gradient += self._fit_scale(block, rows, damped[rows, rows], residual, gradient)
            scale = self._scales[block]
            for row in range(rows.start, rows.stop):
                step = gradient[row - rows.start] / damped[row, row] / scale
                target = self._integers[row] - step
                integers = np.clip(np.rint(target), 0, self._form.largest)
                change = (integers - self._integers[row]) * scale
                self._integers[row] = integers
                residual[row] += change
                gradient += damped[rows, row, None] * change

    def blocks(self) -> Blocks:
        return Blocks(
            self._integers.astype(np.uint8),
            self._scales.astype(np.float32),
            self._zeros.astype(np.uint8),
        )

    def _search(self, row: int, weights: Numbers, importance: Numbers) -> None:
        """Search the scales and zero points of the block that begins with a row."""
        rows = slice(row, min(row + self._form.size, len(weights)))
        block = row // self._form.size
        blocks = searched_blocks(weights[rows], self._form, importance[rows])
        self._scales[block], self._zeros[block] = blocks.scales[0], blocks.zeros[0]

    def _round(self, row: int, numbers: Numbers) -> Numbers:
        """Round the numbers of a row; returns the dequantized numbers."""
        block = row // self._form.size
        scale, zero = self._scales[block], self._zeros[block]
        integers = np.clip(np.rint(numbers / scale) + zero, 0, self._form.largest)
        self._integers[row] = integers
        rounded: Numbers = (integers - zero) * scale
        return rounded

    def _dequantized(self) -> Numbers:
        matrix: Numbers = self.blocks().dequantized(self._form.size)
        return matrix

    def _fit_scale(
        self, block: int, rows: slice, hessian: Numbers, residual: Numbers, gradient: Numbers
    ) -> Numbers:
        """Fit the scale of a block by least squares; returns the change of the gradient."""
        steps = self._integers[rows] - self._zeros[block]
        curved = hessian @ steps
        curvature = (steps * curved).sum(axis=0)
        step = (steps * gradient).sum(axis=0) / np.where(curvature > 0, curvature, 1)
        old = self._scales[block]
        new = (old - step).astype(np.float32).astype(np.float64)
        is_fit = (curvature > 0) & (new > np.finfo(np.float32).tiny)
        self._scales[block] = np.where(is_fit, new, old)
        change = self._scales[block] - old
        residual[rows] += steps * change
        change_of_gradient: Numbers = curved * change
        return change_of_gradient
