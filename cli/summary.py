"""The summary of an optimization, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from xoptim.diagnose.explanation import bytes_text
from xoptim.workflow.outcome import Outcome

from .files import STANDARD_OUTPUT, readable_path
from .remarks import MAX_HINTS, assumed, findings, hints
from .summary_document import SummaryDocument
from .tables import Rows, open_console

if TYPE_CHECKING:
    from xoptim.precision.quantized import Quantized
    from xoptim.verification.judging.report import VerificationReport

_MAX_CHANGED: Final = 4
"""Maximum number of operators in the line ``operators``."""
_SMALL_SHARE: Final = 0.02
"""Share of changed nodes below which the line ``nodes`` names the rewrites."""


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
        console: the console to print to.
        before: numbers of nodes by operator, of the original.
        after: numbers of nodes by operator, of the result.
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
    """The operators whose numbers changed most; empty if no number changed."""
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
        size = self.bytes_after  # read once, since the property adds up all weights
        first_hints = (f"hint: {hint}" for hint in outcome.hints[:MAX_HINTS])
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
            seconds=dict(outcome.times),
            verification=verified.reports,
            dropped=verified.dropped,
            each=verified.each,
            proofs=verified.proofs,
            latency=None if outcome.latency is None else outcome.latency.latency(),
            unfolded=report.unfolded,
            hints=outcome.hints,
            remarks=[*map(str, findings(outcome, size)), *first_hints],
            unused_inputs=report.unused_inputs,
            dropped_inputs=report.dropped_inputs,
            repetitions=report.repetitions,
            target=outcome.fitting,
            precision=outcome.quantized,
            only_if_faster=outcome.speed,
        )


def _print_candidates(console: Console, quantized: Quantized) -> None:
    """Print the nodes that can be quantized, each with the error it adds and the time it saves."""
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
    # If the models differ or are not verified, the last line on standard error has the reason.
    text = report.verdict() if report.ok else f"{report.where}; the reason is below"
    console.print(f"verification  {text}{loosened}", highlight=False)
    largest = report.largest if verbose else None
    if largest is not None and largest.max_abs:
        console.print(f"              largest in {largest.output!r}", highlight=False)
    for note in (*report.notes, *(report.rounded if verbose else ())):
        console.print(f"              {note}", highlight=False)


def print_summary(summary: Summary, *, to_stderr: bool = False, verbose: bool = False) -> None:
    """Print the figures and the verdict.

    ``verbose`` adds tables of the operators and patterns, the time of each step, all hints, and the
    outputs that differ by rounding.
    """
    console = open_console(to_stderr=to_stderr)
    outcome = summary.outcome
    before, after = Counter(outcome.verified.before), Counter(outcome.operators)
    print_changes(console, before, after, outcome.report.applied, verbose=verbose)
    if outcome.opsets[0] != outcome.opsets[1]:
        old, new = (opset or "none" for opset in outcome.opsets)
        console.print(f"opset         {old} → {new}")
    size = summary.bytes_after  # read once, since the property adds up all weights
    change = "" if size is None else f" → {bytes_text(size)}"
    console.print(f"size          {bytes_text(outcome.bytes_before)}{change}")
    for report in outcome.verified.reports:
        _print_verdict(console, report, summary.loosened, verbose=verbose)
    if not outcome.verified.reports:
        console.print(f"verification  skipped: --no-verify{summary.loosened}", highlight=False)
    console.print(f"time          {_time_text(outcome, verbose=verbose)}", highlight=False)
    remarks = (*assumed(outcome), *findings(outcome, size), *hints(outcome, verbose=verbose))
    for line in (line for remark in remarks for line in remark.lines()):
        console.print(line, highlight=False)
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
