"""The ratio of two times that were measured in the same rounds, and how far it can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

_DRAWS: Final = 2000
_TAILS: Final = (2.5, 97.5)


class Interval(NamedTuple):
    """The bounds of a 95 % confidence interval."""

    low: float
    high: float


class Ratio(NamedTuple):
    """The time of a model divided by the time of another one, and the 95 % confidence interval around it."""

    value: float
    interval: Interval

    @property
    def is_difference(self) -> bool:
        """Whether a difference was measured: the interval does not contain 1."""
        return not self.interval.low <= 1.0 <= self.interval.high

    def __str__(self) -> str:
        bounds = f"{self.interval.low:.3f} to {self.interval.high:.3f}"
        return f"{self.value:.3f} ({bounds})" if self.is_difference else f"no difference measured ({bounds})"


def ratio_of(times: Sequence[Sequence[float]], base: Sequence[Sequence[float]], seed: int = 0) -> Ratio:
    """The ratio of the times of two models, each the seconds of each round of each pass, with an interval by the bootstrap.

    Rounds are compared one by one, so a load of the machine that lasts for several rounds cancels out; the median over the
    rounds of a pass ignores single disturbances. The ratio is the geometric mean of the medians. For the interval, passes are
    drawn with replacement, and rounds within each of them (Davison and Hinkley, *Bootstrap Methods and their Application*,
    1997, section 3.8: hierarchical data). Raises `ValueError` when the numbers of passes or rounds differ, or are 0.
    """
    if not times or [*map(len, times)] != [*map(len, base)] or not all(times):
        raise ValueError("both need the same passes, with the same number of rounds, at least 1")
    passes = [np.log(np.asarray(mine)) - np.log(np.asarray(its)) for mine, its in zip(times, base, strict=True)]
    rng = np.random.default_rng(seed)
    drawn = np.stack([_medians(rounds, len(passes), rng) for rounds in passes])
    chosen = rng.integers(0, len(passes), (len(passes), _DRAWS))
    slots, draws = np.indices(chosen.shape)
    means = drawn[chosen, slots, draws].mean(axis=0)
    low, high = np.exp(np.percentile(means, _TAILS))
    return Ratio(float(np.exp(np.mean([np.median(rounds) for rounds in passes]))), Interval(float(low), float(high)))


def _medians(rounds: np.ndarray, slots: int, rng: np.random.Generator) -> np.ndarray:
    """Medians of rounds drawn with replacement, an array of the shape (slots, draws)."""
    return np.stack([np.median(rng.choice(rounds, (_DRAWS, rounds.size)), axis=1) for _ in range(slots)])
