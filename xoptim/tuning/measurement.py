"""Measure the choices for one model with onnxruntime, within a limit of time."""

import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from xoptim.bench.measure import profile
from xoptim.bench.options import BenchOptions
from xoptim.bench.rounds import Ratio, Times, clock_for, mean_ratio, measure_pass, ratio_of
from xoptim.facts.errors import XoptimError
from xoptim.graph.sources import Source
from xoptim.optimizing.verified import located
from xoptim.system.machine import available_memory
from xoptim.tuning.candidates import Candidates, Model
from xoptim.tuning.choices import UNTOUCHED, Choice, Dimension, Facts, Recipe, variations
from xoptim.tuning.search import Meter, Rules, Search, SearchResult
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.inputs.work import COPIES, weight_bytes
from xoptim.verification.runs.protos import read_proto
from xoptim.verification.runs.session import Session, Value

_MAX_TURN_SECONDS = 0.15
"""Seconds of measured rounds for each choice of a pass, at most; there are at least five rounds."""
_TURN_SHARE: Final = 0.008
"""Maximum share of the budget that these seconds take, so that a small budget is enough for several
choices.
"""
_SMALL_BUDGET: Final = 20.0
"""Seconds below which a budget is small."""
SHORT_RACES: Final = Rules(min_passes=1, passes_to_accept=2, max_passes=2)
"""The rules of races in a small budget. They do not shorten the confirmation of the result."""
_MAX_SESSIONS: Final = 3
"""Maximum number of sessions of a choice, which its passes use in turn."""
PROFILE_SECONDS: Final = 0.1
"""Seconds of the runs of one model in the profiler."""


