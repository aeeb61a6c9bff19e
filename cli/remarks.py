"""Remarks of the summary, which follow the figures and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xoptim import bench
from xoptim.api.advice import Advice
from xoptim.diagnose.explanation import bytes_text
from xoptim.workflow.outcome import Outcome

from .targeting import left_texts

if TYPE_CHECKING:
    from xoptim import Unfolded, VerificationReport
    from xoptim.bench import BenchReport
    from xoptim.precision.quantized import Quantized
    from xoptim.workflow.fitting import FittingOutcome

MAX_HINTS: Final = 2
"""Maximum number of hints that are shown."""
_MAX_NAMES: Final = 6
"""Maximum number of operators that a line names."""
_LABEL_WIDTH: Final = 14
"""Characters of the first column of the summary."""
_MAX_METADATA: Final = 0.2
"""The share of the file above which a hint names doc strings and metadata."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A label and a text, with further texts that belong to it."""

    label: str
    text: str
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.label}: {'; '.join((self.text, *self.details))}"

    def lines(self) -> Iterator[str]:
        """The lines of the summary, in columns."""
        yield f"{self.label:{_LABEL_WIDTH}}{self.text}"
        yield from (f"{'':{_LABEL_WIDTH}}{detail}" for detail in self.details)


def assumed(outcome: Outcome) -> Iterator[Remark]:
    """Remarks about assumptions."""
    if outcome.assumptions:
        yield Remark("assumed", ", ".join(outcome.assumptions))
    if outcome.report.unguarded:
        names = ", ".join(outcome.report.unguarded)
        yield Remark("not guarded", f"{names}: standard operators cannot check it")


def findings(outcome: Outcome, size: int | None) -> Iterator[Remark]:
    """All remarks except those of `assumed` and `hints`.

    ``size`` is the size of the result in bytes, ``None`` when the result was refused.
    """
    if outcome.quantized is not None:
        yield precision_remark(outcome.quantized)
    if outcome.fitting is not None:
        yield from _fitting(outcome.fitting)
    yield from _measured(outcome)
    yield from _dropped(outcome)
    yield from _inputs(outcome)
    yield from _metadata(outcome, size)


def hints(outcome: Outcome, *, verbose: bool) -> Iterator[Remark]:
    """Options that would make the model smaller: the first two, or all with ``verbose``."""
    shown = outcome.hints if verbose else outcome.hints[:MAX_HINTS]
    more = f"-v shows all {len(outcome.hints)} hints"
    for hint in shown:
        is_cut = hint is shown[-1] and len(shown) < len(outcome.hints)
        yield Remark("hint", str(hint), (more,) if is_cut else ())


def _measured(outcome: Outcome) -> Iterator[Remark]:
    """Remarks about checks and proofs of single rewrites, and about times."""
    if outcome.verified.each is not None:
        yield Remark("each rewrite", outcome.verified.each.summary())
    if outcome.verified.proofs is not None:
        yield Remark("proofs", outcome.verified.proofs.summary())
        if outcome.verified.proofs.refused:
            yield Remark("refused", outcome.verified.proofs.refusals())
    if outcome.latency is not None:
        where = bench.rounds.circumstances(outcome.latency)
        at = (f"{name}: {_times(report)}" for name, report in outcome.latency.settings.items())
        busy = (f"busy: {text}" for text in outcome.latency.disturbances)
        yield Remark("latency", f"{_times(outcome.latency)}; {where}", (*at, *busy))
    if outcome.speed is not None:
        yield Remark("speed", outcome.speed.summary())


def _dropped(outcome: Outcome) -> Iterator[Remark]:
    """Remarks about repeated blocks, dropped rewrites, unfolded nodes, and unchecked operators."""
    for block in outcome.report.repetitions:
        yield Remark("repeated", str(block))
    for culprit in outcome.verified.dropped:
        yield Remark("dropped", str(culprit))
    if outcome.report.unfolded is not None:
        yield Remark("not folded", _unfolded_text(outcome.report.unfolded))
    if outcome.unchecked:
        names = ", ".join(outcome.unchecked)
        yield Remark("checker", f"onnx.checker does not know {names}, which onnxruntime runs")


def _unfolded_text(left: Unfolded) -> str:
    """The nodes that were not folded, and the reason."""
    names = ", ".join(f"{count} {name}" for name, count in left.operators.items())
    pronoun = "it" if sum(left.operators.values()) == 1 else "them"
    start = f"{names}: folding {pronoun} would add {bytes_text(left.size)}"
    if left.copies == sum(left.operators.values()):
        return f"{start}, as other nodes need the operands; --max-growth SIZE allows it"
    used = f", of which {bytes_text(left.used)} are used" if left.size <= left.allowed else ""
    return f"{start}; --max-growth allows {bytes_text(left.allowed)}{used}"


def _inputs(outcome: Outcome) -> Iterator[Remark]:
    """Remarks about inputs that nothing reads."""
    dropped, unused = outcome.report.dropped_inputs, outcome.report.unused_inputs
    if dropped:
        yield Remark("dropped", f"{', '.join(dropped)}: nothing reads {_them(dropped)}")
    if unused:
        advice = f"--drop-unused-inputs removes {_them(unused)}"
        yield Remark("hint", f"nothing reads {', '.join(unused)}; {advice}")


