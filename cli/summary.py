"""The summary of an optimization, for people and for machines."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from xoptim.bench import BenchReport
from xoptim.bench.report import bytes_text, circumstances, milliseconds
from xoptim.diagnose.hints import OpsetHint, OptionHint
from xoptim.diagnose.report import OptimizationReport
from xoptim.optimizing.proof import Proof
from xoptim.precision.lowering import Lowered
from xoptim.tuning import SpeedCheck

from .changes import print_changes
from .files import STANDARD_OUTPUT, readable
from .tables import open_console

_HINTS: Final = 2


@dataclass(slots=True)
class Summary:
    """The summary that is printed at the end."""

    model: Path  # the input
    target: Path  # the file of the result
    proof: Proof  # the optimized model, and its comparison
    report: OptimizationReport  # of the optimization
    after: dict[str, int]  # number of nodes by operator of the result, subgraphs included
    unchecked: list[str]  # operators of the result that a pattern wrote and ``onnx.checker`` does not support
    bytes_before: int  # size of the input
    bytes_after: int | None = None  # size of the result, ``None`` when there is none
    written: list[Path] = field(default_factory=list)  # files written
    # files of another model whose weights the result refers to (``--share-weights``)
    needed: list[str] = field(default_factory=list)
    latency: BenchReport | None = None  # the times before and after, if they were measured
    hints: list[OpsetHint | OptionHint] = field(default_factory=list)  # options that would make the model smaller
    speed: SpeedCheck | None = None  # the measurements of ``--only-if-faster``, and the patterns that it left out
    page: Path | None = None  # the file of ``--report``
    lowered: Lowered | None = None  # the choice of ``--precision``, if it was asked for

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions beside the default set."""
        return self.proof.builder.model.assumptions.texts

    @property
    def opsets(self) -> tuple[int, int]:
        """The operator set of ONNX before and after, 0 for none."""
        return self.proof.opset_before, self.proof.builder.model.opsets.get("", 0)

    def refusal(self, strict: bool) -> str:
        """The reason not to write the result, else empty; ``strict`` also refuses a model that cannot be validated."""
        names = ", ".join(self.report.applied) or "none"
        if self.lowered is not None and self.lowered.fault:
            return f"{self.lowered.fault}; nothing was written"
        for report in self.proof.reports:
            if report.status == "different":
                return f"{report.summary()}; nothing was written; patterns applied: {names}"
            if strict and not report.ok:
                return f"{report.summary()}; nothing was written because of --strict"
        each = self.proof.each
        return f"{each.disagreements[0]}; nothing was written" if each is not None and each.disagreements else ""

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        proof, report = self.proof, self.report
        return {
            "model": readable(str(self.model)),
            "written": [str(path) for path in self.written],
            "needed": self.needed,
            "report": None if self.page is None else str(self.page),
            "nodes_before": sum(proof.before.values()),
            "nodes_after": sum(self.after.values()),
            "operators_before": proof.before,
            "operators_after": self.after,
            "assumptions": list(self.assumed),
            "opset_before": self.opsets[0],
            "opset_after": self.opsets[1],
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "patterns": report.applied,
            "exactness": report.exactness,
            "unchecked_operators": self.unchecked,
            "load_seconds": proof.load_seconds,
            "optimize_seconds": proof.optimize_seconds,
            "validate_seconds": proof.validate_seconds,
            "validation": [each.to_json() for each in proof.reports],
            "left_out": [culprit.to_json() for culprit in proof.left_out],
            "each": None if proof.each is None else proof.each.to_json(),
            "latency": None if self.latency is None else self.latency.latency(),
            "unfolded": None if report.unfolded is None else report.unfolded.to_json(),
            "hints": [hint.to_json() for hint in self.hints],
            "unused_inputs": list(report.unused_inputs),
            "dropped_inputs": list(report.dropped_inputs),
            "repetitions": [each.to_json() for each in report.repetitions],
            "precision": None if self.lowered is None else self.lowered.to_json(),
            "only_if_faster": None if self.speed is None else self.speed.to_json(),
        }


