"""The outcome of a job: models, reports, measurements, the times of all steps, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from xoptim.catalogue.discovery import installed
from xoptim.diagnose.report import OptimizationReport
from xoptim.facts.errors import XoptimError
from xoptim.graph.save import shared_files
from xoptim.optimizing.verified import VerifiedModel
from xoptim.preparation.ports import strippable_bytes
from xoptim.verification.errors import ToleranceError
from xoptim.verification.judging.report import DifferentModelError, NotVerifiedError

if TYPE_CHECKING:
    from xoptim.bench.rounds import BenchReport
    from xoptim.diagnose.hints import OpsetHint, OptionHint
    from xoptim.precision.quantized import Quantized
    from xoptim.verification.judging.report import VerificationReport
    from xoptim.workflow.fitting import FittingOutcome

Cause: TypeAlias = Literal["tolerance", "different", "strict", "rewrite", "target"]


class TargetError(XoptimError):
    """A model computes other results on its target, or could not be verified there."""


class SpeedReport(Protocol):
    """The measurements of ``--only-if-faster``."""

    def summary(self) -> str:
        """The outcome in one line."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason not to write a result."""

    cause: Cause
    reason: str
    report: VerificationReport | None = None  # the comparison that gives the reason, if any


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a result, which decides the exit code of the command and the error of the API.

    Attributes:
        status: ``refused`` results are not written, ``not verified`` ones are, with a warning.
        reason: the reason why the status is not ``done``.
        cause: the cause of a refusal.
        report: the comparison that gives the reason, if any.
    """

    status: Literal["done", "refused", "not verified"] = "done"
    reason: str = ""
    cause: Cause | None = None
    report: VerificationReport | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the stages that a job has run so far; each stage makes the next one.

    ``floats`` is the optimized model before quantization, ``verified`` the result; they are the
    same without quantization.
    """

    verified: VerifiedModel
    floats: VerifiedModel
    is_strict: bool = False  # whether a result that could not be verified is refused
    # seconds by step, in the order of the steps
    times: Mapping[str, float] = field(default_factory=dict)
    bytes_before: int = 0  # of the original, with its external weights
    quantized: Quantized | None = None  # the quantization, if it was asked for
    speed: SpeedReport | None = None  # the measurements of ``--only-if-faster``
    unmeasured: XoptimError | None = None  # the error of the requested measurements, if they failed
    fitting: FittingOutcome | None = None  # the outcome of fitting the result to its target, if any
    # the times of the original and of the result, if they were measured
    latency: BenchReport | None = None
    hints: Sequence[OpsetHint | OptionHint] = ()  # options that would make the model smaller
    must_verify_on_target: bool = False  # whether a doubt about the result there is an error
    written: Sequence[Path] = ()  # files written
    page: Path | None = None  # the file of the report

    @classmethod
    def of(
        cls, verified: VerifiedModel, *, is_strict: bool = False, bytes_before: int = 0
    ) -> Outcome:
        """The outcome of an optimization and its comparison."""
        times = {"loading": verified.load_seconds, "optimizing": verified.optimize_seconds}
        if verified.reports:
            times["verifying"] = verified.verify_seconds
        return cls(verified, verified, is_strict, times, bytes_before)

    @property
    def strippable_bytes(self) -> int:
        """The bytes of the doc strings and metadata of the result that ``--strip`` removes."""
        return strippable_bytes(self.verified.proto)

    @property
    def report(self) -> OptimizationReport:
        """The report of the optimization, with the rewrites of the quantization."""
        if self.quantized is None:
            return self.verified.report
        return self.quantized.report(self.floats.report)

    @property
    def operators(self) -> dict[str, int]:
        """Number of nodes by operator of the result, subgraphs included."""
        return self.verified.builder.count_types()

    @property
    def opsets(self) -> tuple[int, int]:
        """The operator set of ONNX before and after, 0 for none."""
        return self.verified.opset_before, self.verified.builder.model.opsets.get("", 0)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions, in addition to the default ones."""
        return self.verified.builder.model.assumptions.texts

    @property
    def unchecked(self) -> list[str]:
        """Operators of the result that a pattern wrote and ``onnx.checker`` does not support."""
        applied = self.report.applied
        patterns = (pattern.item for name, pattern in installed().items() if name in applied)
        op_types = {op_type for item in patterns for op_type in item.unchecked}
        return sorted(op_types & self.operators.keys())

    @property
    def needed(self) -> list[str]:
        """Files of another model whose weights the written result refers to."""
        return shared_files(self.verified.proto) if self.written else []

    @property
    def refusal(self) -> Refusal | None:
        """The reason not to write the result, ``None`` when there is none."""
        return next(self._refusals(), None)

    def _refusals(self) -> Iterator[Refusal]:
        if self.quantized is not None and self.quantized.fault:
            yield Refusal("tolerance", self.quantized.fault)
        for report in self.verified.reports:
            if report.status == "different":
                yield Refusal("different", report.summary(), report)
        for report in self.verified.reports if self.is_strict else ():
            if report.strict_objection:
                yield Refusal("strict", report.strict_objection, report)
        fitting = self.fitting
        if fitting is not None and fitting.difference:
            yield Refusal("target", fitting.difference)
        if fitting is not None and self.is_strict and fitting.doubt:
            yield Refusal("strict", fitting.doubt)
        check = self.verified.each
        if check is not None and check.disagreements:
            yield Refusal("rewrite", str(check.disagreements[0]))

    @property
    def verdict(self) -> Verdict:
        """The verdict on the result: a refusal counts most, then a comparison without a verdict,
        then a doubt about the target.
        """
        refusal = self.refusal
        if refusal is not None:
            return Verdict("refused", refusal.reason, refusal.cause, refusal.report)
        doubtful = next((report for report in self.verified.reports if not report.ok), None)
        if doubtful is not None:
            return Verdict("not verified", doubtful.summary(), report=doubtful)
        if self.fitting is not None and self.fitting.doubt:
            return Verdict("not verified", self.fitting.doubt)
        return Verdict()

    @property
    def failure(self) -> VerificationReport | None:
        """The comparison that refutes the result, else one without a verdict, else ``None``."""
        return self.verified.failure

    def raise_failure(self) -> None:
        """Raise unless the result was found equal, or was not compared.

        Raises:
            ToleranceError: the quantized model does not keep its tolerance.
            DifferentModelError: the results of the model differ from those of the original.
            NotVerifiedError: there is no verdict.
            TargetError: the results differ on the target, or could not be verified there.
            XoptimError: a rewrite that was checked alone changes results, or the times that decide
                about the result could not be measured.
        """
        verdict = self.verdict
        if verdict.report is not None and not verdict.report.ok:
            is_different = verdict.report.status == "different"
            kind = DifferentModelError if is_different else NotVerifiedError
            raise kind(verdict.report, self.verified.proto)
        if verdict.status == "refused":
            errors = {"tolerance": ToleranceError, "target": TargetError}
            raise errors.get(str(verdict.cause), XoptimError)(verdict.reason)
        if verdict.status == "not verified" and self.must_verify_on_target:
            raise TargetError(verdict.reason)
        if self.unmeasured is not None:
            raise self.unmeasured
