"""The summary of an optimization, for people and for machines: how the numbers of nodes changed, by which patterns."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from xoptim import database
from xoptim.bench import BenchReport
from xoptim.bench.rounds import bytes_text, circumstances, milliseconds
from xoptim.diagnose.hints import OpsetHint, OptionHint
from xoptim.diagnose.report import OptimizationReport
from xoptim.optimizing.proof import Proof
from xoptim.precision.lowering import Lowered
from xoptim.tuning import SpeedCheck

from .files import STANDARD_OUTPUT, readable
from .tables import Rows, open_console

_SHOWN: Final = 6
"""Operators whose numbers are shown in a line, those that change most."""
_HARDLY: Final = 0.02
"""Part of the nodes below which as few nodes and rewrites are hardly a change."""
_NAMED: Final = 6
"""Patterns that are named in a line; more are counted by family."""


def print_changes(
    console: Console, before: Counter[str], after: Counter[str], applied: Mapping[str, int], *, verbose: bool = False
) -> None:
    """Print the numbers of nodes and of rewrites: two lines, or with ``verbose`` a table of operators and one of patterns.

    Args:
        console: to print to.
        before: numbers of nodes by operator.
        after: the same of the result.
        applied: numbers of rewrites by pattern.
        verbose: whether to print tables.
    """
    if not verbose:
        for line in _lines(before, after, applied):
            console.print(line, highlight=False)
        return
    _operators(before, after).print(console)
    if applied:
        console.print()
        _patterns(applied).print(console)


def _lines(before: Counter[str], after: Counter[str], applied: Mapping[str, int]) -> Iterator[str]:
    total = before.total(), after.total()
    if before == after and not applied:
        yield f"nodes       {total[0]}, as before: no pattern applies"
        return
    changed = [name for name in before | after if before[name] != after[name]]
    changed.sort(key=lambda name: (-abs(before[name] - after[name]), name))
    texts = [f"{name} {before[name]} → {after[name]}" for name in changed[:_SHOWN]]
    texts += [f"{len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else []
    part = (total[0] - total[1]) / total[0] if total[0] else 0.0
    if max(abs(part), sum(applied.values()) / max(total)) < _HARDLY:
        texts += [f"{name} {count} times" if count > 1 else name for name, count in _most_first(applied)]
        yield f"nodes       {total[0]} → {total[1]}, hardly a change: {', '.join(texts)}"
        return
    more = f", {abs(part):.0%} {'fewer' if part > 0 else 'more'}" if part else ""
    yield f"nodes       {total[0]} → {total[1]}{more}{': ' if texts else ''}{', '.join(texts)}"
    if applied and len(applied) <= _NAMED:
        yield f"patterns    {', '.join(f'{name} {count}' for name, count in _most_first(applied))}"
    elif applied:
        texts = [f"{family} {count}" for family, count in _by_family(applied).most_common()]
        numbers = f"{sum(applied.values())} rewrites by {len(applied)} patterns (-v names them)"
        yield f"patterns    {numbers}: {', '.join(texts)}"


def _by_family(applied: Mapping[str, int]) -> Counter[str]:
    known = {entry.item.name(): entry.item.family() for entry in database().entries()}
    found: Counter[str] = Counter()
    for name, count in applied.items():
        found[known.get(name, "rules")] += count
    return found


def _operators(before: Counter[str], after: Counter[str]) -> Rows:
    rows = Rows("operator", "before", "after", right={"before", "after"})
    for name in sorted(before | after, key=lambda name: (-before[name], name)):
        style = "green" if after[name] < before[name] else "yellow" if after[name] > before[name] else ""
        rows.add(name, str(before[name] or ""), str(after[name] or ""), style=style)
    rows.add("all nodes", str(before.total()), str(after.total()), style="bold")
    return rows


def _patterns(applied: Mapping[str, int]) -> Rows:
    rows = Rows("pattern", "applied", right={"applied"})
    for name, count in _most_first(applied):
        rows.add(name, str(count))
    return rows


def _most_first(applied: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(applied.items(), key=lambda item: (-item[1], item[0]))


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
    settings: str | None = None  # the settings file in use
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
            "settings_file": self.settings,
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
    if summary.lowered is not None:
        times["quantizing"] = summary.lowered.seconds
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
    if summary.settings is not None:
        console.print(f"settings    {summary.settings}", highlight=False)
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
    """The lines about quantization: the choice, its error, its verification, and what is left in float32."""
    yield f"precision   {lowered.summary()}"
    if lowered.reason:
        return
    for report in lowered.structure:
        yield f"            with the rounded numbers, {lowered.computed} compute the same as floats: {report.summary()}"
    if lowered.inner:
        yield f"            {lowered.inner}"
    yield from _left(lowered)
    floats = lowered.proof.builder.count_types().get("Conv", 0) if lowered.options.scheme == "int8" else 0
    if lowered.samples.are_random and floats:
        yield f"            {floats} Conv in floats: only samples tell the ranges of what they read"
    if lowered.samples.are_random:
        yield "            random values say little about yours: give some with --feeds FILE.npz or a folder of them"


def _left(lowered: Lowered) -> Iterator[str]:
    """The bytes of constants in float32, and what to do where the time kept some of them."""
    left = lowered.float32_bytes
    if not left:
        return
    texts = [f"{op_type} {bytes_text(size)}" for op_type, size in [*left.items()][:_SHOWN]]
    texts += [f"{len(left) - _SHOWN} more"] if len(left) > _SHOWN else []
    hint = "; --for size may leave fewer" if lowered.options.goal == "speed" and lowered.are_large_left else ""
    yield f"            {bytes_text(sum(left.values()))} of constants stay in float32: {', '.join(texts)}{hint}"


def _them(names: tuple[str, ...]) -> str:
    return "it" if len(names) == 1 else "them"
