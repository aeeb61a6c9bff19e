"""Figures as text."""

from __future__ import annotations

from xoptim.bench.report import BenchReport
from xoptim.facts.words import counted


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
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
