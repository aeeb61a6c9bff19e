"""The ratio of times: its value, its interval, and when no difference was measured."""

import numpy as np
import pytest

from xoptim.bench import Interval, Ratio, ratio_of

Passes = list[list[float]]


def drawn(
    factor: float, seed: int, noise: float = 0.05, passes: int = 3, rounds: int = 60
) -> Passes:
    """Times around ``factor`` with the disturbances of a busy machine: some runs take far
    longer.
    """
    rng = np.random.default_rng(seed)
    times = factor * np.exp(noise * rng.standard_normal((passes, rounds)))
    times[rng.random(times.shape) < 0.1] *= 3
    listed: Passes = times.tolist()
    return listed


def test_equal_times_are_no_difference() -> None:
    times = drawn(1.0, seed=1)
    assert ratio_of(times, times) == Ratio(1.0, Interval(1.0, 1.0))
    assert not ratio_of(times, times).is_difference


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_difference_is_found_in_noise(factor: float) -> None:
    ratio = ratio_of(drawn(factor, seed=1), drawn(1.0, seed=2))
    assert ratio.is_difference
    assert ratio.interval.low < factor < ratio.interval.high
    assert ratio.interval.low <= ratio.value <= ratio.interval.high
    assert str(ratio).startswith(f"{ratio.value:.3f} (")


@pytest.mark.slow
def test_identical_models_rarely_differ() -> None:
    """The interval contains 1 in about 95 of 100 measurements of two equal models."""
    wrong = sum(
        ratio_of(drawn(1.0, seed), drawn(1.0, seed + 1000)).is_difference for seed in range(40)
    )
    assert wrong <= 6


def test_load_that_lasts_several_rounds_cancels_out() -> None:
    """The machine becomes half as fast in the middle.

    Both models are measured before and after that.
    """
    slowdown = np.repeat([1.0, 2.0], 30)
    base, times = np.array(drawn(1.0, seed=1)) * slowdown, np.array(drawn(0.9, seed=2)) * slowdown
    ratio = ratio_of(times.tolist(), base.tolist())
    assert ratio.interval.low < 0.9 < ratio.interval.high
    assert ratio.is_difference


def test_sessions_that_differ_widen_the_interval() -> None:
    """One of three pairs of sessions is 10 % slower throughout, for no reason: the models do not
    differ.
    """
    base = drawn(1.0, seed=1, noise=0.001)
    times = drawn(1.0, seed=2, noise=0.001)
    times[0] = [1.1 * seconds for seconds in times[0]]
    together = ratio_of(times, base)
    assert not together.is_difference
    assert ratio_of(times[:1], base[:1]).is_difference
    assert str(together).startswith("no difference ")


def test_the_same_times_give_the_same_interval() -> None:
    times, base = drawn(1.1, seed=1), drawn(1.0, seed=2)
    assert ratio_of(times, base, seed=5) == ratio_of(times, base, seed=5)


@pytest.mark.parametrize("times", [[], [[]], [[1.0], [1.0]], [[1.0, 2.0]]])
def test_rounds_that_do_not_correspond_are_refused(times: Passes) -> None:
    with pytest.raises(ValueError, match="passes"):
        ratio_of(times, [[1.0]] if times else [])
