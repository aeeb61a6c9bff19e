# ruff: noqa: RUF001 - minus and multiplication signs appear in figures
"""The facts that a report shows: cards, operators with their times, the verification and its
outputs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from xoptim.bench.measure import OperatorTime
from xoptim.bench.rounds import BenchReport, circumstances, milliseconds
from xoptim.facts.dtypes import Exactness
from xoptim.facts.words import bytes_text, shell_path
from xoptim.reporting.drawing import Drawing
from xoptim.reporting.placing import PlacingFacts
from xoptim.verification.judging.report import VerificationReport

_MIN_SHARE: Final = 0.01
"""Share of the time of all operators from which a change of one operator is coloured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSubject:
    """Facts about two models besides their graphs."""

    title: str  # name of the original
    result: str  # name of the result
    sizes: tuple[int, int] = (0, 0)  # bytes of both, 0 when unknown
    opsets: tuple[int, int] = (0, 0)  # operator set of ONNX of both, 0 for none
    exactness: Exactness | None = None  # weakest exactness of the rewrites, if it is known
    verification: Sequence[VerificationReport] = ()  # the comparisons; empty when there were none
    latency: BenchReport | None = None  # the times of both, if they were measured
    # the time of each operator in both, if it was measured
    operators: Sequence[Mapping[str, OperatorTime]] = ()
    notes: Sequence[tuple[str, str]] = ()  # label and text of further lines of the verification
    precision: str = ""  # the choice of quantized operators, if there was one
    # the texts of a row for each of these operators, by column
    quantizable: Sequence[Mapping[str, str]] = ()
    placing: PlacingFacts | None = None  # where the nodes of both run, if there is a target


