"""Runs of the original on inputs that decide its conditions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from xoptim.verification.errors import RunError
from xoptim.verification.inputs.dims import Sizes
from xoptim.verification.inputs.feeding import Planning, ReferenceRun, RunPlan
from xoptim.verification.inputs.goal_plans import Evaluator, GoalPlans
from xoptim.verification.inputs.goals import Goal, Goals

Probe = Callable[[int, Planning], ReferenceRun | None]
_MAX_RUNS: Final = 16
_MAX_TINY_RUNS: Final = 64
_TIMES: Final = 4  # runs of one condition where a run is tiny


class ConditionRuns:
    """Adds runs for each branch of an If and, where runs take almost no time, for each side of a
    Where whose condition is the same for all elements.
    """

    def __init__(
        self, goals: Goals, plans: GoalPlans, evaluate: Evaluator, *, is_tiny: bool
    ) -> None:
        self._goals = goals
        self._plans = plans
        self._evaluate = evaluate
        self._is_tiny = is_tiny

    def add(self, runs: list[ReferenceRun], probe: Probe, largest: Sizes) -> None:
        """Add runs that the original accepts.

        Args:
            runs: the runs so far; grows.
            probe: runs the original.
            largest: sizes for every second run of a condition, if the original accepts them.
        """
        goals_left = list(self._goals.branches())
        if self._is_tiny:
            goals_left += self._undecided(list(self._goals.choices()), runs)
        times = _TIMES if self._is_tiny else 1
        max_runs = len(runs) + (_MAX_TINY_RUNS if self._is_tiny else _MAX_RUNS)
        for _, goals in itertools.groupby(goals_left, key=lambda goal: goal[:2]):
            count = 0
            for goal in goals:
                if count >= times or len(runs) >= max_runs:
                    break
                for run in self._runs(goal, count, times, probe, largest, len(runs)):
                    runs.append(run)
                    count += 1

    def _runs(
        self, goal: Goal, count: int, times: int, probe: Probe, largest: Sizes, number: int
    ) -> Iterator[ReferenceRun]:
        """Runs that reach a goal: several of its first solution, one of each further solution."""
        if not self._plans.can_be_tried(goal.solution):
            return
        for turn in range(count, times if not count else count + 1):
            plan = self._plans.plan(goal.solution, turn)
            run = probe(number + turn, planned_at(largest, plan)) if turn % 2 else None
            run = run or probe(number + turn, plan)
            if run is None:
                return
            if self._plans.is_met(goal, run.feeds) is not False:
                yield run

    def _undecided(self, goals: Sequence[Goal], runs: Sequence[ReferenceRun]) -> list[Goal]:
        """The goals whose conditions are the same for all elements in a usual run."""
        names = list(dict.fromkeys(goal.condition for goal in goals))
        usual_runs = [run for run in runs if not run.is_probe][:1]
        try:
            values = [self._evaluate(names, run.feeds) for run in usual_runs] if names else []
        except RunError:
            return []
        mixed_conditions = {
            name
            for results in values
            for name, value in results.items()
            if np.asarray(value).any() and not np.asarray(value).all()
        }
        return [goal for goal in goals if goal.condition not in mixed_conditions]


def planned_at(sizes: Sizes, planning: Planning) -> Planning:
    """The same plan, always at the given sizes."""

    def plan(_: Sizes, run: int, gentle: bool) -> RunPlan:
        return planning(sizes, run, gentle)

    return plan