class Budget:
    """The time that is left until ``seconds`` from now, and the time that measurements take.

    Attributes:
        turn_seconds: seconds of measured rounds for each choice of a pass.
        is_small: whether races should be short, so that several choices are tried.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.perf_counter) -> None:
        self.turn_seconds = min(_MAX_TURN_SECONDS, _TURN_SHARE * seconds)
        self.is_small = seconds < _SMALL_BUDGET
        self._end = now() + seconds
        self._now = now
        self._reserved_seconds = 0.0
        self._reserved_runs = 0
        self._measured_seconds = 0.0
        self._measured_runs = 0

    def keep(self, seconds: float, runs: int) -> None:
        """Reserve time for the steps after the search: some seconds, and some runs of a choice."""
        self._reserved_seconds, self._reserved_runs = seconds, runs

    def charge(self, seconds: float, runs: int) -> None:
        """Record the time that a pass of this many choices took."""
        self._measured_seconds += seconds
        self._measured_runs += runs

    @property
    def left(self) -> float:
        """Seconds until the end, without the reserved ones; below 0 after it."""
        return self._end - self._now() - self._reserved_seconds

    def fits(self, runs: int) -> bool:
        """Whether this many runs of a choice, one for each pass, fit into the remaining time."""
        seconds_of_a_run = self._measured_seconds / max(1, self._measured_runs)
        seconds = self._reserved_seconds + seconds_of_a_run * (runs + self._reserved_runs)
        return self._now() + seconds < self._end


class SideBySide:
    """Measures choices in the same rounds, as a benchmark does, on the feeds of each setting.

    The first ``max_sessions`` passes with a choice create a session each. Later passes use these
    sessions in turn, as long as every pass contains the choice. If ``max_sessions`` is 0, every
    pass creates a session. The budget limits the passes, and is charged with them; ``seed``
    determines the order of the runs.
    """

    def __init__(
        self,
        make: Callable[[Recipe], Model],
        feeds: Sequence[Mapping[str, Value]],
        budget: Budget,
        seed: int = 0,
        max_sessions: int = _MAX_SESSIONS,
    ) -> None:
        self._make = make
        self._feeds = feeds
        self._budget = budget
        self._rng = random.Random(seed)
        self._seed = seed
        self._max_sessions = max_sessions
        self._sessions: dict[Choice, deque[Session]] = {}
        self._passes: list[dict[Choice, list[list[float]]]] = []  # the rounds of each setting

    def fits(self, runs: int) -> bool:
        """See `Budget.fits`."""
        return self._budget.fits(runs)

    def measure(self, choices: Sequence[Choice]) -> dict[Choice, str]:
        """Add a pass. Returns the reason for each choice that cannot be run.

        Raises `XoptimError` when the first choice cannot be run.
        """
        start = time.perf_counter()
        sessions: dict[Choice, Session] = {}
        failures: dict[Choice, str] = {}
        self._sessions = {choice: self._sessions.get(choice, deque()) for choice in choices}
        for choice in self._rng.sample(choices, len(choices)):
            try:
                sessions[choice] = self._next(choice)
            except (XoptimError, MemoryError) as error:
                if choice == choices[0]:
                    raise
                failures[choice] = str(error) or "there is not enough memory"
        ready = [choice for choice in choices if choice in sessions]
        rounds: dict[Choice, list[list[float]]] = {choice: [] for choice in ready}
        for feeds in self._feeds:
            times = [Times() for _ in ready]
            runs = [sessions[choice].runner(feeds) for choice in ready]
            measure_pass(
                runs,
                times,
                self._budget.turn_seconds * len(ready),
                self._rng,
                clock_for(choice.settings for choice in ready),
            )
            for choice, timing in zip(ready, times, strict=True):
                rounds[choice] += timing.rounds
        self._passes.append(rounds)
        self._budget.charge(time.perf_counter() - start, len(choices))
        return failures

    def ratio(self, choice: Choice, base: Choice) -> Ratio:
        """The time of a choice divided by that of another one: the geometric mean of the settings,
        over all passes that contain both. Raises `ValueError` when none does.
        """
        passes = self._common_passes(choice, base)
        ratios = [
            ratio_of(
                [rounds[choice][index] for rounds in passes],
                [rounds[base][index] for rounds in passes],
                self._seed,
            )
            for index in range(len(self._feeds))
        ]
        return mean_ratio(ratios)

    def count(self, choice: Choice, base: Choice) -> int:
        """Number of passes that contain both."""
        return len(self._common_passes(choice, base))

    def _common_passes(self, choice: Choice, base: Choice) -> list[dict[Choice, list[list[float]]]]:
        return [rounds for rounds in self._passes if choice in rounds and base in rounds]

    def _next(self, choice: Choice) -> Session:
        sessions = self._sessions[choice]
        if len(sessions) < max(1, self._max_sessions):
            model, base_dir = self._make(choice.recipe)
            settings = choice.settings.safe_for(read_proto(model)[0])
            session = Session(model, settings, base_dir=base_dir)
            session.run(self._feeds[0])
            sessions.append(session)
        sessions.rotate()
        return sessions[0] if self._max_sessions else sessions.pop()


class Measurement:
    """A model with everything that measuring its choices needs.

    Raises the errors of `run_reference` about the original.
    """

    def __init__(self, candidates: Candidates, bench: BenchOptions, budget: Budget) -> None:
        self.candidates = candidates
        self.budget = budget
        self._bench = bench
        # the original with the settings of the benchmark
        self.original = Choice(UNTOUCHED, bench.settings)
        # A run of the original on the values of each setting
        self.runs: list[ReferenceRun] = [
            _first_run(candidates.source, setting) for setting in bench.each()
        ]
        self._session_capacity = self._sessions_in_memory()
        # as many challengers as memory allows, in addition to the original and the best choice
        challengers = max(1, min(Rules().max_challengers, self._session_capacity - 2))
        self.rules = Rules(max_challengers=challengers)  # of the last passes
        self.races = replace(
            SHORT_RACES if budget.is_small else self.rules, max_challengers=challengers
        )

    def _sessions_in_memory(self) -> int:
        """Number of sessions that half of the free memory holds."""
        memory = available_memory()
        size = COPIES * max(1, weight_bytes(self.candidates.source.proto))
        return sys.maxsize if memory is None else memory // (2 * size)

    def meter(self) -> Meter:
        """A meter without measurements."""
        choices = Rules().max_challengers + 2
        is_large_enough = self._session_capacity >= _MAX_SESSIONS * choices
        return SideBySide(
            self.candidates.make,
            [run.feeds for run in self.runs],
            self.budget,
            self._bench.seed,
            _MAX_SESSIONS if is_large_enough else 0,
        )

    def study(self, recipes: Iterable[Recipe]) -> Facts:
        """The groups of patterns that apply in the models of some recipes, and the operators that
        take the time.
        """
        recipes = list(dict.fromkeys(recipes))
        shares: dict[str, float] = {}
        for recipe in recipes:
            with suppress(LoadError, RunError):  # the race reports it
                times = self._profile(recipe)
                total = sum(times.values()) or 1.0
                shares |= {
                    name: max(seconds / total, shares.get(name, 0.0))
                    for name, seconds in times.items()
                }
        facts = Facts(shares=shares)
        groups: dict[str, float] = {}
        for recipe in recipes:
            for name, written in self.candidates.describe(recipe).written.items():
                groups[name] = max(groups.get(name, 0.0), facts.share(written))
        return replace(facts, groups=groups)

    def _profile(self, recipe: Recipe) -> dict[str, float]:
        """Seconds of each operator in a run."""
        model, base_dir = self.candidates.make(recipe)
        options = replace(
            self._bench,
            feeds=self.runs[0].feeds,
            dims={},
            at=(),
            test_data=None,
            seconds=PROFILE_SECONDS,
        )
        folders = {} if base_dir is None else {"": base_dir}
        operators = profile({"": model}, options, base_dirs=folders)[""]
        return {name: operator.seconds for name, operator in operators.items()}

    def search(
        self,
        start: Choice,
        facts: Facts,
        dimensions: tuple[Dimension, ...],
        meter: Meter,
        *,
        is_enough: Callable[[Choice], bool] = lambda _: False,
        on_step: Callable[[str], object] = lambda _: None,
    ) -> SearchResult:
        """Search from a choice in some dimensions; see `Search.run`."""
        search = Search(
            self.original,
            lambda best: variations(best, facts, dimensions),
            meter,
            self.races,
            self._changes_anything,
        )
        return search.run(start, is_enough=is_enough, on_step=on_step)

    def _changes_anything(self, choice: Choice, best: Choice) -> bool:
        """False if two choices with different recipes have equal models."""
        if choice.recipe == best.recipe:
            return True
        with suppress(XoptimError):  # the race reports it
            return (
                self.candidates.describe(choice.recipe).digest
                != self.candidates.describe(best.recipe).digest
            )
        return True


def _first_run(source: Source, bench: BenchOptions) -> ReferenceRun:
    original, checks = located(source, bench.checks)
    return run_reference(original, checks).runs[0]
