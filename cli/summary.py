"""The summary of an optimization, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from xoptim import Culprit, Exactness, Repetition
from xoptim.bench import BenchReport
from xoptim.diagnose.each import EachCheck
from xoptim.diagnose.hints import OpsetHint
from xoptim.tune import SpeedCheck
from xoptim.validate import ValidationReport

from .figures import bytes_text, circumstances, milliseconds


@dataclass(slots=True)
class Summary:
    """The summary that is printed at the end.

    Attributes:
        model: the input.
        target: the file of the result.
        before: number of nodes by operator, subgraphs included.
        after: the same afterwards.
        bytes_before: size of the input file.
        bytes_after: size of the result, ``None`` when there is none.
        applied: number of applications by pattern.
        exactness: weakest promise of these patterns.
        load_seconds: reading and shape inference.
        optimize_seconds: rewriting and export.
        opsets: operator set of ONNX before and after, 0 for none.
        reports: validation on each provider; empty with ``--no-verify``.
        unchecked: operators of the result that a pattern wrote and ``onnx.checker`` does not support.
        written: files written.
        left_out: the rewrites that were left out because they made the model compute something else.
        each: the check of each rewrite by itself, if it was made.
        latency: the times before and after, if they were measured.
        hint: patterns that would apply in a newer operator set.
        repetitions: the blocks of ``--outline`` and ``--roll``.
        speed: the measurements of ``--only-if-faster``, and the patterns that it left out.
    """

    model: Path
    target: Path
    before: dict[str, int]
    after: dict[str, int]
    bytes_before: int
    applied: dict[str, int]
    exactness: Exactness
    load_seconds: float
    optimize_seconds: float
    opsets: tuple[int, int] = (0, 0)
    bytes_after: int | None = None
    reports: list[ValidationReport] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    left_out: list[Culprit] = field(default_factory=list)
    each: EachCheck | None = None
    latency: BenchReport | None = None
    hint: OpsetHint | None = None
    speed: SpeedCheck | None = None
    repetitions: tuple[Repetition, ...] = ()

    def refusal(self, strict: bool) -> str:
        """The reason why the result must not be written, empty when it may be.

        Args:
            strict: whether a model that cannot be validated is refused too.
        """
        names = ", ".join(self.applied) or "none"
        for report in self.reports:
            if report.status == "different":
                return f"{report.summary()}; nothing was written; patterns applied: {names}"
            if strict and not report.ok:
                return f"{report.summary()}; nothing was written because of --strict"
        if self.each is not None and self.each.disagreements:
            return f"{self.each.disagreements[0]}; nothing was written"
        return ""

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {
            "model": str(self.model),
            "written": [str(path) for path in self.written],
            "nodes_before": sum(self.before.values()),
            "nodes_after": sum(self.after.values()),
            "operators_before": self.before,
            "operators_after": self.after,
            "opset_before": self.opsets[0],
            "opset_after": self.opsets[1],
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "patterns": self.applied,
            "exactness": self.exactness,
            "unchecked_operators": self.unchecked,
            "load_seconds": self.load_seconds,
            "optimize_seconds": self.optimize_seconds,
            "validation": [report.to_json() for report in self.reports],
            "left_out": [culprit.to_json() for culprit in self.left_out],
            "each": None if self.each is None else self.each.to_json(),
            "latency": None if self.latency is None else self.latency.latency(),
            "hints": [] if self.hint is None else [self.hint.to_json()],
            "repetitions": [each.to_json() for each in self.repetitions],
            "only_if_faster": None if self.speed is None else self.speed.to_json(),
        }


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command (rich would return 1, as for models that differ)."""
        raise BrokenPipeError


def open_console() -> Console:
    """Standard output without markup, since names may look like it. Piped lines are not wrapped."""
    width = None if Console().is_terminal else 240
    return _Console(markup=False, emoji=False, soft_wrap=True, width=width)


def print_summary(summary: Summary) -> None:
    """Print the tables and the verdict."""
    console = open_console()
    console.print(_operators(summary))
    if summary.applied:
        console.print(_patterns(summary))
    if summary.opsets[0] != summary.opsets[1]:
        console.print(f"opset       {summary.opsets[0]} → {summary.opsets[1]}")
    size = "" if summary.bytes_after is None else f" → {bytes_text(summary.bytes_after)}"
    console.print(f"size        {bytes_text(summary.bytes_before)}{size}")
    console.print(f"time        loading {summary.load_seconds:.2f} s, optimizing {summary.optimize_seconds:.2f} s")
    for report in summary.reports:
        console.print(f"validation  {', '.join(report.providers)}: {report.summary()}")
        for note in report.notes:
            console.print(f"            {note}")
        largest = report.largest
        if largest is not None and largest.tolerance is not None:
            rtol, atol = largest.tolerance
            console.print(f"tolerance   rtol {rtol:g}, atol {atol:g} (patterns used are {summary.exactness})")
    if not summary.reports:
        console.print("validation  not asked for")
    for remark in _remarks(summary):
        console.print(remark, highlight=False)
    written = ", ".join(map(str, summary.written)) or "nothing"
    console.print(f"written     {written}")


def _remarks(summary: Summary) -> Iterator[str]:
    """Lines about measurements, rewrites that were left out, and other findings."""
    if summary.each is not None:
        yield f"rewrites    {summary.each.summary()}"
    if summary.latency is not None:
        before, after = summary.latency.models
        times = f"{milliseconds(before.median)} → {milliseconds(after.median)}"
        yield f"latency     {times}: {after.ratio}; {circumstances(summary.latency)}"
    if summary.speed is not None:
        yield f"speed       {summary.speed.summary()}"
    for each in summary.repetitions:
        yield f"repeats     {each}"
    for culprit in summary.left_out:
        yield f"left out    {culprit}"
    if summary.unchecked:
        yield f"checker     onnx.checker does not know {', '.join(summary.unchecked)}, which onnxruntime runs"
    if summary.hint is not None:
        yield f"hint        {summary.hint}"


def _operators(summary: Summary) -> Table:
    table = Table("operator", box=None, pad_edge=False)
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    names = sorted({*summary.before, *summary.after}, key=lambda n: (-summary.before.get(n, 0), n))
    for name in names:
        before, after = summary.before.get(name, 0), summary.after.get(name, 0)
        style = "green" if after < before else "yellow" if after > before else ""
        table.add_row(name, str(before or ""), str(after or ""), style=style)
    table.add_section()
    table.add_row("all nodes", str(sum(summary.before.values())), str(sum(summary.after.values())), style="bold")
    return table


def _patterns(summary: Summary) -> Table:
    table = Table("\npattern", box=None, pad_edge=False)
    table.add_column("\napplied", justify="right")
    for name, count in sorted(summary.applied.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(name, str(count))
    return table
