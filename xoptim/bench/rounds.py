"""Rounds of runs: every model once a round, in another order each time."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, TypeAlias

from xoptim.validate.session import SessionSettings, resolve_providers

Clock: TypeAlias = Callable[[], float]

_WARM: Final = 0.2  # seconds, or a few runs, before anything is measured
_WARM_RUNS: Final = 3
_TURN: Final = 0.02  # seconds of the runs of one model in one round: short runs are repeated
_MOST_RUNS: Final = 1000
_LONG: Final = 0.5  # seconds from which a turn has no uncounted run before it
_FEWEST_ROUNDS: Final = 5
_ALONE: Final = ["CPUExecutionProvider"]


@dataclass(slots=True)
class Times:
    """Times of one model in seconds: for each pass, the median of the runs of each round, and the best, the shortest run."""

    rounds: list[list[float]] = field(default_factory=list)
    best: float = float("inf")


def clock_for(settings: Iterable[SessionSettings]) -> Clock:
    """The clock for sessions: processor time where everything runs in the calling thread, which other processes change less.

    Windows counts processor time in steps that are longer than a run.
    """
    alone = all(each.threads == 1 and resolve_providers(each.providers) == _ALONE for each in settings)
    return time.thread_time if alone and sys.platform != "win32" else time.perf_counter


def measure_pass(
    runs: Sequence[Callable[[], object]], times: Sequence[Times], seconds: float, rng: random.Random, clock: Clock | None = None
) -> None:
    """Measure sessions against each other for some seconds, five rounds at least, and add a pass to the times of each.

    The first round is dropped: it measures whatever comes first as slower. ``rng`` draws the order of a round. ``clock``
    measures each run: the time that passes by default. The processor time of the thread is changed less by other processes, but
    it does not contain the work of other threads and of devices.
    """
    clock = clock or time.perf_counter
    counts = [_runs_in_a_turn(_warm(run)) for run in runs]
    _round(runs, counts, rng, clock)
    for each in times:
        each.rounds.append([])
    end = time.perf_counter() + seconds
    while len(times[0].rounds[-1]) < _FEWEST_ROUNDS or time.perf_counter() < end:
        for each, taken in zip(times, _round(runs, counts, rng, clock), strict=True):
            each.rounds[-1].append(median(taken))
            each.best = min(each.best, *taken)


def _warm(run: Callable[[], object]) -> float:
    """Run a model a few times; return the seconds of the fastest run."""
    taken: list[float] = []
    while len(taken) < _WARM_RUNS or sum(taken) < _WARM:
        taken.append(_timed(run, time.perf_counter))
    return min(taken)


def _runs_in_a_turn(seconds: float) -> int:
    return max(1, min(_MOST_RUNS, int(_TURN / max(seconds, 1e-9))))


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