def _metadata(outcome: Outcome, size: int | None) -> Iterator[Remark]:
    """A hint if doc strings and metadata are a large part of the file, which has ``size`` bytes.

    There is none if ``size`` is ``None``.
    """
    if size is None:
        return
    share = outcome.strippable_bytes / max(size, 1)
    if share > _MAX_METADATA:
        text = "of the file is doc strings and metadata; --strip removes them"
        yield Remark("hint", f"{share:.0%} {text}")


def _fitting(fitting: FittingOutcome) -> Iterator[Remark]:
    """Remarks about the target: the placements, the lowerings, and the verification on it."""
    if fitting.fitted is not None:
        after = fitting.fitted.after
        before = "" if fitting.original is None else fitting.original.counts()
        if before == after.counts():
            before = "the same"
        yield Remark("placement", after.summary() + (f" (original: {before})" if before else ""))
        for step in fitting.fitted.steps:
            yield Remark("lowered", str(step))
        for report in told_reports(fitting.reports):
            yield Remark("verification", f"of the lowering: {report.verdict()}")
        for text in left_texts(fitting.fitted.after):
            yield Remark("not placed", text)
    yield from _not_applied(fitting)
    where = fitting.target.name
    if not fitting.is_check_asked and not fitting.fault:
        yield Remark("verification", f"skipped on {where}: --no-verify")
    if fitting.check is not None and fitting.check.ok:
        yield Remark("verification", f"on {where}: {fitting.check.summary()}")


def _not_applied(fitting: FittingOutcome) -> Iterator[Remark]:
    """Remarks about patterns that were not applied for a target, or were dropped for it."""
    for name, opset in fitting.newer.items():
        needed = f"operator set {opset} ({Advice('opset', str(opset))})"
        yield Remark("not applied", f"{name}: it needs {needed}")
    for name in fitting.dropped:
        yield Remark("dropped", f"{name}: it changed the result")
    for name, nodes in fitting.avoided.items():
        yield Remark("dropped", f"{name} at {nodes[0]}: it changed the result there")
    reasons: dict[str, list[str]] = {}
    for pattern in fitting.unfit:
        reasons.setdefault(pattern.reason, []).append(f"{pattern.pattern} {pattern.count}")
    for reason, names in reasons.items():
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield Remark("not applied", f"{', '.join(names[:_MAX_NAMES])}{more}: {reason}")


def precision_remark(quantized: Quantized) -> Remark:
    """The remark about quantization: the choice, its error, its verification, and float32 parts."""
    details = tuple(_precision_details(quantized))
    return Remark("quantization", quantized.summary(), details)


def _precision_details(quantized: Quantized) -> Iterator[str]:
    if not quantized.reason:
        yield from _measured_details(quantized)
    if quantized.routing_text:
        yield quantized.routing_text


def _measured_details(quantized: Quantized) -> Iterator[str]:
    for report in told_reports(quantized.comparisons):
        text = f"{quantized.computed} compute the same as float32 on quantized values"
        yield f"{text}: {report.summary()}"
    if quantized.inner:
        yield str(quantized.inner)
    yield from _left(quantized)
    is_dynamic = quantized.options.scheme == "int8" and not quantized.description
    floats = quantized.verified.builder.count_types().get("Conv", 0) if is_dynamic else 0
    if quantized.samples.are_random and floats:
        reason = "their input ranges are unknown without samples (--feeds)"
        yield f"Conv in float32: {floats}, as {reason}"
    if quantized.samples.are_random:
        advice = "give samples of your data with --feeds FILE or a folder"
        yield f"random inputs were used; {advice}"
    if quantized.samples.are_few:
        yield "few samples: on other data, the error can be larger; give 10 or more"


def told_reports(reports: Sequence[VerificationReport]) -> list[VerificationReport]:
    """The reports of the steps of a quantization or a fitting that are worth a line.

    These are all reports of unequal steps, and of the equal steps the report with the largest
    difference: the other reports say the same.
    """
    equal = sorted((report for report in reports if report.ok), key=_difference)
    return [*(report for report in reports if not report.ok), *equal[-1:]]


def _difference(report: VerificationReport) -> float:
    return 0.0 if report.largest is None else float(report.largest.max_abs)


def _left(quantized: Quantized) -> Iterator[str]:
    """The bytes of constants in float32, and a hint if some may stay for the goal ``speed``."""
    left = quantized.float32_bytes
    if not left:
        return
    texts = [f"{op_type} {bytes_text(size)}" for op_type, size in [*left.items()][:_MAX_NAMES]]
    texts += [f"{len(left) - _MAX_NAMES} more"] if len(left) > _MAX_NAMES else []
    is_for_speed = quantized.options.goal == "speed" and quantized.are_large_left
    hint = "; --for size may leave fewer" if is_for_speed else ""
    total = bytes_text(sum(left.values()))
    yield f"{total} of constants stay in float32: {', '.join(texts)}{hint}"


def _times(report: BenchReport) -> str:
    before, after = report.models
    text = bench.rounds.milliseconds
    return f"{text(before.median)} → {text(after.median)}: {after.ratio}"


def _them(names: tuple[str, ...]) -> str:
    return "it" if len(names) == 1 else "them"
