"""Passes of small models, and the budget of time."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support import parse
from xoptim.bench import Interval, Ratio, ratio_of
from xoptim.tuning.candidates import Model
from xoptim.tuning.choices import UNTOUCHED, Choice, Recipe, Variation
from xoptim.tuning.measurement import Budget, SideBySide
from xoptim.tuning.search import Rules, Search
from xoptim.verification import LoadError, SessionSettings

SETTINGS = SessionSettings(level="all", threads=1)
ORIGINAL = Choice(UNTOUCHED, SETTINGS)
OTHER = Choice(Recipe(), SETTINGS)
TRANSPOSED = Choice(Recipe(frozenset(["matmul"])), SETTINGS)
FEEDS = {"x": np.ones((3, 3), np.float32)}
TEXTS = {
    ORIGINAL.recipe: "agraph (float[n,n] x) => (float[n,n] y) { y = Relu(x) }",
    OTHER.recipe: "agraph (float[n,n] x) => (float[n,n] y) { y = Abs(x) }",
    TRANSPOSED.recipe: "agraph (float[n,n] x) => (float[n,n] y) { y = NoSuch(x) }",
}


pytestmark = pytest.mark.usefixtures("brief")


@pytest.fixture
def meter() -> SideBySide:
    """A meter of these models with time for everything."""
    return SideBySide(lambda recipe: Model(parse(TEXTS[recipe]), None), [FEEDS], Budget(1000.0))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


def test_ratios_are_over_the_passes_that_contain_both(meter: SideBySide) -> None:
    assert meter.measure([ORIGINAL, OTHER]) == {}
    assert meter.measure([ORIGINAL]) == {}
    ratio = meter.ratio(OTHER, ORIGINAL)
    assert 0 < ratio.interval.low <= ratio.value <= ratio.interval.high
    assert (
        meter.count(OTHER, ORIGINAL),
        meter.count(ORIGINAL, ORIGINAL),
        meter.count(TRANSPOSED, ORIGINAL),
    ) == (1, 2, 0)
    assert meter.ratio(ORIGINAL, ORIGINAL) == Ratio(1.0, Interval(1.0, 1.0))
    with pytest.raises(ValueError, match="at least 1"):
        meter.ratio(TRANSPOSED, ORIGINAL)


def test_models_that_cannot_be_run_are_named(meter: SideBySide) -> None:
    failed = meter.measure([ORIGINAL, TRANSPOSED, OTHER])
    assert list(failed) == [TRANSPOSED]
    assert "NoSuch" in failed[TRANSPOSED]
    assert meter.ratio(OTHER, ORIGINAL).value > 0


def test_the_first_model_must_run(meter: SideBySide) -> None:
    with pytest.raises(LoadError, match="NoSuch"):
        meter.measure([TRANSPOSED, OTHER])


def test_ratios_are_the_geometric_mean_of_the_settings() -> None:
    settings = [{"x": np.ones((size, size), np.float32)} for size in (2, 5)]
    meter = SideBySide(lambda recipe: Model(parse(TEXTS[recipe]), None), settings, Budget(1000.0))
    meter.measure([ORIGINAL, OTHER])
    (rounds,) = meter._passes
    each = [
        ratio_of([mine], [its]).value
        for mine, its in zip(rounds[OTHER], rounds[ORIGINAL], strict=True)
    ]
    assert len(each) == 2
    assert meter.ratio(OTHER, ORIGINAL).value == pytest.approx((each[0] * each[1]) ** 0.5)


class Machine:
    """A machine on which time passes only while a model is loaded or runs."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, costs: Callable[[SessionSettings], float]
    ) -> None:
        self.seconds = 0.0
        self.loaded = 0
        self._costs = costs
        for module in ("xoptim.bench.rounds", "xoptim.tuning.measurement"):
            monkeypatch.setattr(f"{module}.time", SimpleNamespace(perf_counter=self.now))
        monkeypatch.setattr("xoptim.bench.rounds.clock_of_thread", lambda: self.now)
        monkeypatch.setattr("xoptim.tuning.measurement.Session", self.session)

    def now(self) -> float:
        return self.seconds

    def session(self, _: object, settings: SessionSettings, **__: object) -> SimpleNamespace:
        """Loading takes 0.15 s, and a run about 10 ms."""
        self.loaded += 1
        self.seconds += 0.15

        def run(*_: object) -> None:
            self.seconds += 0.010 * self._costs(settings)

        return SimpleNamespace(run=run, runner=lambda feeds: run)


def numbered(place: int) -> Choice:
    return Choice(Recipe(), replace(SETTINGS, entries=(("place", str(place)),)))


def test_a_model_of_10_ms_sees_twelve_changes_in_30_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are slower, most change nothing, one is faster: it is tried first, and found."""
    monkeypatch.undo()  # the waits are the real ones
    costs = [0.8, 1.3, 1.1, *[1.001] * 20]
    machine = Machine(
        monkeypatch,
        lambda settings: costs[int(dict(settings.entries)["place"])] if settings.entries else 1.0,
    )
    start = Choice(Recipe(), SETTINGS)
    space = [Variation(f"change {place}", numbered(place), 1.0) for place in range(len(costs))]
    meter = SideBySide(
        lambda _: Model(parse(TEXTS[OTHER.recipe]), None), [FEEDS], Budget(30.0, machine.now)
    )
    found = Search(ORIGINAL, lambda _: space, meter, Rules()).run(start)
    assert machine.seconds < 30.0
    assert len(found.trials) >= 12
    assert found.best == numbered(0)
    assert found.not_tried == len(costs) - len(found.trials)


def test_passes_share_sessions_after_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, lambda _: 1.0)
    for max_sessions, loaded in ((3, 6), (0, 10)):
        machine.loaded = 0
        meter = SideBySide(
            lambda _: Model(parse(TEXTS[OTHER.recipe]), None),
            [FEEDS],
            Budget(99.0, machine.now),
            max_sessions=max_sessions,
        )
        for _ in range(5):
            meter.measure([ORIGINAL, OTHER])
        assert machine.loaded == loaded


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda budget, clock: None, True),
        (lambda budget, clock: setattr(clock, "seconds", 15.0), False),
        (lambda budget, clock: budget.charge(8.0, 4), True),
        (lambda budget, clock: budget.charge(12.0, 4), False),
        (lambda budget, clock: (budget.charge(12.0, 4), budget.charge(2.0, 4)), True),
        (lambda budget, clock: (budget.charge(8.0, 4), budget.keep(3.0, 0)), False),
        (lambda budget, clock: (budget.charge(8.0, 4), budget.keep(0.0, 1)), False),
    ],
)
def test_the_budget(change: Callable[[Budget, Clock], object], expected: bool) -> None:
    """Ten seconds, and four runs."""
    clock = Clock()
    budget = Budget(10.0, clock)
    change(budget, clock)
    assert budget.fits(4) is expected