@dataclass(frozen=True, slots=True)
class Card:
    """A figure at the head of the page, with a note in small print."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """A row of the table of operators: numbers of nodes and times, before and after.

    ``trend`` is ``less``, ``more`` or nothing.
    """

    name: str
    before: int
    after: int
    change: str
    times: tuple[str, str, str] = ("", "", "")
    trend: str = ""


CostRow: TypeAlias = tuple[str, ...]
"""Name, nodes, parameters, operations, bytes read and bytes written."""


@dataclass(frozen=True, slots=True)
class CostFacts:
    """The costs of a model that a page shows alone.

    Attributes:
        tables: rows by the heading of their first column; the last row of each has the sums.
        nodes: the cost of each drawn node, as text, in order.
        note: the sizes of dynamic dimensions.
    """

    tables: Mapping[str, Sequence[CostRow]]
    nodes: Sequence[str]
    note: str


@dataclass(frozen=True, slots=True)
class PageFacts:
    """The texts of a page."""

    title: str
    subtitle: str
    status: str  # the verdict; ``verdict`` is ``equal``, ``different`` or ``unknown``
    verdict: str
    nodes: tuple[int, int]  # number of nodes before and after
    cards: list[Card]  # figures at the head
    operators: list[OperatorRow]  # the rows of the table of operators, all operators last
    has_times: bool
    times_note: str
    verified: list[tuple[str, str]]  # label and text of each line about the verification
    # output, sizes, largest difference, relative difference and verdict of each comparison
    outputs: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    precision: str = ""
    quantizable: Sequence[Mapping[str, str]] = ()
    placing: PlacingFacts | None = None
    viewers: Sequence[tuple[str, str]] = ()  # other viewers, with the command that opens a model
    costs: CostFacts | None = None  # of a page about one model


def facts_of(subject: ReportSubject, before: Drawing, after: Drawing) -> PageFacts:
    """The texts about two models."""
    doubtful = [report for report in subject.verification if not report.ok]
    worst = min(doubtful, key=lambda report: report.status != "different", default=None)
    status = (
        "not compared" if not subject.verification else "equal" if worst is None else worst.status
    )
    note = ""
    if subject.operators and subject.latency is not None:
        where = circumstances(subject.latency)
        note = (
            "Time of each operator in a run, from onnxruntime's profiler, which adds overhead: "
            f"{where}"
        )
    return PageFacts(
        title=subject.title,
        subtitle=f"→ {subject.result}",
        status=status,
        verdict=status if status in ("equal", "different") else "unknown",
        nodes=(len(before.nodes), len(after.nodes)),
        cards=_cards(subject, len(before.nodes), len(after.nodes)),
        operators=_operators(subject, before, after),
        has_times=bool(subject.operators),
        times_note=note,
        verified=_verified(subject),
        outputs=_outputs(subject.verification),
        precision=subject.precision,
        quantizable=subject.quantizable,
        placing=subject.placing,
        viewers=viewers_of(subject.title, subject.result),
    )


def viewers_of(title: str, *others: str) -> list[tuple[str, str]]:
    """Commands of a shell that open models in other viewers, in the folder of the models."""
    viewers = [("Netron", f"netron {shell_path(name)}") for name in (title, *others)]
    viewers.append(
        (
            "Model Explorer",
            f"model-explorer {shell_path(title)} --extensions=xoptim.integrations.model_explorer",
        )
    )
    return viewers if title.endswith(".onnx") else []


def _percent(before: float, after: float) -> str:
    if not before or before == after:
        return ""
    change = 100 * (after - before) / before
    return f"{'+' if change > 0 else '−'}{abs(change):.{0 if abs(change) >= 10 else 1}f} %"


def _cards(subject: ReportSubject, before: int, after: int) -> list[Card]:
    cards = [Card("nodes", f"{before} → {after}", _percent(before, after))]
    if all(subject.sizes):
        cards.append(
            Card("size", " → ".join(map(bytes_text, subject.sizes)), _percent(*subject.sizes))
        )
    if subject.latency is not None:
        first, last = subject.latency.models[0], subject.latency.models[-1]
        ratio = (
            "" if last.ratio is None else f"{'× ' if last.ratio.is_difference else ''}{last.ratio}"
        )
        cards.append(
            Card(
                "time of a run",
                f"{milliseconds(first.median)} → {milliseconds(last.median)}",
                ratio,
            )
        )
    largest = [report.largest for report in subject.verification if report.largest is not None]
    if largest:
        worst = max(largest, key=lambda comparison: comparison.excess)
        limits = "" if worst.tolerance is None else "rtol {:g}, atol {:g}".format(*worst.tolerance)
        cards.append(
            Card("largest difference", f"{worst.max_abs:.2g}" if worst.max_abs else "none", limits)
        )
    if subject.exactness is not None:
        cards.append(Card("exactness", subject.exactness))
    if subject.placing is not None:
        cards.append(Card(f"on {subject.placing.target}", subject.placing.counts[-1][1]))
    if all(subject.opsets) and subject.opsets[0] != subject.opsets[1]:
        cards.append(Card("operator set", f"{subject.opsets[0]} → {subject.opsets[1]}"))
    return cards


def _operators(subject: ReportSubject, before: Drawing, after: Drawing) -> list[OperatorRow]:
    """The rows of operators: with the most nodes first or, when times are known, with the largest
    change of time.
    """
    counts = [Counter(node.op_type for node in drawing.nodes) for drawing in (before, after)]
    times = [
        {name: time.seconds for name, time in model.items()} for model in subject.operators
    ] or [{}, {}]
    names = {*counts[0], *counts[1], *times[0], *times[-1]}

    def key(name: str) -> tuple[float, int, str]:
        return -abs(times[0].get(name, 0.0) - times[-1].get(name, 0.0)), -counts[0][name], name

    sums = [sum(model.values()) if subject.operators else None for model in (times[0], times[-1])]
    threshold = _MIN_SHARE * (sums[0] or 0.0)
    rows = [
        _row(
            name,
            (counts[0][name], counts[1][name]),
            (times[0].get(name), times[-1].get(name)),
            threshold,
        )
        for name in sorted(names, key=key)
    ]
    return [
        *rows,
        _row("all operators", (len(before.nodes), len(after.nodes)), (sums[0], sums[1]), threshold),
    ]


def _row(
    name: str, counts: tuple[int, int], times: tuple[float | None, float | None], threshold: float
) -> OperatorRow:
    before, after = counts
    change = "" if after == before else f"{'+' if after > before else '−'}{abs(after - before)}"
    if times == (None, None):
        return OperatorRow(name, before, after, change)
    growth = (times[1] or 0.0) - (times[0] or 0.0)
    texts = ["" if time is None else f"{1e3 * time:.3f}" for time in times]
    text = f"{1e3 * growth:+.3f}".replace("-", "−") if round(1e3 * growth, 3) else "0.000"
    trend = "" if abs(growth) < threshold else "more" if growth > 0 else "less"
    return OperatorRow(name, before, after, change, (texts[0], texts[1], text), trend)


def _verified(subject: ReportSubject) -> list[tuple[str, str]]:
    lines = []
    for report in subject.verification:
        lines.append((", ".join(report.providers), report.summary()))
        lines += [("", note) for note in report.notes]
    if not subject.verification:
        lines.append(("comparison", "skipped"))
    if subject.latency is not None:
        lines.append(("times", circumstances(subject.latency)))
    return [*lines, *subject.notes]


def _outputs(reports: Sequence[VerificationReport]) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for report in reports:
        for run in report.runs:
            sizes = ", ".join(f"{name}={size}" for name, size in run.dims.items())
            for result in run.comparisons:
                verdict = (
                    result.message or "equal"
                    if result.ok
                    else "rounding noise"
                    if run.accepts(result)
                    else result.message
                )
                relative = f"{result.max_rel:.2g}" if result.max_rel else ""
                rows.append(
                    (
                        result.output,
                        sizes,
                        f"{result.max_abs:.2g}" if result.max_abs else "none",
                        relative,
                        verdict,
                    )
                )
    return rows
