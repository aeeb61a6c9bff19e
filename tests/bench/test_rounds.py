"""Rounds of runs, with a clock that the runs move themselves."""

import random
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest

from xoptim.bench import rounds
from xoptim.bench.rounds import Times, clock_for, measure_pass
from xoptim.verification import SessionSettings


class Clock:
    """A clock that stands still unless something runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[str] = []

    def model(self, name: str, seconds: float, first: float | None = None) -> Callable[[], None]:
        """A model that takes some time; its first run may take longer."""
        pending = [seconds if first is None else first]

        def run() -> None:
            self.now += pending.pop() if pending else seconds
            self.ran.append(name)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("xoptim.bench.rounds.time.perf_counter", lambda: made.now)
    return made


def turns(ran: list[str]) -> list[str]:
    """The sequence of models, runs in a row counted once."""
    return [ran[0], *(after for before, after in pairwise(ran) if after != before)]


def test_times_are_those_of_the_runs(clock: Clock) -> None:
    times = [Times(), Times()]
    runs = [clock.model("a", 0.001, first=5.0), clock.model("b", 0.004)]
    measure_pass(runs, times, 1.0, random.Random(0))
    assert times[0].best == pytest.approx(0.001)
    assert times[0].rounds == [pytest.approx([0.001] * len(times[0].rounds[0]))]
    assert times[1].rounds == [pytest.approx([0.004] * len(times[0].rounds[0]))]
    assert len(times[0].rounds[0]) > 10


def test_short_runs_are_repeated(clock: Clock) -> None:
    """In a round both models take about the same time, however long a run of each takes."""
    measure_pass(
        [clock.model("a", 0.001), clock.model("b", 0.01)], [Times(), Times()], 1.0, random.Random(0)
    )
    counted = clock.ran[-(21 + 3) * 5 :]
    assert 6 < counted.count("a") / counted.count("b") < 8  # 20 + 1 runs for 2 + 1


def test_long_runs_are_measured_once_a_round(clock: Clock) -> None:
    times = [Times()]
    measure_pass([clock.model("a", 2.0)], times, 0.1, random.Random(0))
    assert len(times[0].rounds[0]) == rounds._MIN_ROUNDS
    assert len(clock.ran) == 1 + 1 + rounds._MIN_ROUNDS


def test_the_order_changes_from_round_to_round(clock: Clock) -> None:
    measure_pass(
        [clock.model(name, 0.03) for name in "abc"], [Times() for _ in "abc"], 3.0, random.Random(0)
    )
    warm = clock.ran.index("b") * 3
    orders = {tuple(clock.ran[start : start + 6 : 2]) for start in range(warm, len(clock.ran), 6)}
    assert {frozenset(order) for order in orders} == {frozenset("abc")}
    assert len(orders) > 3


def test_a_pass_is_added(clock: Clock) -> None:
    times = [Times()]
    for _ in range(3):
        measure_pass([clock.model("a", 0.01)], times, 0.2, random.Random(0))
    assert len(times[0].rounds) == 3
    assert turns(clock.ran) == ["a"]


def test_another_clock_measures_the_runs(clock: Clock) -> None:
    """A run takes longer, by the time that passes, than the processor works for it."""
    times = [Times()]
    measure_pass([clock.model("a", 0.01)], times, 0.1, random.Random(0), lambda: clock.now / 4)
    assert times[0].best == pytest.approx(0.0025)


@pytest.mark.parametrize(
    ("settings", "clock"),
    [
        (SessionSettings(threads=1), "thread_time"),
        (SessionSettings(threads=2), "perf_counter"),
        (SessionSettings(), "perf_counter"),
    ],
)
def test_runs_of_one_thread_are_measured_in_processor_time(
    settings: SessionSettings, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert clock_for([settings, SessionSettings(threads=1)]).__name__ == clock
    monkeypatch.setattr(sys, "platform", "win32")
    assert clock_for([SessionSettings(threads=1)]).__name__ == "perf_counter"
