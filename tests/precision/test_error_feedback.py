"""Rounding with error feedback."""

import numpy as np
import pytest

from tests.precision.test_block_search import weights
from xoptim.match.block_rounding import BlockFormat, Blocks, nearest_blocks
from xoptim.precision.block_search import searched_blocks
from xoptim.precision.error_feedback import curvature_of, feedback_blocks, output_error

FORM = BlockFormat()


def correlated(rows: int, count: int = 2000, seed: int = 0) -> np.ndarray:
    """Activations whose channels are correlated, of shape (count, rows)."""
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((rows, rows)) / np.sqrt(np.arange(1, rows + 1))[:, None]
    activations: np.ndarray = (
        np.random.default_rng(seed).standard_normal((count, rows)) @ directions
    )
    return activations


def second_moments(activations: np.ndarray) -> np.ndarray:
    """XᵀX."""
    moments: np.ndarray = activations.T @ activations
    return moments


def feedback(
    matrix: np.ndarray, hessian: np.ndarray, count: int, form: BlockFormat
) -> Blocks | None:
    """The integers that error feedback finds, if the Hessian tells any."""
    curvature = curvature_of(hessian, count)
    return None if curvature is None else feedback_blocks(matrix, curvature, form)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_correlated_activations_have_a_smaller_error(size: int) -> None:
    form, matrix = BlockFormat(4, size), weights(256)
    hessian = second_moments(correlated(256))
    unseen = second_moments(correlated(256, seed=2))
    nearest = nearest_blocks(matrix, form)
    blocks = feedback(matrix, hessian, 2000, form)
    assert blocks is not None
    for moments, most in ((hessian, 0.3), (unseen, 0.35)):
        errors = [output_error(matrix, candidate, moments, form) for candidate in (blocks, nearest)]
        assert errors[0] < most * errors[1]


def test_a_diagonal_hessian_passes_no_error_on() -> None:
    matrix = weights(128)
    blocks = feedback(matrix, np.eye(128), 10**6, FORM)
    assert blocks is not None
    searched = searched_blocks(matrix, FORM)
    # scales are fitted to the integers once more
    np.testing.assert_array_equal(blocks.integers, searched.integers)
    np.testing.assert_array_equal(blocks.zeros, searched.zeros)
    np.testing.assert_allclose(blocks.scales, searched.scales, rtol=0.03)


@pytest.mark.parametrize("rows", [1, 2, 31, 33, 130, 200])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_any_number_of_rows(rows: int, bits: int) -> None:
    form, matrix, hessian = BlockFormat(bits), weights(rows), second_moments(correlated(rows))
    blocks = feedback(matrix, hessian, 2000, form)
    assert blocks is not None
    assert blocks.integers.shape == matrix.shape
    assert blocks.scales.shape == (form.count(rows), 24)
    errors = [
        output_error(matrix, candidate, hessian, form)
        for candidate in (blocks, nearest_blocks(matrix, form))
    ]
    assert errors[0] <= errors[1] * (1 + 1e-5)


def test_a_singular_hessian_stays_finite() -> None:
    matrix, activations = weights(96), correlated(96, 3)
    hessian = second_moments(activations)
    blocks = feedback(matrix, hessian, 3, FORM)
    assert blocks is not None
    assert np.isfinite(blocks.dequantized(32)).all()
    # few activations tell little, so that the weights stay near theirs
    assert np.abs(blocks.dequantized(32) - matrix).max() < np.abs(matrix).max()


def test_dead_channels_keep_their_weights() -> None:
    matrix, activations = weights(96), correlated(96)
    dead = [5, 40, 64, 65]
    activations[:, dead] = 0
    blocks = feedback(matrix, second_moments(activations), 2000, FORM)
    assert blocks is not None
    rest = np.abs(blocks.dequantized(32) - matrix)[dead]
    assert rest.max() < 0.5


@pytest.mark.parametrize("number", [0.0, np.nan, np.inf])
def test_a_hessian_that_tells_nothing(number: float) -> None:
    assert feedback(weights(32), np.full((32, 32), number), 10, FORM) is None


def test_columns_are_rounded_in_parts() -> None:
    matrix, hessian = weights(32, 1100), second_moments(correlated(32))
    whole = feedback(matrix, hessian, 2000, FORM)
    part = feedback(matrix[:, 1024:], hessian, 2000, FORM)
    assert whole is not None
    assert part is not None
    assert np.mean(whole.integers[:, 1024:] == part.integers) > 0.99


def test_scales_of_the_hessian_do_not_matter() -> None:
    matrix, hessian = weights(64), second_moments(correlated(64))
    both = [feedback(matrix, factor * hessian, 2000, FORM) for factor in (1, 2.0**-300)]
    assert both[0] is not None
    assert both[1] is not None
    np.testing.assert_array_equal(both[0].integers, both[1].integers)
