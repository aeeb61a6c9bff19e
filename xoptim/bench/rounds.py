"""Rounds, in which all models run in random order; and the report: time ratios with intervals."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean, median
from typing import Annotated, Final, NamedTuple, TypeAlias

import numpy as np

from xoptim.bench.options import BenchOptions
from xoptim.bench.subjects import Loading
from xoptim.facts.advice import Advice
from xoptim.facts.json_results import JsonForm, JsonResult, member, to_milliseconds, within
from xoptim.facts.words import counted
from xoptim.system.machine import clock_of_thread
from xoptim.verification.inputs.dims import sizes_text
from xoptim.verification.judging.report import VerificationReport
from xoptim.verification.runs.session import resolve_providers
from xoptim.verification.runs.session_settings import SessionSettings

Clock: TypeAlias = Callable[[], float]

_WARM_SECONDS: Final = 0.2  # maximal warm-up, unless a few runs take longer
_WARM_SHARE: Final = 0.3  # of the measured seconds
_WARM_RUNS: Final = 3
_TURN_SECONDS: Final = 0.02  # runs of one model in one round: short runs are repeated
_MAX_RUNS: Final = 1000
_LONG_RUN: Final = 0.1  # seconds; a longer run warms up alone, and is the only run of its turn
_MIN_ROUNDS: Final = 5
_UNCOUNTED_ROUNDS: Final = 2  # of `best_times`
_ONLY_CPU: Final = ["CPUExecutionProvider"]


@dataclass(slots=True)
class Times:
    """Times of one model in seconds: the median of the runs of each round of each pass, and the
    shortest run.
    """

    rounds: list[list[float]] = field(default_factory=list)
    best: float = float("inf")


def clock_for(settings: Iterable[SessionSettings]) -> Clock:
    """The clock for sessions: CPU time, which other processes affect less, if everything runs in
    the calling thread; else wall time.
    """
    is_one_thread = all(
        s.threads == 1 and resolve_providers(s.providers) == _ONLY_CPU for s in settings
    )
    return clock_of_thread() if is_one_thread else time.perf_counter


def best_times(
    runs: Sequence[Callable[[], object]], settings: SessionSettings, seconds: float
) -> list[float]:
    """The shortest time of each session; they run in turn, for some seconds and at least five
    rounds.
    """
    clock, best = clock_for([settings]), [float("inf")] * len(runs)
    end, rounds = time.perf_counter() + seconds, -_UNCOUNTED_ROUNDS
    while rounds < _MIN_ROUNDS or time.perf_counter() < end:
        for index, run in enumerate(runs):
            elapsed = _elapsed(run, clock)
            best[index] = min(best[index], elapsed) if rounds >= 0 else best[index]
        rounds += 1
    return best


def measure_pass(
    runs: Sequence[Callable[[], object]],
    times: Sequence[Times],
    seconds: float,
    rng: random.Random,
    clock: Clock | None = None,
) -> None:
    """Measure sessions against each other for some seconds, at least five rounds, and add a pass to
    the times of each.

    The first round is dropped: the first session is slower in it. ``rng`` draws the order of a
    round. ``clock`` measures each run, by default wall time. Other processes affect the CPU time of
    the thread less, but it excludes the work of other threads and of devices.
    """
    clock = clock or time.perf_counter
    warm_seconds = min(_WARM_SECONDS, _WARM_SHARE * seconds / len(runs))
    turn_seconds = min(_TURN_SECONDS, seconds / len(runs) / _MIN_ROUNDS)
    fastest_runs = (max(_warm(run, warm_seconds), 1e-9) for run in runs)
    counts = [max(1, min(_MAX_RUNS, int(turn_seconds / fastest))) for fastest in fastest_runs]
    _round(runs, counts, rng, clock)
    for model_times in times:
        model_times.rounds.append([])
    end = time.perf_counter() + seconds
    while len(times[0].rounds[-1]) < _MIN_ROUNDS or time.perf_counter() < end:
        for model_times, run_seconds in zip(times, _round(runs, counts, rng, clock), strict=True):
            model_times.rounds[-1].append(median(run_seconds))
            model_times.best = min(model_times.best, *run_seconds)


def _warm(run: Callable[[], object], seconds: float) -> float:
    """Run a model for some seconds, at least three times if it is fast; returns the seconds of the
    fastest run.
    """
    times: list[float] = []
    while (len(times) < _WARM_RUNS and sum(times) < _LONG_RUN) or sum(times) < seconds:
        times.append(_elapsed(run, time.perf_counter))
    return min(times)


def _round(
    runs: Sequence[Callable[[], object]], counts: Sequence[int], rng: random.Random, clock: Clock
) -> list[list[float]]:
    """A turn for each model, in random order; returns the seconds of their runs."""
    times: list[list[float]] = [[] for _ in runs]
    for index in rng.sample(range(len(runs)), len(runs)):
        # An uncounted run comes first: the previous model has filled the caches, and its threads
        # still spin for a moment.
        first = _elapsed(runs[index], clock)
        times[index] = (
            [first]
            if first > _LONG_RUN
            else [_elapsed(runs[index], clock) for _ in range(counts[index])]
        )
    return times


def _elapsed(run: Callable[[], object], clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start


_DRAWS: Final = 2000
_TAILS: Final = (2.5, 97.5)


class Interval(NamedTuple):
    """The bounds of a 95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ratio(JsonResult):
    """A ratio of times.

    Attributes:
        value: time divided by the time of the first, or original, model.
        interval: its 95 % confidence interval.
    """

    __json__ = JsonForm(
        member(
            "ratio=value",
            description=(
                "time divided by the time of the first, or original, model; null when not measured."
            ),
        ),
        member(
            "interval=bounds",
            description=(
                "lower and upper bound of its 95 % confidence interval; null when not measured."
            ),
        ),
    )
    # The schema allows null wherever a ratio stands
    value: Annotated[float, float | None]
    interval: Interval

    @property
    def bounds(self) -> Annotated[list[float], list[float] | None]:
        """Lower and upper bound of the interval."""
        return list(self.interval)

    @property
    def is_difference(self) -> bool:
        """Whether a difference was measured: the interval does not contain 1."""
        return not self.interval.low <= 1.0 <= self.interval.high

    def __str__(self) -> str:
        bounds = f"{self.interval.low:.3f} to {self.interval.high:.3f}"
        return (
            f"{self.value:.3f} ({bounds})"
            if self.is_difference
            else f"no difference measured ({bounds})"
        )


