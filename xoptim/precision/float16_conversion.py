"""Float16 conversion: operators compute in float16, except where numbers overflow or where most of
the error arises.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import tolerance
from xoptim.facts.operators import operator_label, short_name
from xoptim.facts.protos import every_node, own_graphs
from xoptim.graph.sources import Source
from xoptim.match.quantization import (
    MASK,
    Observed,
    QuantizationPattern,
    RangedPattern,
    first_result,
)
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel
from xoptim.precision.attempts import PrecisionAttempt, fastest
from xoptim.precision.body_constants import BodyConstants
from xoptim.precision.budget import SearchBudget
from xoptim.precision.calibration import Probe, Ranges
from xoptim.precision.candidates import Candidate
from xoptim.precision.choices import choices_of
from xoptim.precision.fake_quantization import fake_quantized, rewritten
from xoptim.precision.float16_io import with_float16_feeds, with_float16_io
from xoptim.precision.measured import Measured
from xoptim.precision.metrics import METRICS
from xoptim.precision.options import FLOAT16_COMPUTE_TAG, PrecisionOptions
from xoptim.precision.plan import QuantizationPlan
from xoptim.precision.preprocessing import with_least_opset
from xoptim.precision.reference import FloatReference
from xoptim.precision.routing import kept_values
from xoptim.precision.samples import Samples, samples_to_search
from xoptim.precision.schemes import quantization_patterns
from xoptim.verification.errors import NothingToQuantizeError
from xoptim.verification.runs.session import Port, Value
from xoptim.verification.runs.session_settings import SessionSettings

_NOTHING: Final = (
    "nothing can be computed in float16: no float32 MatMul, Gemm or Conv stays within its range"
)
_INNER: Final = "compute in float32: samples do not show their ranges"
KERNEL_PROVIDER: Final = "cuda"
"""The provider whose kernels the operators must have: CPUs compute in float32."""


@dataclass(frozen=True, slots=True)
class _Float16Candidates:
    """The operators of a model that can compute in float16.

    Attributes:
        model: the float32 model.
        folder: of its external data.
        patterns: that round results to float16.
        candidates: the operators of the main graph.
        first: results of the candidates that the first attempt converts.
        observed: the ranges of tensors on samples.
        inner: the operators of subgraphs that stay in float32, and the reason, in words.
    """

    model: onnx.ModelProto
    folder: Path | None
    patterns: Sequence[type[QuantizationPattern]]
    candidates: Sequence[Candidate]
    first: Collection[str]
    observed: Observed
    inner: str

    def rounded(self, chosen: Iterable[Candidate]) -> tuple[onnx.ModelProto, dict[str, str]]:
        """The model with chosen results rounded to float16 and computed in float32, and the pattern
        of each rounded result.
        """
        only = dict(candidate.form for candidate in chosen)
        return fake_quantized(
            self.model, self.folder, self.patterns, only, KERNEL_PROVIDER, self.observed
        )


def float16_plan(
    verified: VerifiedModel,
    options: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
    budget: SearchBudget,
    reference: FloatReference | None = None,
) -> QuantizationPlan:
    """As many operators of an optimized model in float16 as the tolerance allows.

    The first attempt converts MatMul, Gemm, Conv and the operators around them, if their numbers
    stay far from the limits of float16 on the samples. While the error is too large, the operators
    that add most to the error of their operands return to float32. For the goal ``speed`` with
    float32 inputs and outputs, no operator is converted if the model runs on CUDA and is not faster
    in float16. Bodies of If, Loop and Scan compute in float32, with constants in float16.

    Args:
        verified: the optimized model.
        options: of its optimization.
        how: options of the verification.
        precision: the error allowed.
        budget: the time of the search.
        reference: the outputs to measure errors against; ``None`` for those of the optimized model.

    Raises:
        NothingToQuantizeError: no operator can compute in float16.
        ChoiceError, RunError, LoadError, FeedError: the model does not run on the values.
    """
    patterns, folder = quantization_patterns(FLOAT16_COMPUTE_TAG), verified.base_dir
    model = with_least_opset(verified, max(pattern.min_opset for pattern in patterns))
    samples = _samples(model, folder, precision, how, reference)
    settings = replace(how.verify.checks.settings, level="all")
    how.sink.on_step("measuring the error in float16")
    operators = _float16_candidates(model, folder, patterns, samples, precision, settings)
    constants = BodyConstants(model, folder, kept_values(model, precision))
    if not operators.first and not constants.candidates:
        raise NothingToQuantizeError(operators.inner or _NOTHING)
    reference = reference or FloatReference.of(model, folder, samples, precision, settings)
    rounded, applied, measured = _within(operators, reference, precision.tolerance, budget)
    attempt = PrecisionAttempt(rounded, applied, rounded)
    if precision.io_types == "float16":
        rounded = with_float16_io(rounded)
    elif _is_slower(Source(model, folder), attempt, how, precision, options, reference):
        rounded, applied = model, {}
    rounded, stored = constants.stored(rounded, reference, precision.tolerance)
    applied |= stored
    candidates = [*measured, *map(Measured, constants.candidates)]
    choices = choices_of(candidates, applied, is_timed=False)
    goal, inner = precision.goal, operators.inner
    return QuantizationPlan(rounded, folder, applied, choices, goal, reference, inner=inner)


def _float16_candidates(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[QuantizationPattern]],
    samples: Samples,
    precision: PrecisionOptions,
    settings: SessionSettings,
) -> _Float16Candidates:
    """The operators that can compute in float16; see `_Float16Candidates`."""
    _, applied = fake_quantized(model, folder, patterns, None, KERNEL_PROVIDER)
    ranged = [cls for cls in patterns if issubclass(cls, RangedPattern)]
    work = {op_type for cls in ranged for op_type in cls.operators}
    feeds = [samples.feeds[index] for index in samples.to_choose]
    observed = _observed(model, folder, applied, feeds, settings)
    _, applied = fake_quantized(model, folder, patterns, None, KERNEL_PROVIDER, observed)
    nodes = [node for node in model.graph.node if first_result(node) in applied]
    first = {*map(first_result, nodes)} if precision.everywhere else region(model, nodes, work)
    kept = kept_values(model, precision)
    candidates = [
        Candidate(name, node.name, applied[name], node.op_type, (0, 0))
        for node in nodes
        if (name := first_result(node)) and name not in kept
    ]
    inner = inner_work(model, applied, work)
    return _Float16Candidates(model, folder, patterns, candidates, first - kept, observed, inner)


def _samples(
    model: onnx.ModelProto,
    folder: Path | None,
    precision: PrecisionOptions,
    how: Plan,
    reference: FloatReference | None,
) -> Samples:
    how.sink.on_step("looking for values to measure on")
    if reference is not None:
        return reference.samples
    return samples_to_search(model, folder, precision, how.verify.checks)


def _is_slower(
    original: Source,
    attempt: PrecisionAttempt,
    how: Plan,
    precision: PrecisionOptions,
    options: OptimizationOptions,
    reference: FloatReference,
) -> bool:
    """Whether CUDA runs here, the goal is ``speed``, and the float16 model is not faster."""
    is_measured = _is_at_hand(how) and precision.goal == "speed"
    return is_measured and not _is_faster(original, attempt, options, reference)


def _is_at_hand(how: Plan) -> bool:
    return any(short_name(provider) == KERNEL_PROVIDER for provider in how.verify.checks.providers)


def _is_faster(
    original: Source,
    rounded: PrecisionAttempt,
    options: OptimizationOptions,
    reference: FloatReference,
) -> bool:
    source = Source(rounded.model, original.base_dir)
    attempt = replace(rounded, model=rewritten(source, replace(options, on_application=None)))
    feeds, settings = reference.samples.to_time, reference.settings
    return fastest(original, [attempt], feeds, settings) is not None


def inner_work(model: onnx.ModelProto, results: Collection[str], work: Collection[str]) -> str:
    """The number of operators in bodies of If, Loop and Scan that could compute in float16, and the
    reason why they do not; empty if there are none.

    Args:
        model: the model.
        results: first results of the nodes that can compute in float16, in all graphs.
        work: the operators that are worth the Casts around them.
    """
    counts = Counter[str]()
    for owner in every_node(model.graph.node):
        nodes = (node for graph in own_graphs(owner) for node in graph.node)
        counts.update(
            f"{node.op_type} in {owner.op_type}"
            for node in nodes
            if first_result(node) in results and operator_label(node.op_type, node.domain) in work
        )
    texts = ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))
    return f"{texts} {_INNER}" if texts else ""


def _within(
    operators: _Float16Candidates, reference: FloatReference, tolerance: float, budget: SearchBudget
) -> tuple[onnx.ModelProto, dict[str, str], list[Measured]]:
    """Round as many results of the first attempt as the tolerance allows.

    Returns:
        The model; the pattern of each rounded result; and the candidates with the error that each
        adds, which is measured only if not all of them can be rounded.
    """
    candidates = operators.candidates
    first = [candidate for candidate in candidates if candidate.result in operators.first]
    rounded, applied = operators.rounded(first)
    error = reference.unseen_error_of(rounded, operators.folder)
    growth = _growth(operators, rounded, reference) if error > tolerance else {}
    measured = [
        Measured(candidate, errors=(growth.get(candidate.result, 0.0),)) for candidate in candidates
    ]
    suspects = [suspect for suspect in measured if suspect.result in operators.first]
    suspects.sort(key=lambda suspect: (-suspect.error, suspect.result))
    count = 1
    while error > tolerance and applied:
        rounded, applied = operators.rounded(suspect.candidate for suspect in suspects[count:])
        error = reference.unseen_error_of(rounded, operators.folder)
        count = len(suspects) if budget.is_over() else 2 * count
    return rounded, applied, measured


def float16_verify_plan(how: Plan, model: onnx.ModelProto, precision: PrecisionOptions) -> Plan:
    """The plan with verification options for a model that computes in float16.

    If the caller gives no tolerance, one is set: a CPU runs the compared model in float32 and
    rounds at other places. Values for float16 inputs are converted.
    """
    checks = how.verify.checks
    if checks.rtol is None and checks.ulp is None:
        rtol = max(tolerance(TensorProto.FLOAT16, "rounding").rtol, precision.tolerance)
        checks = replace(checks, rtol=rtol, of_largest=True)
    if precision.io_types == "float16":
        ports = [
            Port(value.name, "tensor(float16)")
            for value in model.graph.input
            if _type(value) == TensorProto.FLOAT16
        ]
        checks = replace(checks, feeds=with_float16_feeds(checks.feeds, ports), test_data=None)
    return how.checking(checks)


def _type(value: onnx.ValueInfoProto) -> int:
    return value.type.tensor_type.elem_type


def region(
    model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto], work: Collection[str]
) -> set[str]:
    """The first results of the nodes to compute in float16: MatMul, Gemm and Conv, and the nodes
    around them.

    Args:
        model: the model.
        nodes: the nodes that can compute in float16, in the order of the graph.
        work: operators that are worth the Casts around them; other operators join them only if that
            saves a Cast.
    """
    by_result = {first_result(node): node for node in nodes}
    makers = {name: result for result, node in by_result.items() for name in node.output if name}
    readers: dict[str, list[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(makers.get(name, ""), []).append(first_result(node))
    output_makers = {makers.get(value.name, "") for value in model.graph.output}
    members = {
        result
        for result, node in by_result.items()
        if operator_label(node.op_type, node.domain) in work
    }
    stack = list(members)
    while stack:
        result = stack.pop()
        producers = {
            makers[name] for name in by_result[result].input if name in makers
        } - output_makers
        additions = {producer for producer in producers if members.issuperset(readers[producer])}
        additions |= {reader for reader in readers.get(result, ()) if reader in by_result}
        stack += sorted(additions - members)
        members |= additions
    return members


def _observed(
    model: onnx.ModelProto,
    folder: Path | None,
    results: Collection[str],
    feeds: Sequence[Mapping[str, Value]],
    settings: SessionSettings,
) -> Observed:
    """The ranges of operands and results of operators, without numbers of masks that stand for
    infinity.
    """
    nodes = [node for node in model.graph.node if first_result(node) in results]
    outputs = {name for node in model.graph.node for name in node.output if name}
    names = {name for node in nodes for name in (*node.input, *node.output)}
    probe, ranges = Probe(model, folder, names & outputs, settings), Ranges("minmax")
    for sample in feeds:
        values = {
            name: value
            for name, value in probe.run(sample).items()
            if name in names and isinstance(value, np.ndarray)
        }
        ranges.add(
            {
                name: value[np.abs(value) < MASK]
                for name, value in values.items()
                if value.dtype == np.float32
            }
        )
    return Observed(ranges.by_name())


def _growth(
    operators: _Float16Candidates, rounded: onnx.ModelProto, reference: FloatReference
) -> dict[str, float]:
    """For each operator, how much the error of its result exceeds the largest error of its
    operands.
    """
    model, folder = operators.model, operators.folder
    results = {candidate.result for candidate in operators.candidates}
    nodes = {result: node for node in model.graph.node if (result := first_result(node)) in results}
    outputs = {name for node in model.graph.node for name in node.output if name}
    names = {name for result, node in nodes.items() for name in (*node.input, result)} & outputs
    feeds, settings = reference.samples.feeds[0], reference.settings
    plain, float16 = (
        Probe(proto, folder, names, settings).run(feeds) for proto in (model, rounded)
    )
    errors = {name: _error(plain[name], float16[name]) for name in names}

    def growth(result: str, node: onnx.NodeProto) -> float:
        largest = max((errors.get(name, 0.0) for name in node.input), default=0.0)
        return 0.0 if math.isinf(largest) else errors[result] - largest

    return {result: growth(result, node) for result, node in nodes.items()}


def _error(expected: Value, actual: Value) -> float:
    if (
        not isinstance(expected, np.ndarray)
        or not isinstance(actual, np.ndarray)
        or expected.dtype != np.float32
    ):
        return 0.0
    if expected.shape != actual.shape:
        return math.inf
    finite = np.isfinite(expected)
    if not np.isfinite(actual[finite]).all():
        return math.inf
    if not finite.any():
        return 0.0
    return METRICS["rms"](expected[finite].astype(np.float64), actual[finite].astype(np.float64))
