"""Quantize as many operators of a model as a tolerance allows, and verify the graph that computes
with the integers.

Stages: `Candidate` (what can be quantized) → `Measured` (error and time) → `QuantizationChoice`
(what was decided, and why) → `Quantized` (the result).
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final

from xoptim.bench.int8 import INSTRUCTIONS, int8_time_ratio
from xoptim.catalogue.query import Query
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.advice import Advice
from xoptim.facts.operators import short_name
from xoptim.graph.sources import Source
from xoptim.match.rewrite import Rewrite
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel, as_it_is, assuming, optimize_verified
from xoptim.precision.attempts import best_plan
from xoptim.precision.budget import SearchBudget
from xoptim.precision.float16_conversion import KERNEL_PROVIDER, float16_plan, float16_verify_plan
from xoptim.precision.float16_scales import OPSET as FLOAT16_SCALES_OPSET, with_float16_scales
from xoptim.precision.measured import FASTER
from xoptim.precision.options import FLOAT16_COMPUTE_TAG, PrecisionOptions
from xoptim.precision.plan import QuantizationPlan
from xoptim.precision.preprocessing import RESIZE_WITH_AXES, with_least_opset
from xoptim.precision.quantized import Quantized
from xoptim.precision.record import record
from xoptim.precision.reference import FloatReference, largest_errors
from xoptim.precision.routing import has_routers, is_untested, routings
from xoptim.precision.schemes import computing_patterns, integer_patterns
from xoptim.precision.sensitivity import analyze_sensitivity
from xoptim.precision.sources import with_samples
from xoptim.precision.symmetric import use_signed_activations
from xoptim.system.machine import instructions
from xoptim.verification.errors import ChoiceError, NothingToQuantizeError

_LOGGER: Final = logging.getLogger("xoptim")
_SHARE_OF_WEIGHTS: Final = 0.9
"""Part of the tolerance for quantized weights; computing in float16 gets the rest."""
_MATMUL_N_BITS: Final = "MatMulNBits"
_AFTERWARDS: Final = ("FusedConv",)
"""Patterns that wait until after quantization: they fuse operators that QDQ may separate."""


def before_quantization(options: OptimizationOptions) -> OptimizationOptions:
    """The options of the optimization before quantization, without the steps that come afterwards:
    the outlining of repeated blocks, and `_AFTERWARDS`.
    """
    return replace(options, outline=False, drop=(*options.drop, *_AFTERWARDS))


def quantize(
    verified: VerifiedModel,
    options: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
) -> Quantized:
    """Quantize as many operators of an optimized model as the tolerance allows, first those that
    save most for their error.

    There are two steps. First, operands become quantized numbers, but operators compute in float32
    (fake quantization). Only this step changes results beyond rounding, and its error is measured.
    Then the operators compute with integers. This model is verified against the fake-quantized one.
    If nothing can be quantized within the tolerance, the result is the optimized model itself.

    Args:
        verified: the optimized model.
        options: of its optimization.
        how: options of the verification.
        precision: the scheme, and the error allowed.

    Raises:
        ChoiceError: values do not fit the model, or options contradict each other.
        RunError, LoadError, FeedError: the model does not run.
    """
    in_float16 = precision.computes_in_float16(options.provider)
    if precision.io_types == "float16" and not in_float16:
        raise ChoiceError(
            "float16 inputs and outputs need operators that compute in float16: "
            f"{Advice('compute', 'float16')}"
        )
    start = perf_counter()
    precision = with_samples(precision, verified.proto)
    may_repeat = _avoids_untested_routing(precision) and has_routers(verified.proto)
    budget = SearchBudget(_seconds_of_search(precision, start, may_repeat=may_repeat))
    result = _routed(verified, options, how, precision, budget)
    if may_repeat and is_untested(result.routing):
        routing = result.routing
        how.sink.discard(result.verified.proto)
        del result  # with its model, before the next search needs the memory
        budget = SearchBudget(_seconds_of_search(precision, start, may_repeat=False))
        precision = replace(precision, exact_routing=True)
        result = _routed(verified, options, how, precision, budget)
        result = replace(result, avoided_routing=routing)
    return replace(result, seconds=perf_counter() - start, ended_by_budget=budget.ended_search)


def _avoids_untested_routing(precision: PrecisionOptions) -> bool:
    """Whether routing stays exact if the samples do not show what its changes do to the outputs.

    Only the metric ``largest`` bounds each element: a few changed choices hardly change a mean.
    Routing that float16 changes is accepted: models are trained and run in 16 bits.
    """
    if precision.exact_routing is not None or precision.metric != "largest":
        return False
    return precision.scheme in ("int8", "int4")


def _seconds_of_search(
    precision: PrecisionOptions, start: float, *, may_repeat: bool
) -> float | None:
    """The time of a search that begins now: half of the budget if another one may follow, else the
    rest of it, which is at least half.
    """
    if precision.budget is None:
        return None
    half = precision.budget / 2
    return half if may_repeat else max(half, precision.budget - (perf_counter() - start))


def _routed(
    verified: VerifiedModel,
    options: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
    budget: SearchBudget,
) -> Quantized:
    """The quantized model, with how often quantization changes routing; see `quantize`."""
    try:
        result = (
            _weights_for_float16(verified, options, how, precision, budget)
            if precision.is_weight_only_float16
            else _quantized(verified, options, how, precision, budget)
        )
    except NothingToQuantizeError as error:
        model = _in_float32(verified, options, how)
        in_float16 = precision.computes_in_float16(options.provider)
        return Quantized(model, (), precision, reason=str(error), in_float16=in_float16)
    if not result.applied and precision.io_types == "float32":
        how.sink.discard(result.verified.proto)
        model = _in_float32(verified, options, how)
        reason = "no operator was chosen" if budget.ended_search else _unfit(result)
        return replace(result, verified=model, comparisons=(), worst=None, reason=reason)
    return with_routing(result, verified, how)


def with_routing(result: Quantized, original: VerifiedModel, how: Plan) -> Quantized:
    """A result, with how often quantization changes routing inside the model."""
    if result.reason or result.fault:
        return result
    models = [(model.proto, model.base_dir) for model in (original, result.verified)]
    how.sink.on_step("comparing choices inside the model")
    routing = routings(models, result.samples.feeds, how.verify.checks.settings)
    return replace(result, routing=routing)


def _weights_for_float16(
    verified: VerifiedModel,
    options: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
    budget: SearchBudget,
) -> Quantized:
    """The model with weights of at most 8 bits, computed in float16.

    The error of both steps together is measured against the optimized model.
    """
    weight_precision = replace(
        precision,
        io_types="float32",
        weights_only=True,
        tolerance=_SHARE_OF_WEIGHTS * precision.tolerance,
        tolerances={
            name: _SHARE_OF_WEIGHTS * tolerance for name, tolerance in precision.tolerances.items()
        },
    )
    cpu_options = replace(options, provider="cpu", max_growth=0)
    quantized = _quantized(verified, cpu_options, how, weight_precision, budget)
    if quantized.fault or not quantized.applied:
        return replace(quantized, options=precision, in_float16=True)
    settings = replace(how.verify.checks.settings, level="all")
    original = with_least_opset(verified, FLOAT16_SCALES_OPSET), verified.base_dir
    reference = FloatReference.of(*original, quantized.samples, precision, settings)
    source = Source(with_float16_scales(quantized.verified.proto), quantized.verified.base_dir)
    model = joined(quantized.verified, as_it_is(source, cpu_options, how))
    float16_precision = replace(precision.with_scheme("float16"), compute="float16")
    if _runs_contrib_operators(options):
        options = replace(options, patterns=Query.of(options.patterns).including(_MATMUL_N_BITS))
    result = _quantized(model, options, how, float16_precision, budget, reference)
    count = f"{len(result.operators)} operators in float16"
    return replace(
        result,
        comparisons=[*quantized.comparisons, *result.comparisons],
        options=replace(precision, goal=quantized.options.goal),
        choices=quantized.choices,
        applied={**result.applied, **quantized.applied},
        description=", ".join([*quantized.counts, count]),
        preprocessing=(*quantized.preprocessing, *result.preprocessing),
    )


def _runs_contrib_operators(options: OptimizationOptions) -> bool:
    """Whether the model is for a GPU on which onnxruntime has MatMulNBits."""
    return short_name(options.provider) == "cuda" or options.target in ("cuda", "webgpu")


def _quantized(
    verified: VerifiedModel,
    options: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
    budget: SearchBudget,
    reference: FloatReference | None = None,
) -> Quantized:
    """The quantized model; see `quantize`.

    Errors are measured against ``reference``; if it is ``None``, against ``verified``.
    """
    in_float16 = precision.scheme == "float16" and precision.computes_in_float16(options.provider)
    how = how.checking(assuming(how.verify.checks, options))
    if in_float16:
        rewriting = _computing(
            options, integer_patterns(FLOAT16_COMPUTE_TAG), provider=KERNEL_PROVIDER
        )
        plan = float16_plan(verified, rewriting, how, precision, budget, reference)
        how = float16_verify_plan(how, plan.model, precision)
    else:
        rewriting = _computing(options, computing_patterns(precision), provider=options.provider)
        rewriting = replace(rewriting, drop=(*rewriting.drop, *RESIZE_WITH_AXES))
        plan = _chosen(verified, options, rewriting, how, precision, budget)
    if plan.applied:
        record(plan.model, precision, plan.reference.samples)
    verify_plan = replace(how.reloading(), verify=replace(how.verify, each=True))
    result = optimize_verified(Source(plan.model, plan.folder), rewriting, verify_plan)
    how.sink.on_step("measuring the error")
    errors = plan.reference.errors_of(result.proto, result.base_dir)
    if in_float16:  # CPUs compute the converted model in float32
        errors = largest_errors((errors, plan.reference.errors_of(plan.model, plan.folder)))
    return Quantized(
        joined(verified, result),
        [report for model in (*plan.preprocessing, result) for report in model.reports],
        replace(precision, goal=plan.goal),
        plan.choices,
        plan.applied,
        plan.reference.worst(errors),
        plan.reference.samples,
        inner=plan.inner,
        in_float16=in_float16,
        preprocessing=plan.preprocessing,
        activations=plan.activations,
        cpu=options.cpu,
    )


def _chosen(
    verified: VerifiedModel,
    options: OptimizationOptions,
    rewriting: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
    budget: SearchBudget,
) -> QuantizationPlan:
    """The choice of operators and constants.

    ``rewriting`` are the options of the optimization that makes operators compute with integers.
    """
    if precision.scheme == "int8" and precision.is_timed and not precision.weights_only:
        _check_gain(options)
    sensitivity = analyze_sensitivity(verified, options, how, precision, budget)
    how.sink.on_step("choosing operators")
    plan = best_plan(
        sensitivity, precision, rewriting, replace(how.verify.checks.settings, level="all")
    )
    if precision.symmetric:
        use_signed_activations(plan.model)
    return plan


def _check_gain(options: OptimizationOptions) -> None:
    """Warn where the CPU has no int8 instructions, before the search.

    Raises `NothingToQuantizeError` where int8 is not faster.
    """
    available = instructions()
    if short_name(options.provider) != "cpu" or available is None or INSTRUCTIONS & available:
        return
    time_ratio = int8_time_ratio()
    cause = "this CPU has no int8 instructions"
    text = f"{cause}: an int8 MatMul takes {time_ratio:.2f} of the float32 time"
    if time_ratio > FASTER:
        smallest = Advice("for", "size", "makes the smallest file")
        raise NothingToQuantizeError(f"{text}; {smallest}")
    _LOGGER.warning("%s", text)


def _computing(
    options: OptimizationOptions, patterns: Sequence[type[Rewrite]], provider: str
) -> OptimizationOptions:
    """The options of the optimization that lets operators compute with quantized numbers."""
    computing: list[Query | type[Rewrite]] = [Query.of(options.patterns), *patterns]
    # quantized weights are not expanded again
    return replace(options, patterns=computing, opset=None, max_growth=0, provider=provider)


def _in_float32(verified: VerifiedModel, options: OptimizationOptions, how: Plan) -> VerifiedModel:
    """The optimized model, with the patterns that `before_quantization` drops."""
    how.sink.on_step("writing the float32 model")
    source = Source(verified.proto, verified.base_dir)
    return joined(verified, optimize_verified(source, options, how.reloading()))


def _unfit(result: Quantized) -> str:
    """The reason why nothing was quantized although something could be."""
    tolerance = f"the tolerance of {result.tolerance:.2%}"
    if result.error > result.tolerance:
        return (
            f"the float32 outputs differ by {result.error:.2%} between two ways in which "
            f"onnxruntime runs the model, more than {tolerance}"
        )
    if result.in_float16:
        return f"in float16, no operator stays within {tolerance}, or none is faster"
    return f"no choice stays within {tolerance}"


def joined(first: VerifiedModel, second: VerifiedModel) -> VerifiedModel:
    """The second model, with the record of how the first one was made from the original."""
    return replace(
        second,
        before=first.before,
        load_seconds=first.load_seconds,
        optimize_seconds=first.optimize_seconds,
        verify_seconds=first.verify_seconds,
        opset_before=first.opset_before,
        reports=first.reports,
        dropped=[*first.dropped, *second.dropped],
    )
