"""Scales of channels by the magnitudes of activations."""

import numpy as np
import pytest

from xoptim.match.channel_scales import best_scale
from xoptim.match.quantization import Numbers

MAGNITUDES = np.array([1.0, 4.0, 16.0])


def distance_from(exponent: float) -> list[Numbers]:
    """The scales that are tried where powers of an exponent have the smallest error."""
    tried = list[Numbers]()

    def error(scale: Numbers) -> float:
        tried.append(scale)
        return 1 + float(np.square(np.log(scale) - exponent * np.log(MAGNITUDES)).sum())

    scale = best_scale(MAGNITUDES, error)
    assert scale is not None
    return [scale, *tried]


@pytest.mark.parametrize("exponent", [0.2, 0.5, 1.0])
def test_scales_are_powers_of_magnitudes(exponent: float) -> None:
    scale, *tried = distance_from(exponent)
    np.testing.assert_allclose(scale, MAGNITUDES**exponent)
    np.testing.assert_array_equal(tried[0], 1)


def test_larger_exponents_are_not_tried_where_the_error_grows() -> None:
    _, *tried = distance_from(0.3)
    assert len(tried) == 1 + 5


@pytest.mark.parametrize("gain", [0.0, 0.01])
def test_a_small_gain_moves_nothing(gain: float) -> None:
    assert best_scale(MAGNITUDES, lambda scale: 1 - gain * (scale.max() > 1)) is None


def test_silent_channels_have_bounded_scales() -> None:
    scale = best_scale(np.array([0.0, 1e-9, 5.0]), lambda scale: 1 / float(scale.max()))
    assert scale is not None
    np.testing.assert_allclose(scale, [1, 1, 1000])


@pytest.mark.parametrize("magnitudes", [np.zeros(4), np.zeros(0)])
def test_without_activations_nothing_is_tried(magnitudes: Numbers) -> None:
    def error(scale: Numbers) -> float:
        raise AssertionError("an error was computed")

    assert best_scale(magnitudes, error) is None
