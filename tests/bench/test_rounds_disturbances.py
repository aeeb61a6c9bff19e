"""What disturbs a measurement, and what it needs."""

import pytest

from tests.support import values_in
from xoptim.bench import BenchOptions, BenchReport, Interval, ModelTimes, Ratio


def times(spread: float, half: float | None = None) -> ModelTimes:
    """A model that takes 1 s, whose ratio is 1 with an interval of some width."""
    ratio = None if half is None else Ratio(1.0, Interval(1 - half, 1 + half))
    return ModelTimes("m", 1.0, 0.9, spread, 20, None, ratio)


def report(*machine: str, spread: float = 0.05, half: float = 0.04) -> BenchReport:
    models = (times(0.01), times(spread, half))
    return BenchReport(models, {}, BenchOptions(seconds=10.0), machine=machine)


def test_an_idle_machine() -> None:
    assert report().disturbances == []


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        (report("the clock rate changes"), "the clock rate changes"),
        (report(spread=0.234), "times spread by 23% of the median"),
    ],
)
def test_each_cause(changed: BenchReport, cause: str) -> None:
    need = "ratios are precise to 4.0%; an idle machine or `xopt bench --seconds 40` gives 2.0%"
    assert changed.disturbances == [cause, need]
    assert changed.to_json()["disturbances"] == [cause, need]


@pytest.mark.parametrize(
    ("half", "values"),
    [
        (0.015, ["1.5%"]),
        (0.5, ["50.0%", "xopt bench --seconds 6250", "2.0%"]),
        (4.0, ["400.0%"]),
    ],
)
def test_what_is_needed(half: float, values: list[str]) -> None:
    assert values_in(report(spread=0.2, half=half).disturbances[-1]) == values


def test_one_model_alone() -> None:
    alone = BenchReport((times(0.3),), {}, BenchOptions())
    assert "idle machine" in alone.disturbances[-1]


def test_the_spread_is_that_of_each_setting() -> None:
    """The largest spread is not compared with the mean of all medians."""
    slow = ModelTimes("m", 100.0, 90.0, 5.0, 20, None)
    settings = tuple(BenchReport((entry,), {}, BenchOptions()) for entry in (times(0.01), slow))
    mean = ModelTimes("m", 10.0, 9.0, 5.0, 40, None)
    assert BenchReport((mean,), {}, BenchOptions(), {}, settings).disturbances == []
