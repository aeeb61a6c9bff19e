"""The report of a measurement, and its figures as text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean
from typing import Any

from xoptim.bench.loading import Loading
from xoptim.bench.options import BenchOptions
from xoptim.bench.rounds import Ratio, mean_ratio, ratio_json
from xoptim.facts.words import counted
from xoptim.validate.report import ValidationReport


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """The figures of one model."""

    label: str  # its name
    median: float  # seconds of a run: the median over all rounds
    best: float  # seconds of the shortest run
    spread: float  # seconds between the first and the third quartile of the rounds
    rounds: int  # number of rounds
    loading: Loading | None  # time and memory to load it, ``None`` when they were not measured
    ratio: Ratio | None = None  # its time divided by the first model's, ``None`` for the first model
    # Its results compared with the first model's, ``None`` for the first model, or when nothing was compared
    comparison: ValidationReport | None = None

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON values, times in milliseconds."""
        ratio, comparison, loading = self.ratio, self.comparison, self.loading
        return {
            "model": self.label,
            "median_ms": 1e3 * self.median,
            "min_ms": 1e3 * self.best,
            "spread_ms": 1e3 * self.spread,
            "rounds": self.rounds,
            "load_ms": None if loading is None else 1e3 * loading.seconds,
            "memory_bytes": None if loading is None else loading.memory,
            **ratio_json(ratio),
            "is_difference": None if ratio is None else ratio.is_difference,
            "comparison": None if comparison is None else comparison.to_json(),
        }


@dataclass(frozen=True, slots=True)
class BenchReport:
    """The figures of models that were run side by side, in order: geometric means where there are several settings."""

    models: tuple[ModelTimes, ...]
    sizes: Mapping[str, int]  # of open dimensions; where there are several settings, the sizes that all of them have
    options: BenchOptions
    refused: Mapping[str, int] = field(default_factory=dict)  # preferred sizes, with which the first model does not run
    at: "tuple[BenchReport, ...]" = ()  # the figures of each setting, where there are several

    @property
    def is_equal(self) -> bool:
        """Whether no model was found to compute something else than the first one."""
        return all(each.comparison is None or each.comparison.status != "different" for each in self.models)

    @property
    def settings(self) -> "dict[str, BenchReport]":
        """The figures of each setting, by the sizes that distinguish it."""
        return {sizes_text(more): report for more, report in zip(self.options.at, self.at, strict=True)}

    def latency(self) -> dict[str, Any]:
        """The first model against the last one, as JSON values: for a model before and after an optimization."""
        before, after = self.models[0], self.models[-1]
        return {
            "provider": self.options.provider,
            "threads": self.options.threads,
            "before_ms": 1e3 * before.median,
            "after_ms": 1e3 * after.median,
            **ratio_json(after.ratio),
            "sizes": dict(self.sizes),
            **({"at": [each.latency() for each in self.at]} if self.at else {}),
        }

    def to_json(self) -> dict[str, Any]:
        """All figures as JSON values."""
        return {
            "provider": self.options.provider,
            "threads": self.options.threads,
            "level": self.options.level,
            "sizes": dict(self.sizes),
            "models": [each.to_json() for each in self.models],
            **({"at": [each.to_json() for each in self.at]} if self.at else {}),
        }


def joined(reports: Sequence[BenchReport], options: BenchOptions) -> BenchReport:
    """The report of several settings."""
    models = tuple(_mean(each) for each in zip(*(report.models for report in reports), strict=True))
    sizes = common_sizes(report.sizes for report in reports)
    return BenchReport(models, sizes, options, reports[0].refused, tuple(reports))


def common_sizes(settings: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sizes that all settings have."""
    first, *others = settings
    return {name: size for name, size in first.items() if all(each.get(name) == size for each in others)}


def _mean(its: Sequence[ModelTimes]) -> ModelTimes:
    """Geometric means of the figures of one model; the worst comparison."""
    ratios = [each.ratio for each in its if each.ratio is not None]
    comparisons = [each.comparison for each in its if each.comparison is not None]
    return replace(
        its[0],
        median=geometric_mean(each.median for each in its),
        best=geometric_mean(each.best for each in its),
        spread=max(each.spread for each in its),
        rounds=sum(each.rounds for each in its),
        ratio=mean_ratio(ratios) if ratios else None,
        comparison=min(comparisons, key=lambda each: each.ok, default=None),
    )


def milliseconds(seconds: float) -> str:
    """A time with three digits or more."""
    value = 1e3 * seconds
    return f"{value:.0f} ms" if value >= 1000 else f"{value:.{1 if value >= 100 else 2 if value >= 10 else 3}f} ms"


def circumstances(report: BenchReport) -> str:
    """Provider, threads and sizes of a measurement."""
    options = report.options
    threads = counted(options.threads, "thread") if options.threads else "threads chosen by onnxruntime"
    return ", ".join(filter(None, (options.provider, threads, chosen_sizes(report.sizes, report.refused, options))))


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Sizes by name."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def chosen_sizes(sizes: Mapping[str, int], refused: Mapping[str, int], options: BenchOptions) -> str:
    """The sizes of open dimensions; where they were not given, why they are these, and the option that changes them."""
    guessed = not sizes.keys() <= options.dims.keys() and not options.feeds and options.test_data is None
    larger = sizes_text({name: size for name, size in refused.items() if sizes.get(name, size) != size})
    reason = f"it does not run with {larger}; " if larger else ""
    chosen = sizes_text(sizes) + (f" ({reason}--dim NAME=SIZE sets others)" if guessed else "")
    several = f"the geometric mean of {'; '.join(map(sizes_text, options.at))}" if options.at else ""
    return ", ".join(filter(None, (chosen, several)))


def bytes_text(count: int) -> str:
    """A number of bytes with its unit."""
    return with_unit(count, ("B", "kB", "MB", "GB"))


def with_unit(number: float, units: Sequence[str]) -> str:
    """A number with one of some units, each a thousand times the one before; the first counts whole things."""
    for unit in units:
        if number < 1000 or unit == units[-1]:
            break
        number /= 1000
    return f"{number:.{0 if unit == units[0] else 1}f} {unit}".rstrip()
