"""The summary of an optimization, for people and for machines: how the numbers of nodes changed, by
which patterns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from xoptim import bench
from xoptim.diagnose.explanation import bytes_text
from xoptim.workflow.outcome import Outcome

from .files import STANDARD_OUTPUT, readable_path
from .summary_document import SummaryDocument
from .tables import Rows, open_console
from .targeting import left_texts

if TYPE_CHECKING:
    from xoptim.bench import BenchReport
    from xoptim.precision.quantized import Quantized
    from xoptim.verification.report import VerificationReport
    from xoptim.workflow.fitting import FittingOutcome

_MAX_NAMES: Final = 6
"""Maximum number of operators that a line names."""
_MAX_CHANGED: Final = 4
"""Maximum number of operators in the line about their numbers."""
_SMALL_SHARE: Final = 0.02
"""Share of the nodes below which the line about nodes names the rewrites."""


def print_changes(
    console: Console,
    before: Counter[str],
    after: Counter[str],
    applied: Mapping[str, int],
    *,
    verbose: bool = False,
) -> None:
    """Print the numbers of nodes, with ``verbose`` also tables of operators and of patterns.

    Args:
        console: to print to.
        before: numbers of nodes by operator.
        after: the same of the result.
        applied: numbers of rewrites by pattern.
        verbose: whether to print tables.
    """
    if verbose:
        _operators(before, after).print(console)
        console.print()
    if verbose and applied:
        _patterns(applied).print(console)
        console.print()
    console.print(f"nodes         {_nodes_text(before, after, applied)}", highlight=False)
    changes = changed_operators(before, after)
    if changes and not verbose and not _is_small(before, after, applied):
        console.print(f"operators     {changes}", highlight=False)


def changed_names(before: Counter[str], after: Counter[str]) -> list[str]:
    """The operators whose numbers differ, the largest difference first, and constants last."""
    names = (name for name in before | after if before[name] != after[name])
    return sorted(
        names, key=lambda name: (name == "Constant", -abs(before[name] - after[name]), name)
    )


def changed_operators(before: Counter[str], after: Counter[str]) -> str:
    """The operators whose numbers changed most; empty where none changed."""
    changed = changed_names(before, after)
    more = f", {len(changed) - _MAX_CHANGED} more" if len(changed) > _MAX_CHANGED else ""
    shown = changed[:_MAX_CHANGED]
    return ", ".join(f"{name} {before[name]} → {after[name]}" for name in shown) + more


def _nodes_text(before: Counter[str], after: Counter[str], applied: Mapping[str, int]) -> str:
    old, new = before.total(), after.total()
    if before == after and not applied:
        return f"{old} (no pattern applies)"
    if _is_small(before, after, applied):
        names = ", ".join(f"{name} {count}" for name, count in _most_first(applied))
        return f"{old} → {new} ({names or 'constants'})"
    if old == new:
        return f"{old} → {new} (rewrites: {sum(applied.values())})"
    return f"{old} → {new} ({abs(old - new) / max(old, 1):.0%} {'fewer' if new < old else 'more'})"


def _is_small(before: Counter[str], after: Counter[str], applied: Mapping[str, int]) -> bool:
    old, new = before.total(), after.total()
    return max(abs(old - new), sum(applied.values())) < _SMALL_SHARE * max(old, new)


def _operators(before: Counter[str], after: Counter[str]) -> Rows:
    rows = Rows("operator", "before", "after", right={"before", "after"})
    for name in sorted(before | after, key=lambda name: (-before[name], name)):
        style = (
            "green"
            if after[name] < before[name]
            else "yellow"
            if after[name] > before[name]
            else ""
        )
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


_MAX_HINTS: Final = 2
_LABEL_WIDTH: Final = 14
"""Characters of the first column of the summary."""
_MAX_METADATA: Final = 0.2
"""Share of the file above which a hint names metadata."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The text or the JSON that the command prints about an outcome."""

    model: Path  # the input
    outcome: Outcome
    settings: str | None = None  # the settings files in use
    loosened: str = ""  # words about settings that make the verification weaker

    @property
    def bytes_after(self) -> int | None:
        """Size of the result, ``None`` when it was refused."""
        return None if self.outcome.refusal is not None else self.outcome.verified.bytes_after

    def document(self) -> SummaryDocument:
        """The summary as it is printed with ``--json``."""
        outcome = self.outcome
        verified, report, operators = outcome.verified, outcome.report, outcome.operators
        opset_before, opset_after = outcome.opsets
        size = self.bytes_after  # once: it counts all weights
        hints = (f"hint: {hint}" for hint in outcome.hints[:_MAX_HINTS])
        return SummaryDocument(
            model=readable_path(self.model),
            written=outcome.written,
            needed=outcome.needed,
            report=outcome.page,
            settings_file=self.settings,
            nodes_before=sum(verified.before.values()),
            nodes_after=sum(operators.values()),
            operators_before=verified.before,
            operators_after=operators,
            assumptions=outcome.assumptions,
            opset_before=opset_before,
            opset_after=opset_after,
            bytes_before=outcome.bytes_before,
            bytes_after=size,
            patterns=report.applied,
            exactness=report.exactness,
            unchecked_operators=outcome.unchecked,
            load_seconds=verified.load_seconds,
            optimize_seconds=verified.optimize_seconds,
            verify_seconds=verified.verify_seconds,
            seconds=outcome.times,
            verification=verified.reports,
            dropped=verified.dropped,
            each=verified.each,
            proofs=verified.proofs,
            latency=None if outcome.latency is None else outcome.latency.latency(),
            unfolded=report.unfolded,
            hints=outcome.hints,
            remarks=[*_labelled(_findings(outcome, size)), *hints],
            unused_inputs=report.unused_inputs,
            dropped_inputs=report.dropped_inputs,
            repetitions=report.repetitions,
            target=outcome.fitting,
            precision=outcome.quantized,
            only_if_faster=outcome.speed,
        )


