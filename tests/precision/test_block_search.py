"""Scales and zero points of blocks by search."""

import numpy as np
import pytest

from xoptim.match.block_rounding import BlockFormat, Blocks, nearest_blocks
from xoptim.precision.block_search import searched_blocks

FORM = BlockFormat()


def weights(rows: int = 64, columns: int = 24, seed: int = 0) -> np.ndarray:
    """Weights of a normal distribution."""
    rng = np.random.default_rng(seed)
    matrix: np.ndarray = rng.standard_normal((rows, columns)).astype(np.float32)
    return matrix


def block_errors(
    matrix: np.ndarray, blocks: Blocks, importance: np.ndarray | float = 1.0
) -> np.ndarray:
    """The weighted squared error of each column."""
    rest = np.square(matrix - blocks.dequantized(FORM.size))
    errors: np.ndarray = (np.broadcast_to(importance, len(matrix))[:, None] * rest).sum(axis=0)
    return errors


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("rows", [32, 64, 70, 1])
def test_no_column_errs_more_than_rounded_to_nearest(bits: int, rows: int) -> None:
    form, matrix = BlockFormat(bits), weights(rows)
    searched, nearest = searched_blocks(matrix, form), nearest_blocks(matrix, form)
    assert searched.integers.shape == nearest.integers.shape == matrix.shape
    assert searched.scales.shape == searched.zeros.shape == (form.count(rows), 24)
    assert searched.integers.max() <= form.largest
    before, after = (block_errors(matrix, blocks) for blocks in (nearest, searched))
    assert (after <= before * (1 + 1e-5)).all()


def test_the_error_becomes_smaller() -> None:
    matrix = weights(512)
    before, after = (rounding(matrix, FORM) for rounding in (nearest_blocks, searched_blocks))
    assert block_errors(matrix, after).sum() < 0.95 * block_errors(matrix, before).sum()


def test_important_rows_err_less() -> None:
    matrix, importance = weights(128), np.where(np.arange(128) % 8, 0.01, 1.0)
    plain, weighted = searched_blocks(matrix, FORM), searched_blocks(matrix, FORM, importance)
    errors = [block_errors(matrix, blocks, importance).sum() for blocks in (plain, weighted)]
    assert errors[1] < 0.8 * errors[0]


def test_outliers_are_not_clipped_where_they_count() -> None:
    matrix = weights(32, 1)
    matrix[3] = 20
    rest = matrix - searched_blocks(matrix, FORM).dequantized(FORM.size)
    assert abs(rest[3, 0]) < 1


@pytest.mark.parametrize("number", [0.0, 1e-42, -3.0, 2.0**100, -(2.0**-126)])
def test_constant_blocks(number: float) -> None:
    matrix = np.full((32, 2), number, np.float32)
    blocks = searched_blocks(matrix, FORM)
    assert np.isfinite(blocks.scales).all()
    assert (blocks.scales > 0).all()
    np.testing.assert_allclose(blocks.dequantized(32), matrix, rtol=1e-6, atol=2e-38)


def test_silent_channels_keep_their_weights() -> None:
    matrix = weights()
    importance = np.where(np.arange(64) < 32, 0.0, 1.0)
    silent = searched_blocks(matrix, FORM, importance)
    np.testing.assert_array_equal(silent.integers, searched_blocks(matrix, FORM).integers)


def test_many_columns_are_searched_in_parts() -> None:
    matrix = weights(32, 2500)
    whole, part = searched_blocks(matrix, FORM), searched_blocks(matrix[:, 1100:1200], FORM)
    assert whole.integers.shape == (32, 2500)
    np.testing.assert_array_equal(whole.integers[:, 1100:1200], part.integers)