def mean_ratio(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean of ratios.

    The interval has the means of the bounds: wide enough even if errors are correlated.
    """
    value, low, high = (
        geometric_mean(numbers)
        for numbers in zip(*((r.value, *r.interval) for r in ratios), strict=True)
    )
    return Ratio(value, Interval(low, high))


def ratio_of(
    times: Sequence[Sequence[float]], base: Sequence[Sequence[float]], seed: int = 0
) -> Ratio:
    """The ratio of the times of two models, in seconds by pass and round, with a bootstrap
    interval.

    Rounds are compared one by one, so load on the machine that lasts for several rounds cancels
    out; the median over the rounds of a pass ignores single disturbances. The ratio is the
    geometric mean of the medians. For the interval, passes are drawn with replacement, and rounds
    within each of them (Davison and Hinkley, *Bootstrap Methods and their Application*, 1997,
    section 3.8: hierarchical data). Raises `ValueError` when the numbers of passes or rounds
    differ, or are 0.
    """
    if not times or [*map(len, times)] != [*map(len, base)] or not all(times):
        raise ValueError("both models need the same number of passes and of rounds, at least 1")
    passes = [
        np.log(np.asarray(rounds)) - np.log(np.asarray(base_rounds))
        for rounds, base_rounds in zip(times, base, strict=True)
    ]
    rng = np.random.default_rng(seed)
    # Medians of rounds drawn with replacement, of the shape (passes, passes of a draw, draws)
    medians = np.array(
        [[np.median(rng.choice(r, (_DRAWS, r.size)), axis=1) for _ in passes] for r in passes]
    )
    pass_draws = rng.integers(0, len(passes), (len(passes), _DRAWS))
    indices, draws = np.indices(pass_draws.shape)
    low, high = np.exp(np.percentile(medians[pass_draws, indices, draws].mean(axis=0), _TAILS))
    return Ratio(
        float(np.exp(np.mean([np.median(rounds) for rounds in passes]))),
        Interval(float(low), float(high)),
    )


@dataclass(frozen=True, slots=True)
class ModelTimes(JsonResult):
    """The times of one model.

    Attributes:
        label: the model.
        median: median time of a run, in seconds.
        best: time of the shortest run, in seconds.
        spread: interquartile range of the times of the rounds, in seconds.
        rounds: number of rounds.
        loading: time and memory to load it; ``None`` when they were not measured.
        ratio: its time divided by the first model's; ``None`` for the first model.
        comparison: the results compared with those of the first model; ``None`` when not compared.
    """

    __json__ = JsonForm(
        "model=label",
        member("median_ms=median", to_milliseconds, "median time of a run, in milliseconds."),
        member("min_ms=best", to_milliseconds, "time of the shortest run, in milliseconds."),
        member(
            "spread_ms=spread",
            to_milliseconds,
            "interquartile range of the times of the rounds, in milliseconds.",
        ),
        "rounds",
        member(
            "load_ms=loading.seconds",
            to_milliseconds,
            "time to create a session, in milliseconds; null when not measured.",
        ),
        "memory_bytes=loading.memory",
        *within("ratio", Ratio),
        member(
            "ratio.is_difference",
            description="whether the interval of the ratio excludes 1; null for the first model.",
        ),
        "comparison",
    )
    label: str
    median: float
    best: float
    spread: float
    rounds: int
    loading: Loading | None
    ratio: Ratio | None = None
    comparison: VerificationReport | None = None


_MIN_SPREAD: Final = 0.1  # of the median
_PRECISION: Final = 0.02  # precise ratios: half of the interval's width, as a share of the ratio
_MAX_ADVISED_SECONDS: Final = 7200.0  # of the longest measurement that is advised


@dataclass(frozen=True, slots=True)
class Latency(JsonResult):
    """The times of a model before and after an optimization.

    Attributes:
        provider: the execution provider.
        threads: number of threads; 0 for the default of ONNX Runtime.
        before: median time of a run of the original, in seconds.
        after: median time of a run of the result, in seconds.
        ratio: the quotient of these times.
        sizes: sizes of the symbolic dimensions.
        at: the times at each setting, if several were measured.
    """

    __json__ = JsonForm(
        "provider threads",
        member(
            "before_ms=before",
            to_milliseconds,
            "median time of a run of the original, in milliseconds.",
        ),
        member(
            "after_ms=after",
            to_milliseconds,
            "median time of a run of the result, in milliseconds.",
        ),
        *within("ratio", Ratio),
        "sizes",
        member("at", is_optional=True),
    )
    provider: str
    threads: int
    before: float
    after: float
    ratio: Ratio | None
    sizes: Mapping[str, int]
    at: tuple[Latency, ...]


@dataclass(frozen=True, slots=True)
class BenchReport(JsonResult):
    """The times of models that were run side by side.

    Attributes:
        models: the times of each model, in the order in which they were given. Of several settings,
            they are geometric means.
        sizes: sizes of the symbolic dimensions; those that all settings have.
        options: the options of the benchmark.
        refused: preferred sizes, with which the first model does not run.
        at: the report of each setting, if several were measured.
        machine: other work of the machine during the measurement, in words.
    """

    __json__ = JsonForm(
        member("provider=options.provider", description="the execution provider."),
        member(
            "threads=options.threads",
            description="number of threads; 0 for the default of ONNX Runtime.",
        ),
        member("level=options.level", description="level of ORT graph optimizations."),
        "sizes",
        member("assumptions=options.assume", description="assumptions that were given."),
        member(
            "models", description="the times of each model, in the order in which they were given."
        ),
        "disturbances",
        member("at", is_optional=True),
        name="Bench",
    )
    models: tuple[ModelTimes, ...]
    sizes: Mapping[str, int]
    options: BenchOptions
    refused: Mapping[str, int] = field(default_factory=dict)
    at: tuple[BenchReport, ...] = ()
    machine: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether no comparison with the first model found a difference."""
        return all(
            model.comparison is None or model.comparison.status != "different"
            for model in self.models
        )

    @property
    def settings(self) -> dict[str, BenchReport]:
        """The figures of each setting, by the sizes that distinguish it."""
        return {
            sizes_text(sizes): report
            for sizes, report in zip(self.options.at, self.at, strict=True)
        }

    def latency(self) -> Latency:
        """The times of the first model, before an optimization, and of the last one, after it."""
        options, before, after = self.options, self.models[0], self.models[-1]
        return Latency(
            options.provider,
            options.threads,
            before.median,
            after.median,
            after.ratio,
            self.sizes,
            tuple(report.latency() for report in self.at),
        )

    @property
    def disturbances(self) -> list[str]:
        """The disturbances of the measurement, and last a way to a precise measurement."""
        figures = (model for setting in self.at or (self,) for model in setting.models)
        spread = max(model.spread / model.median for model in figures)
        spreads = [f"times spread by {spread:.0%} of the median"] if spread >= _MIN_SPREAD else []
        causes = [*self.machine, *spreads]
        return [*causes, _advice(self)] if causes else []


def _advice(report: BenchReport) -> str:
    """A way to more precise ratios, in words: an interval narrows with the root of the time."""
    ratios = (model.ratio for model in report.models if model.ratio is not None)
    errors = [(ratio.interval.high - ratio.interval.low) / 2 / ratio.value for ratio in ratios]
    if not errors:
        return "precise times need an idle machine"
    error = max(errors)
    if error <= _PRECISION:
        return f"ratios are still precise to {error:.1%}"
    seconds = report.options.seconds * (error / _PRECISION) ** 2
    text = f"ratios are precise to {error:.1%}"
    if seconds > _MAX_ADVISED_SECONDS:
        return f"{text} only; measure again on an idle machine"
    return f"{text}; an idle machine or `xopt bench --seconds {seconds:.0f}` gives {_PRECISION:.1%}"


def joined(reports: Sequence[BenchReport], options: BenchOptions) -> BenchReport:
    """The report of several settings."""
    models = tuple(
        _mean(times) for times in zip(*(report.models for report in reports), strict=True)
    )
    sizes = common_sizes(report.sizes for report in reports)
    first = reports[0]
    return BenchReport(models, sizes, options, first.refused, tuple(reports), first.machine)


def common_sizes(settings: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sizes that all settings have."""
    first, *others = settings
    return {
        name: size
        for name, size in first.items()
        if all(sizes.get(name) == size for sizes in others)
    }


def _mean(times: Sequence[ModelTimes]) -> ModelTimes:
    """Geometric means over settings; the largest spread, all rounds, and the worst comparison."""
    ratios = [t.ratio for t in times if t.ratio is not None]
    comparisons = [t.comparison for t in times if t.comparison is not None]
    return replace(
        times[0],
        median=geometric_mean(t.median for t in times),
        best=geometric_mean(t.best for t in times),
        spread=max(t.spread for t in times),
        rounds=sum(t.rounds for t in times),
        ratio=mean_ratio(ratios) if ratios else None,
        comparison=min(comparisons, key=lambda comparison: comparison.ok, default=None),
    )


def milliseconds(seconds: float) -> str:
    """A time with three digits or more."""
    value = 1e3 * seconds
    return (
        f"{value:.0f} ms"
        if value >= 1000
        else f"{value:.{1 if value >= 100 else 2 if value >= 10 else 3}f} ms"
    )


def circumstances(report: BenchReport) -> str:
    """Provider, threads and sizes of a measurement."""
    options = report.options
    threads = (
        counted(options.threads, "thread") if options.threads else "threads chosen by onnxruntime"
    )
    return ", ".join(
        filter(
            None, (options.provider, threads, chosen_sizes(report.sizes, report.refused, options))
        )
    )


def chosen_sizes(
    sizes: Mapping[str, int], refused: Mapping[str, int], options: BenchOptions
) -> str:
    """The sizes of dynamic dimensions, in words.

    If the caller did not give them, the text also has the reason for the sizes, and the option that
    changes them.
    """
    is_guess = (
        not sizes.keys() <= options.dims.keys() and not options.feeds and options.test_data is None
    )
    preferred = sizes_text(
        {name: size for name, size in refused.items() if sizes.get(name, size) != size}
    )
    reason = f"it does not run with {preferred}; " if preferred else ""
    advice = Advice("dim", "NAME=SIZE", "sets others")
    text = sizes_text(sizes) + (f" ({reason}{advice})" if is_guess else "")
    settings = (
        f"the geometric mean of {'; '.join(map(sizes_text, options.at))}" if options.at else ""
    )
    return ", ".join(filter(None, (text, settings)))