def _print_candidates(console: Console, quantized: Quantized) -> None:
    """Print the nodes that can be quantized, with the error that each adds and the saved time."""
    records = quantized.rows()
    if not records:
        return
    rows = Rows(*records[0], right=set(records[0]) - {"node", "pattern", "choice"})
    for record in records:
        rows.add(*record.values())
    rows.print(console)


def _print_verdict(
    console: Console, report: VerificationReport, loosened: str, *, verbose: bool
) -> None:
    # The reason of another verdict is the last line of the command, on standard error.
    text = report.verdict() if report.ok else f"{report.where}; the reason is below"
    console.print(f"verification  {text}{loosened}", highlight=False)
    largest = report.largest if verbose else None
    if largest is not None and largest.max_abs:
        console.print(f"              largest in {largest.output!r}", highlight=False)
    for note in (*report.notes, *(report.rounded if verbose else ())):
        console.print(f"              {note}", highlight=False)


def print_summary(summary: Summary, *, to_stderr: bool = False, verbose: bool = False) -> None:
    """Print the figures and the verdict.

    ``verbose`` adds a line for each operator, for each pattern, for each step's time, for each
    further hint, and for each output that a note counts.
    """
    console = open_console(to_stderr=to_stderr)
    outcome = summary.outcome
    before, after = Counter(outcome.verified.before), Counter(outcome.operators)
    print_changes(console, before, after, outcome.report.applied, verbose=verbose)
    if outcome.opsets[0] != outcome.opsets[1]:
        old, new = (opset or "none" for opset in outcome.opsets)
        console.print(f"opset         {old} → {new}")
    size = summary.bytes_after  # once: it counts all weights
    change = "" if size is None else f" → {bytes_text(size)}"
    console.print(f"size          {bytes_text(outcome.bytes_before)}{change}")
    for report in outcome.verified.reports:
        _print_verdict(console, report, summary.loosened, verbose=verbose)
    if not outcome.verified.reports:
        console.print(f"verification  skipped: --no-verify{summary.loosened}", highlight=False)
    console.print(f"time          {_time_text(outcome, verbose=verbose)}", highlight=False)
    remarks = (*_assumed(outcome), *_findings(outcome, size), *_hints(outcome, verbose=verbose))
    for remark in remarks:
        console.print(remark, highlight=False)
    if verbose and outcome.quantized is not None:
        _print_candidates(console, outcome.quantized)
    if summary.settings is not None:
        console.print(f"settings      {summary.settings}", highlight=False)
    if outcome.page is not None:
        console.print(f"report        {outcome.page}")
    console.print(f"written       {_written_text(outcome)}")
    if outcome.needed:
        console.print(
            f"needs         {', '.join(outcome.needed)}, in the same folder: weights are shared"
        )


