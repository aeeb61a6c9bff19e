"""Sensitivity analysis: the error that each candidate adds alone, and the time that it saves."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import onnx

from xoptim.catalogue.selection import resolve
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.advice import Advice
from xoptim.facts.progress import silent, with_progress
from xoptim.match.quantization import (
    FEWEST_STORED,
    BlockPattern,
    Observed,
    QuantizationPattern,
    RangedPattern,
    ScalingPattern,
    StoringPattern,
)
from xoptim.match.rewrite import Rewrite
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel, assuming
from xoptim.precision.block_preprocessing import BlockPreprocessor
from xoptim.precision.budget import SearchBudget
from xoptim.precision.calibration import calibrated
from xoptim.precision.candidates import Candidate, Form, find_candidates, with_dependents
from xoptim.precision.measured import UNMEASURED, Measured, OperatorCost
from xoptim.precision.options import Goal, PrecisionOptions, Scheme, samples_needed
from xoptim.precision.preprocessing import GELU_OPSET, Preprocessed, Preprocessor, with_least_opset
from xoptim.precision.reference import Errors
from xoptim.precision.routing import kept_values
from xoptim.precision.samples import Samples, samples_to_search
from xoptim.precision.scaled_errors import coarsest, scaled_errors
from xoptim.precision.schemes import (
    block_scaling_patterns,
    computing_patterns,
    operand_patterns,
    scaling_patterns,
    schemes_that_save_time,
    storing_patterns,
)
from xoptim.precision.subgraphs import ResultSubgraph
from xoptim.precision.switched_session import SwitchedSession
from xoptim.precision.symmetric import symmetric_ranges
from xoptim.precision.times import measure_costs
from xoptim.precision.weight_only import WeightOnlyQuantizer
from xoptim.verification.errors import ChoiceError, NothingToQuantizeError
from xoptim.verification.runs.session_settings import SessionSettings

_MAX_INTEGER_BITS: Final = 8
"""Most bits of a constant that is stored as integers."""
_OPERATOR_BITS: Final = 4
"""Bits of the integer weights that a float32 operator, such as MatMulNBits, reads."""


@dataclass(slots=True)
class Sensitivity:
    """The candidates of a model, with their measured errors and costs.

    Constants are measured only when they are needed: the weights of quantized operators rarely are.

    Attributes:
        preprocessed: the model, in an operator set that has all operators of quantization.
        patterns: that quantize operands.
        operators: with the error that each adds alone, and its cost.
        storable: the forms in which constants can be stored, with everything computed in float32.
        goal: ``speed``, or ``size`` if the caller asks for it, if the scheme saves no time, or if
            only weights are quantized.
        session: the session in which choices are tried.
        weight_only: stores constants.
        ranking: the samples on which candidates are measured alone.
        on_step: called with a description of each step.
    """

    preprocessed: Preprocessed
    patterns: Sequence[type[QuantizationPattern]]
    operators: Sequence[Measured]
    storable: Sequence[Candidate]
    goal: Goal
    session: SwitchedSession
    weight_only: WeightOnlyQuantizer
    ranking: range
    on_step: Callable[[str], object]
    _stored: dict[Form, Measured] = field(default_factory=dict)

    @property
    def samples(self) -> Samples:
        """The samples on which errors were measured."""
        return self.session.reference.samples

    @property
    def measured(self) -> list[Measured]:
        """The operators, and the constants that were measured."""
        return [*self.operators, *self._stored.values()]

    def constants(self, candidates: Iterable[Candidate]) -> list[Measured]:
        """Some of the constants, with the error that each adds alone.

        Constants that are not measured within the budget are missing.
        """
        candidates = [*candidates]
        missing = [candidate for candidate in candidates if candidate.form not in self._stored]
        coarse = coarsest(missing, self.session.reference.precision.metric)
        errors = self._constant_errors(coarse)
        errors |= scaled_errors(errors, coarse, missing, self.weight_only.rounding_error)
        errors |= self._constant_errors(
            candidate
            for candidate in missing
            if candidate.form not in errors and candidate not in coarse
        )
        self._stored |= {constant.form: constant for constant in _measured(missing, {}, errors)}
        return [
            self._stored[candidate.form]
            for candidate in candidates
            if candidate.form in self._stored
        ]

    def _constant_errors(self, constants: Iterable[Candidate]) -> dict[Form, Errors]:
        stage = "measuring the error of each constant"
        return measure_errors(self.session, constants, self.ranking, self.on_step, stage)


def analyze_sensitivity(
    verified: VerifiedModel,
    options: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
    budget: SearchBudget,
) -> Sensitivity:
    """Measure the error and the time of each operator of an optimized model when quantized.

    Args:
        verified: the optimized model.
        options: of its optimization.
        how: options of the verification.
        precision: the scheme, and the values to measure on.
        budget: the time of the search; operators that are not measured in it stay in float32.

    Raises:
        ChoiceError: values do not fit the model, or the scheme does not fit the provider.
        NothingToQuantizeError: no operator can be quantized.
        RunError, LoadError, FeedError: the model does not run.
    """
    how = how.checking(assuming(how.verify.checks, options))
    patterns, storing, goal = _patterns_of(precision, options)
    everything = [*patterns, *computing_patterns(precision)]
    model = with_least_opset(verified, _least_opset([*patterns, *storing], precision))
    samples = _samples(model, verified, precision, how)
    preprocessor = _preprocessor(everything, options, samples, how, precision, budget)
    settings = preprocessor.settings
    ready = _prepared(model, verified.base_dir, preprocessor, patterns, precision, options)
    model, folder = ready.model, ready.folder
    kept = kept_values(model, precision)
    operators, subgraphs = _operators(ready, everything, options, kept)
    weight_only = WeightOnlyQuantizer(model, folder, storing)
    constants = _constants(weight_only, operators, kept, precision, goal)
    if all(candidate.reads for candidate in (*operators, *constants)):
        reason = _all_routing() if kept else _nothing(model, precision.scheme, samples, patterns)
        raise NothingToQuantizeError(reason)
    cost_args = model, folder, operators, subgraphs, samples.to_time, settings
    costs = measure_costs(*cost_args, how.sink.on_step, budget)
    how.sink.on_step("loading the model with quantized operators")
    session_args = model, folder, subgraphs, weight_only, constants, samples
    session = SwitchedSession(*session_args, precision, settings)
    session.limit(budget)
    ranking = samples.to_rank(_multiplications(operators, costs))
    errors = measure_errors(session, operators, ranking, how.sink.on_step)
    measured = _measured(operators, costs, errors)
    return Sensitivity(
        ready, patterns, measured, constants, goal, session, weight_only, ranking, how.sink.on_step
    )


def _operators(
    ready: Preprocessed,
    patterns: Sequence[type[Rewrite]],
    options: OptimizationOptions,
    kept: Collection[str],
) -> tuple[list[Candidate], dict[Form, ResultSubgraph]]:
    """The operators that can be quantized, except those whose result or weights are in ``kept``."""
    operators, subgraphs = find_candidates(
        ready.model, ready.folder, patterns, options.provider, ready.observed, cpu=options.cpu
    )
    operators = [operator for operator in operators if not operator.touches(kept)]
    return operators, {operator.form: subgraphs[operator.form] for operator in operators}


def _multiplications(operators: Iterable[Candidate], costs: Mapping[Form, OperatorCost]) -> int:
    """The multiplications of all operators in a run, each counted in one form."""
    forms = {operator.result: operator.form for operator in operators}
    return sum(costs[form].multiplications for form in forms.values())


def _preprocessor(
    patterns: Sequence[type[Rewrite]],
    options: OptimizationOptions,
    samples: Samples,
    how: Plan,
    precision: PrecisionOptions,
    budget: SearchBudget,
) -> Preprocessor:
    settings = replace(how.verify.checks.settings, level="all")  # as a user runs models
    observe = partial(_observed, samples=samples, precision=precision, settings=settings)
    hardware = options.provider, options.cpu
    return Preprocessor(patterns, *hardware, samples, how, settings, observe, budget)


def _prepared(
    model: onnx.ModelProto,
    folder: Path | None,
    preprocessor: Preprocessor,
    patterns: Sequence[type[QuantizationPattern]],
    precision: PrecisionOptions,
    options: OptimizationOptions,
) -> Preprocessed:
    preprocessor.how.sink.on_step("looking for scales with a smaller error")
    scalings = _scaling_patterns_of(precision)
    ready = preprocessor.run(model, folder, scalings, joins_gelu=_joins_gelu(precision, options))
    return _with_rounded_weights(ready, patterns, preprocessor, precision)


def _samples(
    model: onnx.ModelProto, verified: VerifiedModel, precision: PrecisionOptions, how: Plan
) -> Samples:
    """The values to measure on; raises `ChoiceError` where static scales have none."""
    how.sink.on_step("looking for values to measure on")
    samples = samples_to_search(model, verified.base_dir, precision, how.verify.checks)
    if precision.static and samples.are_random:
        raise ChoiceError(samples_needed())
    return samples


def _patterns_of(
    precision: PrecisionOptions, options: OptimizationOptions
) -> tuple[list[type[QuantizationPattern]], list[type[StoringPattern]], Goal]:
    """The patterns that quantize operands, those that store constants, and the goal."""
    patterns = operand_patterns(precision, options.patterns)
    storing = storing_patterns(precision.scheme)
    if precision.bits > _OPERATOR_BITS:
        storing = [cls for cls in storing if cls.bits >= precision.bits]
    goal = precision.goal if precision.scheme in schemes_that_save_time() else "size"
    if precision.weights_only:
        # A constant that is only stored is widened when the model is loaded. Operators that read
        # 4-bit weights are candidates of their own.
        storing = [cls for cls in storing if cls.bits != _OPERATOR_BITS]
        goal = "size"  # times on this CPU say nothing about the target
    if all(pattern().unfit_for(None, options.provider) for pattern in (*patterns, *storing)):
        raise ChoiceError(
            f"{precision.scheme} is for the provider cpu; use float16 for {options.provider}"
        )
    return patterns, storing, goal


def _scaling_patterns_of(precision: PrecisionOptions) -> list[type[ScalingPattern]]:
    """The patterns that move scales, none where activations stay in float32."""
    return [] if precision.weights_only else scaling_patterns(precision.scheme)


def _joins_gelu(precision: PrecisionOptions, options: OptimizationOptions) -> bool:
    """Whether formulas become Gelu: with static scales, unless ``opset`` is too old."""
    is_older = isinstance(options.opset, int) and options.opset < GELU_OPSET
    return precision.static and not is_older


def _constants(
    weight_only: WeightOnlyQuantizer,
    operators: Sequence[Candidate],
    kept: Collection[str],
    precision: PrecisionOptions,
    goal: Goal,
) -> list[Candidate]:
    """The constants that can be stored in lower precision, except those in ``kept``."""
    constants = weight_only.candidates(operators, keep_small=goal == "speed")
    constants = [constant for constant in constants if not constant.touches(kept)]
    if precision.is_weight_only_float16:
        return _without_integers_of(operators, constants)
    return constants


def _without_integers_of(
    operators: Iterable[Candidate], constants: Iterable[Candidate]
) -> list[Candidate]:
    """The forms of constants, without integer forms of weights that operators read as integers.

    Float16 kernels read the integers of an operator's weights, but a constant that is only stored
    as integers is widened when the model is loaded.
    """
    readable = {operator.weights for operator in operators}
    return [
        constant
        for constant in constants
        if constant.weights not in readable or constant.element_bits > _MAX_INTEGER_BITS
    ]


def measure_errors(
    session: SwitchedSession,
    candidates: Iterable[Candidate],
    indices: range,
    on_step: Callable[[str], object] = silent,
    stage: str = "measuring the error of each operator",
) -> dict[Form, Errors]:
    """The errors of the model when one candidate is quantized, with all that share its weights.

    An operator that is quantized because its inputs are quantized adds no error alone. The largest
    candidates are measured first, and none after the end of the budget.

    Args:
        session: runs the model.
        candidates: operators or constants.
        indices: of the samples.
        on_step: called before each candidate.
        stage: the description that ``on_step`` gets.
    """
    candidates = [*candidates]
    alone = [candidate for candidate in candidates if not candidate.reads]
    zeros = (0.0,) * session.reference.count
    errors = {candidate.form: zeros for candidate in candidates if candidate.reads}
    ranked = sorted(alone, key=lambda candidate: -math.prod(candidate.shape))
    for candidate in with_progress(ranked, stage, on_step):
        if session.budget.is_over():
            break
        errors[candidate.form] = session.errors(with_dependents([candidate], alone), indices)
    return errors


def _measured(
    candidates: Iterable[Candidate],
    costs: Mapping[Form, OperatorCost],
    errors: Mapping[Form, Errors],
) -> list[Measured]:
    """The candidates with errors: those that were measured or that depend on others."""
    return [
        Measured(candidate, costs.get(candidate.form, UNMEASURED), errors[candidate.form])
        for candidate in candidates
        if candidate.form in errors
    ]


def _observed(
    model: onnx.ModelProto,
    folder: Path | None,
    samples: Samples,
    precision: PrecisionOptions,
    settings: SessionSettings,
) -> Observed:
    """The facts about tensors that patterns of the scheme need; none from random samples."""
    ranged = [cls for cls in operand_patterns(precision) if issubclass(cls, RangedPattern)]
    present = {node.op_type for node in model.graph.node}
    op_types = {op_type for cls in ranged for op_type in cls.anchors if present & {*cls.operators}}
    scaled = {
        op_type.rpartition("::")[2]
        for cls in scaling_patterns(precision.scheme)
        for op_type in cls.anchors
    }
    if samples.are_random or not (op_types or present & scaled):
        return Observed()
    feeds = [samples.feeds[index] for index in samples.to_choose]
    facts = calibrated(model, folder, op_types, feeds, precision.calibration, settings)
    return facts._replace(ranges=symmetric_ranges(facts.ranges)) if precision.symmetric else facts


def _least_opset(patterns: Sequence[type[QuantizationPattern]], precision: PrecisionOptions) -> int:
    opsets = [cls.min_opset for cls in patterns]
    if any(issubclass(cls, BlockPattern) for cls in patterns):
        opsets.append(precision.block_format.opset)
    return max(opsets)


def _with_rounded_weights(
    ready: Preprocessed,
    patterns: Sequence[type[QuantizationPattern]],
    preprocessor: Preprocessor,
    precision: PrecisionOptions,
) -> Preprocessed:
    """The model with the integers of the weights that patterns quantize in blocks."""
    blocks = [cls for cls in patterns if issubclass(cls, BlockPattern)]
    if not blocks:
        return ready
    op_types = {op_type for cls in blocks for op_type in cls.operators}
    rounding = replace(preprocessor, patterns=blocks)
    steps = BlockPreprocessor(rounding, precision.block_format, op_types)
    return steps.run(ready, block_scaling_patterns(precision.scheme))


def _all_routing() -> str:
    """The reason if a choice inside the model depends on all operators and constants."""
    return (
        "all that could be quantized determines what TopK, ArgMax or ArgMin choose inside the model"
    )


def _nothing(
    model: onnx.ModelProto,
    scheme: Scheme,
    samples: Samples,
    patterns: Sequence[type[QuantizationPattern]],
) -> str:
    """The reason why no operator or constant can be quantized."""
    contrib = [
        cls
        for cls in resolve(scheme)
        if issubclass(cls, QuantizationPattern) and cls.produces and cls not in patterns
    ]
    op_types = sorted(
        {op_type for cls in contrib for op_type in cls.anchors or ()}
        & {node.op_type for node in model.graph.node}
    )
    if op_types:
        return (
            f"{' and '.join(op_types)} can be quantized to {scheme} only with ONNX Runtime contrib "
            f"operators; add {Advice('include', 'onnxruntime')}"
        )
    if (
        scheme == "int8"
        and samples.are_random
        and any(node.op_type == "Conv" for node in model.graph.node)
    ):
        return (
            "quantizing Conv to int8 needs the ranges of its inputs; give samples with "
            f"{Advice('samples', 'FILE.npz')} or a folder"
        )
    if model.functions:
        return f"nothing can be quantized to {scheme} in local functions; add {Advice('inline')}"
    return (
        f"nothing can be quantized to {scheme}: no operator has constant float32 weights "
        f"of at least {FEWEST_STORED} values (those of a quantized model are integers already)"
    )
