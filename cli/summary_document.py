"""The JSON document about an optimization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from xoptim import Exactness
from xoptim.diagnose.explanation import JsonForm, JsonResult
from xoptim.workflow.outcome import SpeedReport

if TYPE_CHECKING:
    from xoptim import Repetition, Unfolded
    from xoptim.bench.rounds import Latency
    from xoptim.diagnose.each import EachCheck
    from xoptim.diagnose.hints import OpsetHint, OptionHint
    from xoptim.diagnose.report import Culprit
    from xoptim.precision.quantized import Quantized
    from xoptim.proof.observer import ProofObserver
    from xoptim.tuning.speed import SpeedCheck
    from xoptim.verification.judging.report import VerificationReport
    from xoptim.workflow.fitting import FittingOutcome


@dataclass(frozen=True, slots=True)
class SummaryDocument(JsonResult):
    """The summary of an optimization.

    Attributes:
        model: the file of the model.
        written: files that were written; empty when the result was refused.
        needed: files of another model whose weights the result needs.
        report: the HTML page; ``None`` without one.
        settings_file: the settings files in use, the strongest first; ``None`` without one.
        nodes_before: number of nodes, subgraphs included.
        nodes_after: number of nodes of the result.
        operators_before: number of nodes by operator.
        operators_after: number of nodes by operator, of the result.
        assumptions: assumptions in force, in addition to the default set.
        opset_before: version of the standard operator set; 0 for none.
        opset_after: version of the standard operator set of the result; 0 for none.
        bytes_before: size of the model and its weights.
        bytes_after: size of the result; ``None`` when it was refused.
        patterns: number of applications of each pattern.
        exactness: the weakest guarantee of the applied patterns and steps.
        unchecked_operators: operators of the result that ``onnx.checker`` does not know.
        load_seconds: time of loading, in seconds.
        optimize_seconds: time of optimizing, in seconds.
        verify_seconds: time of verification, in seconds.
        seconds: time by step, in seconds.
        verification: comparisons with the original, one for each execution provider.
        dropped: rewrites and steps that changed results and were dropped.
        each: the checks of single rewrites; ``None`` when they were not made.
        proofs: the proofs of single rewrites; ``None`` without ``--prove``.
        latency: times before and after; ``None`` when not measured.
        unfolded: results that were not folded because of their size; ``None`` without any.
        hints: options that would make the model smaller.
        remarks: lines of the printed summary about findings, and the first hints.
        unused_inputs: inputs of the result that nothing reads.
        dropped_inputs: inputs of the original that were removed.
        repetitions: blocks that are written once.
        target: the outcome of fitting to a target; ``None`` without one.
        precision: the quantization; ``None`` without one.
        only_if_faster: the measurements of ``--only-if-faster``; ``None`` without them.
    """

    __json__ = JsonForm(name="Summary")
    model: str
    written: Sequence[Path]
    needed: list[str]
    report: Path | None
    settings_file: str | None
    nodes_before: int
    nodes_after: int
    operators_before: dict[str, int]
    operators_after: dict[str, int]
    assumptions: tuple[str, ...]
    opset_before: int
    opset_after: int
    bytes_before: int
    bytes_after: int | None
    patterns: dict[str, int]
    exactness: Exactness
    unchecked_operators: list[str]
    load_seconds: float
    optimize_seconds: float
    verify_seconds: float
    seconds: dict[str, float]
    verification: list[VerificationReport]
    dropped: list[Culprit]
    each: EachCheck | None
    proofs: ProofObserver | None
    latency: Latency | None
    unfolded: Unfolded | None
    hints: Sequence[OpsetHint | OptionHint]
    remarks: list[str]
    unused_inputs: tuple[str, ...]
    dropped_inputs: tuple[str, ...]
    repetitions: tuple[Repetition, ...]
    target: FittingOutcome | None
    precision: Quantized | None
    only_if_faster: Annotated[SpeedReport, SpeedCheck] | None
