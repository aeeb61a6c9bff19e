"""Measures choices with onnxruntime, within a limit of time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from xoptim.bench.rounds import Ratio, Times, clock_for, measure_pass, ratio_of
from xoptim.facts.errors import XoptimError
from xoptim.tuning.candidates import Choice, Recipe
from xoptim.validate.protos import ModelLike
from xoptim.validate.session import Session, Value

_TURNS = 0.4  # seconds of measured rounds for each choice of a pass; there are at least five rounds


class Model(NamedTuple):
    """A model as onnxruntime loads it.

    Attributes:
        model: a file, or a protobuf.
        base_dir: folder of the external data of a protobuf.
    """

    model: ModelLike
    base_dir: Path | None


class Budget:
    """The time that is left, and what measuring takes.

    Args:
        seconds: from now.
        now: the clock.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.perf_counter) -> None:
        self._end = now() + seconds
        self._now = now
        self._kept = 0.0
        self._kept_runs = 0
        self._taken = 0.0
        self._runs = 0

    def keep(self, seconds: float, runs: int) -> None:
        """Keep some time, and the time of so many runs of a choice, for the steps after the search."""
        self._kept, self._kept_runs = seconds, runs

    def charge(self, seconds: float, runs: int) -> None:
        """Record the time that a pass of so many choices took."""
        self._taken += seconds
        self._runs += runs

    def fits(self, runs: int) -> bool:
        """Whether so many runs of a choice, one for each pass, fit into the time that is left."""
        needed = self._kept + self._taken / max(1, self._runs) * (runs + self._kept_runs)
        return self._now() + needed < self._end


class SideBySide:
    """Measures choices in the same rounds, as a benchmark does; the sessions are made anew for each pass.

    Args:
        make: makes the model of a recipe.
        feeds: values of the inputs.
        budget: limits the passes, and is charged with them.
        seed: of the order of the runs.
    """

    def __init__(self, make: Callable[[Recipe], Model], feeds: Mapping[str, Value], budget: Budget, seed: int = 0) -> None:
        self._make = make
        self._feeds = feeds
        self._budget = budget
        self._rng = random.Random(seed)
        self._seed = seed
        self._passes: list[dict[Choice, list[float]]] = []

    def fits(self, runs: int) -> bool:
        """Whether so many runs of a choice, one for each pass, fit into the time that is left."""
        return self._budget.fits(runs)

    def measure(self, choices: Sequence[Choice]) -> dict[Choice, str]:
        """Add a pass. Returns the reason for each choice that cannot be run.

        Raises:
            XoptimError: the first choice cannot be run.
        """
        start = time.perf_counter()
        sessions: dict[Choice, Session] = {}
        failed: dict[Choice, str] = {}
        for choice in self._rng.sample(choices, len(choices)):
            try:
                sessions[choice] = self._opened(choice)
            except (XoptimError, MemoryError) as error:
                if choice == choices[0]:
                    raise
                failed[choice] = str(error) or "there is not enough memory"
        able = [choice for choice in choices if choice in sessions]
        times = [Times() for _ in able]
        runs = [sessions[choice].runner(self._feeds) for choice in able]
        measure_pass(runs, times, _TURNS * len(able), self._rng, clock_for(choice.settings for choice in able))
        self._passes.append({choice: its.rounds[0] for choice, its in zip(able, times, strict=True)})
        self._budget.charge(time.perf_counter() - start, len(choices))
        return failed

    def ratio(self, choice: Choice, base: Choice) -> Ratio:
        """The time of a choice divided by that of another one, over all passes that contain both.

        Raises:
            ValueError: no pass contains both.
        """
        both = self._with(choice, base)
        return ratio_of([its[choice] for its in both], [its[base] for its in both], self._seed)

    def count(self, choice: Choice, base: Choice) -> int:
        """Number of passes that contain both."""
        return len(self._with(choice, base))

    def _with(self, choice: Choice, base: Choice) -> list[dict[Choice, list[float]]]:
        return [its for its in self._passes if choice in its and base in its]

    def _opened(self, choice: Choice) -> Session:
        model, base_dir = self._make(choice.recipe)
        session = Session(model, choice.settings, base_dir=base_dir)
        session.run(self._feeds)
        return session
