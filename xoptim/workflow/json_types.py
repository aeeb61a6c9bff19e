"""The types of JSON documents about jobs."""

from typing import TypedDict

from xoptim.bench.json_types import LatencyJson, SpeedJson
from xoptim.diagnose.json_types import (
    CulpritJson,
    EachJson,
    OpsetHintJson,
    OptionHintJson,
    UnfitPatternJson,
)
from xoptim.facts.dtypes import Exactness
from xoptim.passes.json_types import RepetitionJson, UnfoldedJson
from xoptim.precision.json_types import QuantizedJson
from xoptim.proof.json_types import ProofsJson
from xoptim.targets.json_types import FittedJson, PlacementJson, TargetCheckJson
from xoptim.verification.json_types import VerificationJson


class FittingJson(TypedDict):
    """The outcome of fitting a model to a target.

    Attributes:
        target: name of the target.
        original: placement of the original; null where it is not known.
        fitted: placements of the result, and the lowerings; null where the execution provider gave
            no answer.
        is_verified: whether the result was found equal on the target.
        verification: comparisons of the fitted model with the optimized one, on the processor.
        check: the comparison on the target; null when it was not made.
        dropped: lowerings that were dropped because they change results.
        avoided: nodes at which a lowering is not applied for that reason, by its name.
        newer: newer operator sets that lowerings of the remaining nodes need, by their names.
        unfit: patterns that would apply but are not used for the target.
        fault: why the execution provider gave no answer; empty when it did.
    """

    target: str
    original: PlacementJson | None
    fitted: FittedJson | None
    is_verified: bool
    verification: list[VerificationJson]
    check: TargetCheckJson | None
    dropped: list[str]
    avoided: dict[str, list[str]]
    newer: dict[str, int]
    unfit: list[UnfitPatternJson]
    fault: str


class SummaryJson(TypedDict):
    """The summary of an optimization.

    Attributes:
        model: the file of the model.
        written: files that were written; empty when the result was refused.
        needed: files of another model whose weights the result needs.
        report: the HTML page; null without one.
        settings_file: the settings files in use, the strongest first; null without one.
        nodes_before: number of nodes, subgraphs included.
        nodes_after: number of nodes of the result.
        operators_before: number of nodes by operator.
        operators_after: number of nodes by operator, of the result.
        assumptions: assumptions in force, in addition to the default set.
        opset_before: version of the standard operator set; 0 for none.
        opset_after: the same of the result.
        bytes_before: size of the model and its weights.
        bytes_after: size of the result; null when it was refused.
        patterns: number of applications of each pattern.
        exactness: the weakest guarantee of what was applied.
        unchecked_operators: operators of the result that `onnx.checker` does not know.
        load_seconds: time of loading, in seconds.
        optimize_seconds: time of optimizing, in seconds.
        verify_seconds: time of verification, in seconds.
        seconds: time by step, in seconds.
        verification: comparisons with the original, one for each execution provider.
        dropped: rewrites and steps that changed results and were dropped.
        each: the checks of single rewrites; null when they were not made.
        proofs: the proofs of single rewrites; null without `--prove`.
        latency: times before and after; null when not measured.
        unfolded: results that were not folded because of their size; null without any.
        hints: options that would make the model smaller.
        unused_inputs: inputs of the result that nothing reads.
        dropped_inputs: inputs of the original that were removed.
        repetitions: blocks that are written once.
        target: the outcome of fitting to a target; null without one.
        precision: the quantization; null without one.
        only_if_faster: the measurements of `--only-if-faster`; null without them.
    """

    model: str
    written: list[str]
    needed: list[str]
    report: str | None
    settings_file: str | None
    nodes_before: int
    nodes_after: int
    operators_before: dict[str, int]
    operators_after: dict[str, int]
    assumptions: list[str]
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
    verification: list[VerificationJson]
    dropped: list[CulpritJson]
    each: EachJson | None
    proofs: ProofsJson | None
    latency: LatencyJson | None
    unfolded: UnfoldedJson | None
    hints: list[OpsetHintJson | OptionHintJson]
    unused_inputs: list[str]
    dropped_inputs: list[str]
    repetitions: list[RepetitionJson]
    target: FittingJson | None
    precision: QuantizedJson | None
    only_if_faster: SpeedJson | None