def _time_text(outcome: Outcome, *, verbose: bool) -> str:
    """The total time; with ``verbose`` also the time of each step."""
    total = f"{sum(outcome.times.values()):.1f} s"
    if not verbose:
        return total
    return f"{total}: {', '.join(f'{step} {time:.2f} s' for step, time in outcome.times.items())}"


def _written_text(outcome: Outcome) -> str:
    """The files that were written."""
    names = [
        "standard output" if path == STANDARD_OUTPUT else str(path) for path in outcome.written
    ]
    return ", ".join(names) or "nothing"


def _assumed(outcome: Outcome) -> Iterator[str]:
    if outcome.assumptions:
        yield f"assumed       {', '.join(outcome.assumptions)}"
    if outcome.report.unguarded:
        yield (
            f"not guarded   {', '.join(outcome.report.unguarded)}: standard operators cannot "
            "check it"
        )


def _labelled(lines: Iterable[str]) -> list[str]:
    """Lines of the summary without columns: each label with its text, further lines included."""
    texts: list[str] = []
    for line in lines:
        label, text = line[:_LABEL_WIDTH].strip(), line[_LABEL_WIDTH:].strip()
        if label:
            texts.append(f"{label}: {text}")
        else:
            texts[-1] += f"; {text}"
    return texts


def _findings(outcome: Outcome, size: int | None) -> Iterator[str]:
    """Lines about all that was found, without hints about options; ``size`` is that of the file in
    bytes, ``None`` when it was refused.
    """
    yield from _changes(outcome)
    yield from _remarks(outcome)
    yield from _metadata(outcome, size)


def _changes(outcome: Outcome) -> Iterator[str]:
    """Lines about quantization and the target."""
    if outcome.quantized is not None:
        yield from precision_lines(outcome.quantized)
    if outcome.fitting is not None:
        yield from _fitting(outcome.fitting)


def _single_rewrites(outcome: Outcome) -> Iterator[str]:
    """Lines about checks and proofs of single rewrites."""
    if outcome.verified.each is not None:
        yield f"each rewrite  {outcome.verified.each.summary()}"
    if outcome.verified.proofs is not None:
        yield f"proofs        {outcome.verified.proofs.summary()}"
        if outcome.verified.proofs.refused:
            yield f"refused       {outcome.verified.proofs.refusals()}"


def _remarks(outcome: Outcome) -> Iterator[str]:
    """Lines about measurements, rewrites that were dropped, and other findings."""
    yield from _single_rewrites(outcome)
    if outcome.latency is not None:
        where = bench.rounds.circumstances(outcome.latency)
        yield f"latency       {_times(outcome.latency)}; {where}"
        for label, report in outcome.latency.settings.items():
            yield f"              {label}: {_times(report)}"
        for text in outcome.latency.disturbances:
            yield f"              busy: {text}"
    if outcome.speed is not None:
        yield f"speed         {outcome.speed.summary()}"
    for block in outcome.report.repetitions:
        yield f"repeated      {block}"
    for culprit in outcome.verified.dropped:
        yield f"dropped       {culprit}"
    if outcome.report.unfolded is not None:
        left = outcome.report.unfolded
        names = ", ".join(f"{count} {name}" for name, count in left.operators.items())
        pronoun = "it" if sum(left.operators.values()) == 1 else "them"
        sizes = f"would add {bytes_text(left.size)}; --max-growth allows {bytes_text(left.allowed)}"
        yield f"not folded    {names}: folding {pronoun} {sizes}"
    if outcome.unchecked:
        yield (
            f"checker       onnx.checker does not know {', '.join(outcome.unchecked)}, which "
            "onnxruntime runs"
        )
    if outcome.report.dropped_inputs:
        yield (
            f"dropped       {', '.join(outcome.report.dropped_inputs)}: nothing reads "
            f"{_them(outcome.report.dropped_inputs)}"
        )
    if outcome.report.unused_inputs:
        names = ", ".join(outcome.report.unused_inputs)
        yield (
            f"hint          nothing reads {names}; --drop-unused-inputs removes "
            f"{_them(outcome.report.unused_inputs)}"
        )


