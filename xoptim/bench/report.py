"""The report of a measurement, and its figures as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xoptim.bench.loading import Loading
from xoptim.bench.options import BenchOptions
from xoptim.bench.rounds import Ratio, ratio_json
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
    """The figures of models that were run side by side, in the order given, with the sizes of open dimensions."""

    models: tuple[ModelTimes, ...]
    sizes: dict[str, int]
    options: BenchOptions

    @property
    def is_equal(self) -> bool:
        """Whether no model was found to compute something else than the first one."""
        return all(each.comparison is None or each.comparison.status != "different" for each in self.models)

    def latency(self) -> dict[str, Any]:
        """The first model against the last one, as JSON values: for a model before and after an optimization."""
        before, after = self.models[0], self.models[-1]
        return {
            "provider": self.options.provider,
            "threads": self.options.threads,
            "before_ms": 1e3 * before.median,
            "after_ms": 1e3 * after.median,
            **ratio_json(after.ratio),
            "sizes": self.sizes,
        }

    def to_json(self) -> dict[str, Any]:
        """All figures as JSON values."""
        return {
            "provider": self.options.provider,
            "threads": self.options.threads,
            "level": self.options.level,
            "sizes": self.sizes,
            "models": [each.to_json() for each in self.models],
        }


def milliseconds(seconds: float) -> str:
    """A time with three digits or more."""
    value = 1e3 * seconds
    return f"{value:.0f} ms" if value >= 1000 else f"{value:.{1 if value >= 100 else 2 if value >= 10 else 3}f} ms"


def circumstances(report: BenchReport) -> str:
    """Provider, threads and sizes of a measurement."""
    options = report.options
    threads = counted(options.threads, "thread") if options.threads else "threads chosen by onnxruntime"
    sizes = ", ".join(f"{name}={size}" for name, size in report.sizes.items())
    guessed = not report.sizes.keys() <= options.dims.keys() and not options.feeds and options.test_data is None
    chosen = " (not given: --dim NAME=VALUE)" if guessed else ""
    return f"{options.provider}, {threads}" + (f", {sizes}{chosen}" if sizes else "")


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