def print_summary(summary: Summary, *, to_stderr: bool = False, verbose: bool = False) -> None:
    """Print the figures and the verdict.

    ``verbose`` adds a line for each operator, for each pattern, for each further hint, and for each output that a note counts.
    """
    console = open_console(to_stderr=to_stderr)
    print_changes(console, Counter(summary.proof.before), Counter(summary.after), summary.report.applied, verbose=verbose)
    if summary.opsets[0] != summary.opsets[1]:
        console.print(f"opset       {summary.opsets[0]} → {summary.opsets[1]}")
    size = "" if summary.bytes_after is None else f" → {bytes_text(summary.bytes_after)}"
    console.print(f"size        {bytes_text(summary.bytes_before)}{size}")
    times = {"loading": summary.proof.load_seconds, "optimizing": summary.proof.optimize_seconds}
    if summary.proof.reports:
        times["validating"] = summary.proof.validate_seconds
    console.print(f"time        {', '.join(f'{step} {seconds:.2f} s' for step, seconds in times.items())}", highlight=False)
    for report in summary.proof.reports:
        # The reason of any other verdict is the last line of the command, on standard error.
        verdict = report.summary() if report.ok else f"{report.status}; the reason is below"
        console.print(f"validation  {', '.join(report.providers)}: {verdict}")
        for note in (*report.notes, *(report.rounded if verbose else ())):
            console.print(f"            {note}")
        largest = report.largest
        if largest is not None and largest.tolerance is not None:
            rtol, atol = largest.tolerance
            console.print(f"tolerance   rtol {rtol:g}, atol {atol:g} (patterns used are {summary.report.exactness})")
    if not summary.proof.reports:
        console.print("validation  not asked for")
    for remark in (*_assumed(summary), *_remarks(summary), *_hints(summary, verbose=verbose)):
        console.print(remark, highlight=False)
    written = ", ".join("standard output" if path == STANDARD_OUTPUT else str(path) for path in summary.written) or "nothing"
    if summary.page is not None:
        console.print(f"report      {summary.page}")
    console.print(f"written     {written}")
    if summary.needed:
        console.print(f"needs       {', '.join(summary.needed)}, in the same folder: weights are shared")


def _assumed(summary: Summary) -> Iterator[str]:
    if summary.assumed:
        yield f"assumed     {', '.join(summary.assumed)}"
    if summary.report.unguarded:
        yield f"unguarded   {', '.join(summary.report.unguarded)}: standard operators cannot check it"


def _remarks(summary: Summary) -> Iterator[str]:
    """Lines about measurements, rewrites that were left out, and other findings."""
    if summary.proof.each is not None:
        yield f"rewrites    {summary.proof.each.summary()}"
    if summary.lowered is not None:
        yield from precision_lines(summary.lowered)
    if summary.latency is not None:
        yield f"latency     {_times(summary.latency)}; {circumstances(summary.latency)}"
        for label, report in summary.latency.settings.items():
            yield f"            {label}: {_times(report)}"
    if summary.speed is not None:
        yield f"speed       {summary.speed.summary()}"
    for each in summary.report.repetitions:
        yield f"repeats     {each}"
    for culprit in summary.proof.left_out:
        yield f"left out    {culprit}"
    if summary.report.unfolded is not None:
        left = summary.report.unfolded
        names = ", ".join(f"{count} {name}" for name, count in left.operators.items())
        which = "it" if sum(left.operators.values()) == 1 else "them"
        sizes = f"would add {bytes_text(left.size)}; --max-growth allows {bytes_text(left.allowed)}"
        yield f"unfolded    {names}: folding {which} {sizes}"
    if summary.unchecked:
        yield f"checker     onnx.checker does not know {', '.join(summary.unchecked)}, which onnxruntime runs"
    if summary.report.dropped_inputs:
        yield f"dropped     {', '.join(summary.report.dropped_inputs)}: nothing reads {_them(summary.report.dropped_inputs)}"
    if summary.report.unused_inputs:
        names = ", ".join(summary.report.unused_inputs)
        yield f"hint        nothing reads {names}; --drop-unused-inputs removes {_them(summary.report.unused_inputs)}"


def _times(report: BenchReport) -> str:
    before, after = report.models
    return f"{milliseconds(before.median)} → {milliseconds(after.median)}: {after.ratio}"


def _hints(summary: Summary, *, verbose: bool) -> Iterator[str]:
    shown = summary.hints if verbose else summary.hints[:_HINTS]
    for hint in shown:
        yield f"hint        {hint}"
    if len(shown) < len(summary.hints):
        yield f"            -v shows all {len(summary.hints)} hints"


def precision_lines(lowered: Lowered) -> Iterator[str]:
    """The lines about fewer bits: the choice, its error, the proof."""
    yield f"precision   {lowered.summary()}"
    for report in lowered.structure:
        yield f"            with the rounded numbers, {lowered.computed} compute the same as floats: {report.summary()}"
    floats = lowered.proof.builder.count_types().get("Conv", 0) if lowered.options.scheme == "int8" else 0
    if lowered.samples.are_random and floats:
        yield f"            {floats} Conv in floats: only samples tell the ranges of what they read"
    if lowered.samples.are_random:
        yield "            random values say little about yours: give some with --feeds FILE.npz or a folder of them"


def _them(names: tuple[str, ...]) -> str:
    return "it" if len(names) == 1 else "them"