def _metadata(outcome: Outcome, size: int | None) -> Iterator[str]:
    """A hint if doc strings and metadata are a large part of the file, which has ``size`` bytes,
    ``None`` when it was refused.
    """
    if size is None:
        return
    share = outcome.strippable_bytes / max(size, 1)
    if share > _MAX_METADATA:
        text = "of the file is doc strings and metadata; --strip removes them"
        yield f"hint          {share:.0%} {text}"


def _fitting(fitting: FittingOutcome) -> Iterator[str]:
    """The lines about the target: placement before and after, lowerings, and the verification
    there.
    """
    if fitting.fitted is not None:
        after = fitting.fitted.after
        before = "" if fitting.original is None else fitting.original.counts()
        if before == after.counts():
            before = "the same"
        yield f"placement     {after.summary()}" + (f" (original: {before})" if before else "")
        for step in fitting.fitted.steps:
            yield f"lowered       {step}"
        for text in left_texts(fitting.fitted.after):
            yield f"not placed    {text}"
    for name, opset in fitting.newer.items():
        yield f"not applied   {name}: it needs operator set {opset} (--opset {opset})"
    for name in fitting.dropped:
        yield f"dropped       {name}: it changed the result"
    for name, nodes in fitting.avoided.items():
        yield f"dropped       {name} at {nodes[0]}: it changed the result there"
    reasons: dict[str, list[str]] = {}
    for pattern in fitting.unfit:
        reasons.setdefault(pattern.reason, []).append(f"{pattern.pattern} {pattern.count}")
    for reason, names in reasons.items():
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield f"not applied   {', '.join(names[:_MAX_NAMES])}{more}: {reason}"
    if not fitting.is_check_asked and not fitting.fault:
        yield f"verification  skipped on {fitting.target.name}: --no-verify"
    if fitting.check is not None and fitting.check.ok:
        yield f"verification  on {fitting.target.name}: {fitting.check.summary()}"


def _times(report: BenchReport) -> str:
    before, after = report.models
    text = bench.rounds.milliseconds
    return f"{text(before.median)} → {text(after.median)}: {after.ratio}"


def _hints(outcome: Outcome, *, verbose: bool) -> Iterator[str]:
    shown = outcome.hints if verbose else outcome.hints[:_MAX_HINTS]
    for hint in shown:
        yield f"hint          {hint}"
    if len(shown) < len(outcome.hints):
        yield f"              -v shows all {len(outcome.hints)} hints"


def precision_lines(quantized: Quantized) -> Iterator[str]:
    """The lines about quantization: the choice, its error, its verification, and what is left in
    float32.
    """
    yield f"quantization  {quantized.summary()}"
    if quantized.reason:
        return
    for report in quantized.comparisons:
        yield (
            f"              {quantized.computed} compute the same as float32 on quantized values: "
            f"{report.summary()}"
        )
    if quantized.inner:
        yield f"              {quantized.inner}"
    yield from _left(quantized)
    is_dynamic = quantized.options.scheme == "int8" and not quantized.description
    floats = quantized.verified.builder.count_types().get("Conv", 0) if is_dynamic else 0
    if quantized.samples.are_random and floats:
        reason = "their input ranges are unknown without samples (--feeds)"
        yield f"              Conv in float32: {floats}, as {reason}"
    if quantized.samples.are_random:
        yield (
            "              random inputs were used; give samples of your data with --feeds FILE "
            "or a folder"
        )
    if quantized.samples.are_few:
        yield "              few samples: on other data, the error can be larger; give 10 or more"


def _left(quantized: Quantized) -> Iterator[str]:
    """The bytes of constants in float32, and a hint if some were kept because of the time."""
    left = quantized.float32_bytes
    if not left:
        return
    texts = [f"{op_type} {bytes_text(size)}" for op_type, size in [*left.items()][:_MAX_NAMES]]
    texts += [f"{len(left) - _MAX_NAMES} more"] if len(left) > _MAX_NAMES else []
    hint = (
        "; --for size may leave fewer"
        if quantized.options.goal == "speed" and quantized.are_large_left
        else ""
    )
    yield (
        f"              {bytes_text(sum(left.values()))} of constants stay in float32: "
        f"{', '.join(texts)}{hint}"
    )


def _them(names: tuple[str, ...]) -> str:
    return "it" if len(names) == 1 else "them"
