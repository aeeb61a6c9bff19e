"""Scales of channels: only where they are expected to help, and never below 1."""

import numpy as np
import pytest

from xoptim.facts.errors import Declined
from xoptim.match.block_rounding import BlockFormat, nearest_blocks
from xoptim.match.quantization import Channels
from xoptim.patterns.precision._quantization import columns_to_int8
from xoptim.patterns.precision._scaling import block_scale, expected_error, scales


def channels(rows: np.ndarray) -> Channels:
    """The statistics of a tensor."""
    return Channels(
        rows.min(axis=0), rows.max(axis=0), rows.mean(axis=0), np.square(rows).mean(axis=0)
    )


def drawn(sizes: np.ndarray, seed: int = 0) -> np.ndarray:
    """A tensor with channels of some sizes."""
    found: np.ndarray = np.random.default_rng(seed).uniform(-1, 1, (500, len(sizes))) * sizes
    return found


def error(rows: np.ndarray, weights: np.ndarray) -> float:
    """The mean square of the error of products of 8-bit integers."""
    step = (max(rows.max(), 0) - min(rows.min(), 0)) / 255
    rounded = columns_to_int8(weights.astype(np.float32))
    return float(
        np.square(
            np.rint(rows / step) * step @ (rounded.integers * rounded.scales) - rows @ weights
        ).mean()
    )


@pytest.mark.parametrize("largest", [10, 30, 100])
def test_errors_become_smaller_as_expected(largest: float) -> None:
    rows = drawn(np.where(np.arange(32) == 3, largest, 1.0))
    weights = (
        np.random.default_rng(1).standard_normal((32, 16))
        * np.where(np.arange(32) == 3, 1 / largest, 1.0)[:, None]
    )
    found = scales(channels(rows), weights)
    assert found.min() == 1
    assert np.argmax(found) == 3
    before, after = error(rows, weights), error(rows / found, weights * found[:, None])
    assert after < 0.5 * before
    expected = [expected_error(channels(rows), weights, each) for each in (np.ones(32), found)]
    assert after / before == pytest.approx(expected[1] / expected[0], rel=0.5)


def test_alike_channels_stay() -> None:
    with pytest.raises(Declined, match="no scales"):
        scales(channels(drawn(np.ones(32))), np.ones((32, 4)))


def test_channels_that_do_not_count_stay_between_the_others() -> None:
    sizes = np.where(np.arange(32) == 3, 100.0, 1.0)
    sizes[7] = 0
    weights = np.random.default_rng(1).standard_normal((32, 16))
    weights[9] = 0
    found = scales(channels(drawn(sizes)), weights)
    assert np.isfinite(found).all()
    assert found.min() == 1
    assert found[7] < found[3] > found[9]


def test_zeros_stay() -> None:
    with pytest.raises(Declined, match="channel is 0"):
        scales(channels(np.zeros((4, 8))), np.ones((8, 4)))


def test_blocks_have_a_smaller_error() -> None:
    """The error of independent channels is the expected one."""
    sizes = np.where(np.arange(64) % 32 == 3, 30.0, 1.0)
    rows = drawn(sizes)
    weights = np.random.default_rng(1).standard_normal((64, 16))
    scale = block_scale(channels(rows), weights)
    assert scale.min() == 1
    assert {*np.flatnonzero(scale > 1)} >= {3, 35}

    def block_error(scale: np.ndarray) -> float:
        larger = (weights * scale[:, None]).astype(np.float32)
        blocks = nearest_blocks(larger, BlockFormat())
        return float(np.square(rows / scale @ (blocks.dequantized(32) - larger)).mean())

    assert block_error(scale) < 0.7 * block_error(np.ones(64))


@pytest.mark.parametrize(("count", "reason"), [(64, "no scales are"), (48, "blocks of 32 rows")])
def test_blocks_that_gain_nothing_stay(count: int, reason: str) -> None:
    weights = np.random.default_rng(1).standard_normal((count, 4))
    with pytest.raises(Declined, match=reason):
        block_scale(channels(drawn(np.zeros(count))), weights)
