"""Passes of small models, and the budget of time."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support import parse
from xoptim.tuning.candidates import Model
from xoptim.tuning.choices import UNTOUCHED, Choice, Recipe
from xoptim.tuning.measurement import Budget, SideBySide
from xoptim.validate import LoadError, SessionSettings

SETTINGS = SessionSettings(level="all", threads=1)
ORIGINAL = Choice(UNTOUCHED, SETTINGS)
OTHER = Choice(Recipe(), SETTINGS)
TRANSPOSED = Choice(Recipe(frozenset(["products"])), SETTINGS)
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
    return SideBySide(lambda recipe: Model(parse(TEXTS[recipe]), None), FEEDS, Budget(1000.0))


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
    assert (meter.count(OTHER, ORIGINAL), meter.count(ORIGINAL, ORIGINAL), meter.count(TRANSPOSED, ORIGINAL)) == (1, 2, 0)
    assert meter.ratio(ORIGINAL, ORIGINAL) == (1.0, (1.0, 1.0))
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
