"""The budget of the runs as it ships: other tests replace it by one that takes no time from a
clock. Here, a clock goes on with the elements that a session reads, and with nothing else.
"""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support import parse
from tests.verification.wrong.case import judged
from tests.verification.wrong.cases import cases, right_cases
from xoptim.verification import (
    Session,
    Value,
    VerificationOptions,
    VerificationReport,
    verify_models,
)
from xoptim.verification.errors import RunStoppedError
from xoptim.verification.inputs import reference, work

MODULES = (
    "inputs.reference",
    "inputs.feeding",
    "inputs.reach",
    "functions",
    "judging.run_comparison",
)
"""Modules of the verification that read a clock."""
SLICED = """agraph (float[batch,seq] x) => (float[batch,m] y)
  <int64[1] z = {0}, int64[1] e = {512}, int64[1] one = {1}> { y = Slice(x, z, e, one) }"""
IDENTITY = "agraph (float[batch,seq] x) => (float[batch,m] y) { y = Identity(x) }"


class Clock:
    """Stands in for the clock of a process.

    Attributes:
        now: its seconds.
        start: seconds of each run.
        element: seconds of each element that a run reads.
        stopped: how many runs took longer than they might.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.start = 0.0
        self.element = 0.0
        self.stopped = 0

    def read(self) -> float:
        return self.now

    def pass_run(self, feeds: Mapping[str, Value], limit: float | None) -> None:
        """Go on for a run, at most until its limit."""
        elements = sum(np.asarray(value).size for value in feeds.values())
        seconds = self.start + self.element * elements
        self.now += seconds if limit is None else min(seconds, limit)
        if limit is not None and seconds > limit:
            self.stopped += 1
            raise RunStoppedError(f"a run was stopped after {limit} seconds")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The clock of all runs, with the budget that ships."""
    clock = Clock()
    run = Session.run

    def timed(self: Session, feeds: Mapping[str, Value], limit: float | None = None) -> list[Value]:
        clock.pass_run(feeds, limit)
        return run(self, feeds, limit)

    monkeypatch.setattr(reference, "RunBudget", work.RunBudget)
    for name in MODULES:
        module = f"xoptim.verification.{name}.time"
        monkeypatch.setattr(module, SimpleNamespace(perf_counter=clock.read))
    monkeypatch.setattr(Session, "run", timed)
    yield clock
    assert clock.now > 0 or not (clock.start or clock.element), "something ran"


def verified(before: str, after: str, budget: float | None = None) -> VerificationReport:
    return verify_models(parse(before), parse(after), VerificationOptions(budget=budget))


def sizes(report: VerificationReport) -> list[dict[str, int]]:
    return [dict(run.dims) for run in report.runs]


def reasons(report: VerificationReport) -> list[str]:
    return [skipped.reason for skipped in report.skipped]


@pytest.mark.slow
def test_fast_runs_are_all_made(clock: Clock) -> None:
    """A run of a millisecond: 5 seconds are enough for all, and the end of the Slice is passed."""
    clock.start = 1e-3
    report = verified(SLICED, SLICED)
    assert report.ok
    assert report.skipped == ()
    assert len(report.runs) > 50
    assert 518 in {run.get("seq") for run in sizes(report)}
    assert clock.now < 5.0
    wrong = verified(SLICED, IDENTITY)
    assert wrong.status == "different"
    assert "seq=518" in wrong.reason


@pytest.mark.slow
def test_the_verdict_of_fast_runs_is_that_of_an_even_budget(clock: Clock) -> None:
    """Wrong rewrites of which a few runs notice none, and right ones."""
    clock.start = 1e-4
    known = {case.name: case for case in (*cases(), *right_cases())}
    statuses = {"relu_alone": "different", "mean_of_two": "equal", "softmax_of_parts": "equal"}
    assert {name: judged(known[name]).status for name in statuses} == statuses


def test_slow_runs_end_with_the_budget(clock: Clock) -> None:
    """A run takes 0.8 seconds: the fixed budget of 5 seconds ends after seven of them, and what was
    left out has a reason.
    """
    clock.start = 0.8
    report = verified(SLICED, SLICED)
    assert report.ok
    assert reasons(report)
    assert all("budget" in reason for reason in reasons(report))
    assert "5 s" in reasons(report)[-1]
    assert "(budget)" in report.notes[0]
    assert len(report.runs) == 7
    assert clock.stopped == 0


def test_a_slow_first_run_makes_the_budget_larger(clock: Clock) -> None:
    """Five runs like the first one, of 3 seconds: more runs than a budget of 5 seconds allows."""
    clock.start, clock.element = 3.0, 1e-4
    report = verified(SLICED, SLICED)
    assert report.ok
    assert len(report.runs) == 5
    assert "15 s" in reasons(report)[-1]
    fixed = verified(SLICED, SLICED, budget=5.0)
    assert len(fixed.runs) == 2
    assert "5 s" in reasons(fixed)[-1]


def test_a_wrong_rewrite_is_noticed_by_the_runs_that_fit(clock: Clock) -> None:
    """Minutes a run: only the first ones are made."""
    clock.start = 60.0
    assert judged({case.name: case for case in cases()}["relu_alone"]).status == "different"


def test_a_run_that_would_take_too_long_is_not_begun(clock: Clock) -> None:
    """The first run tells what an element costs: one with 86 times as many does not fit."""
    clock.element = 0.2
    report = verified(SLICED, SLICED)
    assert report.ok
    (skipped,) = [run for run in report.skipped if dict(run.dims).get("seq") == 518]
    assert "budget" in skipped.reason
    assert 518 not in {run.get("seq") for run in sizes(report)}


def test_a_longer_budget_is_used(clock: Clock) -> None:
    clock.start = 0.8
    short, long = (verified(SLICED, SLICED, budget=budget) for budget in (2.0, 100.0))
    assert len(short.runs) < len(long.runs)
    assert long.skipped == ()
    assert all("2 s" in reason for reason in reasons(short))


@pytest.mark.parametrize("start", [1e-3, 0.8, 3.0])
def test_the_same_clock_gives_the_same_runs(start: float, clock: Clock) -> None:
    clock.start = start
    first, second = (verified(SLICED, SLICED) for _ in range(2))
    assert sizes(first) == sizes(second)
    assert first.notes == second.notes
