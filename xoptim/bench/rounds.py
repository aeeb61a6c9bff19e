"""Rounds of runs: every model once a round, in another order each time; and the ratio of two times, with its interval."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from xoptim.system.machine import clock_of_thread
from xoptim.validate.session import SessionSettings, resolve_providers

Clock: TypeAlias = Callable[[], float]

_WARM: Final = 0.2  # most seconds, or a few runs, before anything is measured
_WARM_SHARE: Final = 0.3  # of the seconds that are measured
_WARM_RUNS: Final = 3
_TURN: Final = 0.02  # seconds of the runs of one model in one round: short runs are repeated
_MOST_RUNS: Final = 1000
_LONG: Final = 0.1  # seconds from which a turn has no uncounted run before it, and one run warms up
_FEWEST_ROUNDS: Final = 5
_ALONE: Final = ["CPUExecutionProvider"]


@dataclass(slots=True)
class Times:
    """Times of one model in seconds: for each pass, the median of the runs of each round, and the best, the shortest run."""

    rounds: list[list[float]] = field(default_factory=list)
    best: float = float("inf")


def clock_for(settings: Iterable[SessionSettings]) -> Clock:
    """The clock for sessions: processor time where everything runs in the calling thread, which other processes change less."""
    alone = all(each.threads == 1 and resolve_providers(each.providers) == _ALONE for each in settings)
    return clock_of_thread() if alone else time.perf_counter


def measure_pass(
    runs: Sequence[Callable[[], object]], times: Sequence[Times], seconds: float, rng: random.Random, clock: Clock | None = None
) -> None:
    """Measure sessions against each other for some seconds, five rounds at least, and add a pass to the times of each.

    The first round is dropped: it measures whatever comes first as slower. ``rng`` draws the order of a round. ``clock``
    measures each run: the time that passes by default. The processor time of the thread is changed less by other processes, but
    it does not contain the work of other threads and of devices.
    """
    clock = clock or time.perf_counter
    warm = min(_WARM, _WARM_SHARE * seconds / len(runs))
    counts = [max(1, min(_MOST_RUNS, int(_TURN / max(_warm(run, warm), 1e-9)))) for run in runs]
    _round(runs, counts, rng, clock)
    for each in times:
        each.rounds.append([])
    end = time.perf_counter() + seconds
    while len(times[0].rounds[-1]) < _FEWEST_ROUNDS or time.perf_counter() < end:
        for each, taken in zip(times, _round(runs, counts, rng, clock), strict=True):
            each.rounds[-1].append(median(taken))
            each.best = min(each.best, *taken)


def _warm(run: Callable[[], object], seconds: float) -> float:
    """Run a model for some seconds, a few times if it is short; return the seconds of the fastest run."""
    taken: list[float] = []
    while (len(taken) < _WARM_RUNS and sum(taken) < _LONG) or sum(taken) < seconds:
        taken.append(_timed(run, time.perf_counter))
    return min(taken)


def _round(runs: Sequence[Callable[[], object]], counts: Sequence[int], rng: random.Random, clock: Clock) -> list[list[float]]:
    """A turn for each model, in random order; returns the seconds of their runs."""
    taken: list[list[float]] = [[] for _ in runs]
    for place in rng.sample(range(len(runs)), len(runs)):
        # The model before has filled the caches, and its threads spin for a moment: a run that is not counted ends both.
        before = _timed(runs[place], clock)
        taken[place] = [before] if before > _LONG else [_timed(runs[place], clock) for _ in range(counts[place])]
    return taken


def _timed(run: Callable[[], object], clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start


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


def mean_ratio(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean of ratios; the mean of their bounds is an interval which is not too narrow where errors are alike."""
    value, low, high = (geometric_mean(each) for each in zip(*((r.value, *r.interval) for r in ratios), strict=True))
    return Ratio(value, Interval(low, high))


def ratio_json(ratio: Ratio | None) -> dict[str, Any]:
    """A ratio and its interval as JSON values."""
    return {"ratio": None if ratio is None else ratio.value, "interval": None if ratio is None else list(ratio.interval)}


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
    # Medians of rounds drawn with replacement, of the shape (passes, slots, draws)
    drawn = np.array([[np.median(rng.choice(r, (_DRAWS, r.size)), axis=1) for _ in passes] for r in passes])
    chosen = rng.integers(0, len(passes), (len(passes), _DRAWS))
    slots, draws = np.indices(chosen.shape)
    low, high = np.exp(np.percentile(drawn[chosen, slots, draws].mean(axis=0), _TAILS))
    return Ratio(float(np.exp(np.mean([np.median(rounds) for rounds in passes]))), Interval(float(low), float(high)))
