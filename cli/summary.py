"""The summary of an optimization, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from xoptim import Culprit, Exactness, Repetition, Unfolded
from xoptim.bench import BenchReport
from xoptim.bench.report import bytes_text, circumstances, milliseconds
from xoptim.diagnose.each import EachCheck
from xoptim.diagnose.hints import OpsetHint, OptionHint
from xoptim.tuning import SpeedCheck
from xoptim.validate import ValidationReport

from .files import STANDARD_OUTPUT, readable
from .tables import Rows


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
        validate_seconds: the comparison with the original.
        opsets: operator set of ONNX before and after, 0 for none.
        reports: validation on each provider; empty with ``--no-verify``.
        unchecked: operators of the result that a pattern wrote and ``onnx.checker`` does not support.
        written: files written.
        needed: files of another model whose weights the result refers to (``--share-weights``).
        left_out: the rewrites that were left out because they made the model compute something else.
        each: the check of each rewrite by itself, if it was made.
        latency: the times before and after, if they were measured.
        unfolded: what was left unfolded because of its size, if anything.
        hints: options that would make the model smaller.
        repetitions: the blocks of ``--outline``.
        speed: the measurements of ``--only-if-faster``, and the patterns that it left out.
        page: the file of ``--report``.
        unused_inputs: inputs of the result that nothing reads.
        dropped_inputs: inputs that ``--drop-unused-inputs`` removed.
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
    validate_seconds: float = 0.0
    opsets: tuple[int, int] = (0, 0)
    bytes_after: int | None = None
    reports: list[ValidationReport] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    left_out: list[Culprit] = field(default_factory=list)
    each: EachCheck | None = None
    latency: BenchReport | None = None
    unfolded: Unfolded | None = None
    hints: list[OpsetHint | OptionHint] = field(default_factory=list)
    speed: SpeedCheck | None = None
    repetitions: tuple[Repetition, ...] = ()
    page: Path | None = None
    unused_inputs: tuple[str, ...] = ()
    dropped_inputs: tuple[str, ...] = ()

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
            "model": readable(str(self.model)),
            "written": [str(path) for path in self.written],
            "needed": self.needed,
            "report": None if self.page is None else str(self.page),
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
            "validate_seconds": self.validate_seconds,
            "validation": [report.to_json() for report in self.reports],
            "left_out": [culprit.to_json() for culprit in self.left_out],
            "each": None if self.each is None else self.each.to_json(),
            "latency": None if self.latency is None else self.latency.latency(),
            "unfolded": None if self.unfolded is None else self.unfolded.to_json(),
            "hints": [hint.to_json() for hint in self.hints],
            "unused_inputs": list(self.unused_inputs),
            "dropped_inputs": list(self.dropped_inputs),
            "repetitions": [each.to_json() for each in self.repetitions],
            "only_if_faster": None if self.speed is None else self.speed.to_json(),
        }


_UNWRAPPED: Final = 1 << 16
"""Columns of output that is not a terminal."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command (rich would return 1, as for models that differ)."""
        raise BrokenPipeError


def open_console(*, to_stderr: bool = False) -> Console:
    """Standard output, or standard error, without markup, since names may look like it. Piped lines are not wrapped."""
    width = None if Console(stderr=to_stderr).is_terminal else _UNWRAPPED
    return _Console(markup=False, emoji=False, soft_wrap=True, width=width, stderr=to_stderr)


def print_summary(summary: Summary, *, to_stderr: bool = False, verbose: bool = False) -> None:
    """Print the tables and the verdict; ``verbose`` adds a line for each output that a note only counts."""
    console = open_console(to_stderr=to_stderr)
    _operators(summary).print(console)
    if summary.applied:
        console.print()
        _patterns(summary).print(console)
    if summary.opsets[0] != summary.opsets[1]:
        console.print(f"opset       {summary.opsets[0]} → {summary.opsets[1]}")
    size = "" if summary.bytes_after is None else f" → {bytes_text(summary.bytes_after)}"
    console.print(f"size        {bytes_text(summary.bytes_before)}{size}")
    times = {"loading": summary.load_seconds, "optimizing": summary.optimize_seconds}
    if summary.reports:
        times["validating"] = summary.validate_seconds
    console.print(f"time        {', '.join(f'{step} {seconds:.2f} s' for step, seconds in times.items())}", highlight=False)
    for report in summary.reports:
        # The reason of any other verdict is the last line of the command, on standard error.
        verdict = report.summary() if report.ok else f"{report.status}; the reason is below"
        console.print(f"validation  {', '.join(report.providers)}: {verdict}")
        for note in (*report.notes, *(report.rounded if verbose else ())):
            console.print(f"            {note}")
        largest = report.largest
        if largest is not None and largest.tolerance is not None:
            rtol, atol = largest.tolerance
            console.print(f"tolerance   rtol {rtol:g}, atol {atol:g} (patterns used are {summary.exactness})")
    if not summary.reports:
        console.print("validation  not asked for")
    for remark in _remarks(summary):
        console.print(remark, highlight=False)
    written = ", ".join("standard output" if path == STANDARD_OUTPUT else str(path) for path in summary.written) or "nothing"
    if summary.page is not None:
        console.print(f"report      {summary.page}")
    console.print(f"written     {written}")
    if summary.needed:
        console.print(f"needs       {', '.join(summary.needed)}, in the same folder: weights are shared")


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
    if summary.unfolded is not None:
        left = summary.unfolded
        names = ", ".join(f"{count} {name}" for name, count in left.operators.items())
        which = "it" if sum(left.operators.values()) == 1 else "them"
        sizes = f"would add {bytes_text(left.size)}; --max-growth allows {bytes_text(left.allowed)}"
        yield f"unfolded    {names}: folding {which} {sizes}"
    if summary.unchecked:
        yield f"checker     onnx.checker does not know {', '.join(summary.unchecked)}, which onnxruntime runs"
    if summary.dropped_inputs:
        yield f"dropped     {', '.join(summary.dropped_inputs)}: nothing reads {_them(summary.dropped_inputs)}"
    if summary.unused_inputs:
        names = ", ".join(summary.unused_inputs)
        yield f"hint        nothing reads {names}; --drop-unused-inputs removes {_them(summary.unused_inputs)}"
    for hint in summary.hints:
        yield f"hint        {hint}"


def _them(names: tuple[str, ...]) -> str:
    return "it" if len(names) == 1 else "them"


def _operators(summary: Summary) -> Rows:
    rows = Rows("operator", "before", "after", right={"before", "after"})
    names = sorted({*summary.before, *summary.after}, key=lambda n: (-summary.before.get(n, 0), n))
    for name in names:
        before, after = summary.before.get(name, 0), summary.after.get(name, 0)
        style = "green" if after < before else "yellow" if after > before else ""
        rows.add(name, str(before or ""), str(after or ""), style=style)
    rows.add("all nodes", str(sum(summary.before.values())), str(sum(summary.after.values())), style="bold")
    return rows


def _patterns(summary: Summary) -> Rows:
    rows = Rows("pattern", "applied", right={"applied"})
    for name, count in sorted(summary.applied.items(), key=lambda item: (-item[1], item[0])):
        rows.add(name, str(count))
    return rows
