"""One job: load, prepare, optimize, verify, quantize, keep if faster, measure, report, write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import onnx

from xoptim import bench, diagnose, precision, verification, workflow
from xoptim.bench.options import BenchOptions
from xoptim.catalogue.query import Query
from xoptim.diagnose.frozen import frozen_sizes
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.advice import Advice
from xoptim.facts.errors import XoptimError
from xoptim.facts.protos import fed_inputs, opset_versions
from xoptim.graph.assumed import fitting
from xoptim.graph.sources import Source
from xoptim.optimizing.builder import GraphBuilder
from xoptim.optimizing.verified import VerifiedModel, VerifyPlan, located, optimize_verified
from xoptim.precision.options import PrecisionOptions, samples_needed
from xoptim.preparation.ports import dimensions
from xoptim.preparation.preparation import Preparation
from xoptim.system.collection import collection_paused
from xoptim.targets.registry import named
from xoptim.verification.errors import ChoiceError, FeedError, LoadError, RunError
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Value
from xoptim.workflow.fitting_options import FittingOptions
from xoptim.workflow.outcome import Outcome, SpeedReport

if TYPE_CHECKING:
    from xoptim.diagnose.hints import OpsetHint, OptionHint
    from xoptim.diagnose.unfit import UnfitPattern
    from xoptim.precision.quantized import Quantized
    from xoptim.targets.target import Target
    from xoptim.workflow.page import Page

_LOGGER: Final = logging.getLogger("xoptim")
_INT4_MATMUL: Final = "MatMulNBits"
"""The pattern whose operator reads 4-bit weights, which each run would widen otherwise."""
AnySource: TypeAlias = Source | str | Path


class KeepIfFaster(Protocol):
    """A step that drops patterns that make a result slower than the original."""

    def __call__(
        self, source: Source, verified: VerifiedModel, options: OptimizationOptions, how: VerifyPlan
    ) -> tuple[VerifiedModel, SpeedReport]:
        """The result to keep, and the measurements.

        Raises XoptimError when it cannot be measured.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of a job, in the order of the steps. A step without options is skipped."""

    preparation: Preparation = field(default_factory=Preparation)
    # whether assumptions that do not fit the model are dropped, with a warning for each
    leaves_unfit_assumptions: bool = False
    optimization: OptimizationOptions = field(default_factory=OptimizationOptions)
    verification: VerifyPlan = field(default_factory=VerifyPlan)
    # whether the optimized model is verified before it is quantized
    verifies_floats: bool = True
    precision: PrecisionOptions | None = None
    # options for fitting to the target that ``optimization`` names
    fitting: FittingOptions = field(default_factory=FittingOptions)
    keep_if_faster: KeepIfFaster | None = None
    benchmark: BenchOptions | None = None
    # options for the runs that look for hints
    hints: VerificationOptions | None = None
    page: Page | None = None
    # writes the result, and returns the files written
    write: Callable[[VerifiedModel], Sequence[Path]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.precision, PrecisionOptions | None):
            example = "PrecisionOptions(scheme='int8')"
            raise TypeError(
                f"precision must be an instance of PrecisionOptions, such as {example}, not "
                f"{self.precision!r}"
            )
        if self.precision is not None and self.keep_if_faster is not None:
            raise ValueError("precision measures each operator already; remove only_if_faster")


class Job:
    """The only implementation of the steps from a model to its result.

    A refusal stops the job: nothing is written then, and the outcome has the reason.

    Args:
        source: the model: a path, or a model in memory.
        options: the steps.
    """

    def __init__(self, source: AnySource, options: JobOptions) -> None:
        self._source = source
        self._options = options
        self._plan = options.verification
        self._target = _target_of(options.optimization)
        self._precision = precision_for(options.precision, self._target)
        self._is_static = _is_static(self._precision, self._target)

    def run(self) -> Outcome:
        """Run the steps.

        Raises:
            ModelError: the model cannot be read, or the result cannot be written.
            ChoiceError: values, sizes or other options do not fit the model.
            UnknownPatternError: a pattern name is unknown.
            ProviderUnavailable: onnxruntime lacks a requested execution provider.
            RunError, LoadError, FeedError: the model cannot be quantized, as it does not run.
        """
        self._check_static()
        start = perf_counter()
        source, options = self._prepared()
        self._read_samples(source)
        seconds = perf_counter() - start
        outcome = self._optimized(source, options)
        if not self._options.preparation.is_empty:
            outcome.times = {"preparing": seconds, **outcome.times}
        for name, step in self._steps(source, options, outcome):
            if outcome.refusal is not None:
                break
            start = perf_counter()
            step()
            outcome.times[name] = perf_counter() - start
        return outcome

    def _steps(
        self, source: AnySource, options: OptimizationOptions, outcome: Outcome
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        """The steps after the verification, by name."""
        settings = self._options
        if self._precision is not None:
            yield "quantizing", lambda: self._quantize(source, options, outcome)
        if self._target is not None:
            yield f"fitting to {self._target.name}", lambda: self._fit(source, options, outcome)
        if settings.keep_if_faster is not None:
            yield "comparing times", lambda: self._keep_if_faster(source, options, outcome)
        if settings.benchmark is not None:
            yield "measuring", lambda: self._measure(source, outcome)
        if settings.hints is not None:
            yield "looking for hints", lambda: self._look_for_hints(source, options, outcome)
        # Nothing slow comes after these, so that an interrupted job has written nothing.
        if settings.page is not None:
            yield "reporting", lambda: self._draw(source, outcome)
        if settings.write is not None:
            yield "writing", lambda: self._write(outcome)

    def _prepared(self) -> tuple[AnySource, OptimizationOptions]:
        """The model with its preparation, and the options of the optimization."""
        settings, options = self._options, self._options.optimization
        source = self._source
        if not settings.preparation.is_empty:
            source = workflow.preparing.prepared_source(source, settings.preparation)
        if settings.leaves_unfit_assumptions and options.assume:
            origin = Source.of(source)
            kept, reasons = fitting(options.assume, origin.proto)
            for reason in reasons:
                _LOGGER.warning("%s; it is ignored", reason)
            options = replace(options, assume=tuple(kept))
        if self._target is not None:
            origin = Source.of(source)
            _check_shapes(self._target, origin)
            options = for_target(options, self._target, origin.proto)
        if settings.page is not None:
            options = settings.page.listening(options)
        return source, options

    def _optimized(self, source: AnySource, options: OptimizationOptions) -> Outcome:
        """The optimized model, compared with the original."""
        settings, plan = self._options, self._plan
        first_options = (
            options if self._precision is None else precision.quantize.before_quantization(options)
        )
        no_runs = not plan.whole and self._precision is None and settings.keep_if_faster is None
        with collection_paused() if no_runs else nullcontext():
            whole = plan.whole and settings.verifies_floats
            verified = optimize_verified(
                source, first_options, replace(plan, whole=whole, on_loaded=self._loaded)
            )
        if plan.whole or plan.each:
            verification.warn_of_missing(located(source, plan.checks)[0], plan.checks.feeds)
        self._check_values_used(verified)
        self._check_sizes_fit(verified)
        outcome = Outcome.of(verified, is_strict=options.strict)
        outcome.bytes_before = _own_bytes(self._source) + verified.external_before
        return outcome

    def _loaded(self, builder: GraphBuilder) -> None:
        self._plan.on_loaded(builder)
        for warning in frozen_sizes(builder.model.graph):
            _LOGGER.warning("%s", warning)
        if self._options.page is not None:
            self._options.page.loaded(builder)

    def _check_static(self) -> None:
        """Raise when static quantization lacks samples, or the target has no int8 kernels."""
        request, target = self._precision, self._target
        if request is None or not request.static:
            return
        if target is not None and not target.needs.computes_int8:
            raise ChoiceError(
                f"{target.name} has no kernels for int8 activations; without static, only weights "
                "are quantized"
            )
        if request.are_samples_read and not request.samples and self._plan.checks.test_data is None:
            raise ChoiceError(samples_needed())

    def _read_samples(self, source: AnySource) -> None:
        """Read the samples, once, and before any slow step."""
        if self._precision is None or self._precision.are_samples_read:
            return
        origin = Source.of(source)
        self._precision = precision.sources.with_samples(self._precision, origin.proto)

    def _check_values_used(self, verified: VerifiedModel) -> None:
        """Raise when the caller's values could not be used in the comparison."""
        checks = self._plan.checks
        failure = next((report for report in verified.reports if report.cause == "run"), None)
        if failure is not None and (checks.feeds or checks.dims or checks.test_data):
            samples = () if self._precision is None else self._precision.samples
            name = precision.sources.sample_name(0, samples[0]) if samples else ""
            where = name if checks.feeds and name else "not verified with the given values"
            raise ChoiceError(f"{where}: {failure.reason}")

    def _check_sizes_fit(self, verified: VerifiedModel) -> None:
        """Raise when onnxruntime runs the model, but not with its fixed sizes."""
        failure = next(
            (report for report in verified.reports if report.cause in ("load", "run")), None
        )
        if failure is None or not self._options.preparation.fix:
            return
        original, checks = located(self._source, self._plan.checks)
        is_gone = isinstance(original, (str, Path)) and not Path(original).is_file()
        if not is_gone and verification.verify_models(original, original, checks).ok:
            raise ChoiceError(
                f"the model does not run with the dimensions of {Advice('fix')}: {failure.reason}"
            )

    def _quantize(self, source: AnySource, options: OptimizationOptions, outcome: Outcome) -> None:
        assert self._precision is not None
        quantizer = (
            precision.static_int8.static_int8 if self._is_static else precision.quantize.quantize
        )
        request = self._precision
        in_float16 = request.is_weight_only_float16  # `quantize` adds the pattern itself then
        if request.weights_only and request.scheme == "int4" and not in_float16:
            options = replace(options, patterns=Query.of(options.patterns).including(_INT4_MATMUL))
        try:
            quantized = quantizer(outcome.verified, options, self._plan, self._precision)
        except precision.samples.SampleError as error:
            if self._fails_on(source, error.feeds):
                raise error.of("original") from error
            raise
        if self._options.precision is None and self._target is not None:
            quantized = replace(quantized, target=self._target.name)
        outcome.quantized, outcome.verified = quantized, quantized.verified

    def _fails_on(self, source: AnySource, feeds: Mapping[str, Value]) -> bool:
        """Whether the original does not run on a sample."""
        original, checks = located(source, self._plan.checks)
        single = replace(checks, feeds=feeds, assignments=1, extremes=False)
        try:
            verification.run_reference(original, single)
        except (RunError, LoadError, FeedError):
            return True
        return False

    def _fit(self, source: AnySource, options: OptimizationOptions, outcome: Outcome) -> None:
        """Fit the result to its target; while it differs there, quantize it more precisely."""
        self._fit_once(source, outcome)
        first = outcome.quantized
        if first is None or first.float32_model is None or self._precision is None:
            return
        request, spent = self._precision, first.seconds
        for widths, share in precision.static_int8.FALLBACKS[first.activation_bits]:
            if outcome.fitting is None or not outcome.fitting.difference:
                break
            if request.budget is not None:
                if spent >= request.budget:
                    break
                request = replace(request, budget=request.budget - spent)
            if self._plan.draft is not None:
                self._plan.draft.discard(outcome.verified.proto)
            retry = precision.static_int8.static_int8(
                first.float32_model, options, self._plan, request, widths, share
            )
            spent = retry.seconds
            if retry.reason:
                break
            outcome.quantized, outcome.verified = retry, retry.verified
            self._fit_once(source, outcome)

    def _fit_once(self, source: AnySource, outcome: Outcome) -> None:
        assert self._target is not None
        options, plan = self._options.fitting, self._plan
        outcome.must_verify_on_target = plan.whole
        options = replace(options, verifies=options.verifies and plan.whole)
        fit = workflow.fitting.Fit(
            self._target, with_error_of(options, outcome.quantized, self._target), plan
        )
        outcome.verified, outcome.fitting = fit.run(source, outcome.verified)

    def _keep_if_faster(
        self, source: AnySource, options: OptimizationOptions, outcome: Outcome
    ) -> None:
        assert self._options.keep_if_faster is not None
        origin = Source.of(source)
        plan = replace(self._plan, on_loaded=self._loaded)
        try:
            outcome.verified, outcome.speed = self._options.keep_if_faster(
                origin, outcome.verified, options, plan
            )
        except XoptimError as error:
            outcome.unmeasured = error
        outcome.floats = outcome.verified

    def _measure(self, source: AnySource, outcome: Outcome) -> None:
        """Measure the original and the result, unless one of them cannot be run."""
        assert self._options.benchmark is not None
        self._plan.on_step("measuring")
        verified = outcome.verified
        folders = {"original": verified.builder.model.base_dir, "result": verified.base_dir}
        base_dirs = {label: folder for label, folder in folders.items() if folder is not None}
        original = source.proto if isinstance(source, Source) else source
        try:
            outcome.latency = bench.measure.bench(
                {"original": original, "result": verified.proto},
                replace(self._options.benchmark, base_dirs=base_dirs),
            )
        except XoptimError as error:
            _LOGGER.warning("not measured: %s", error)

    def _look_for_hints(
        self, source: AnySource, options: OptimizationOptions, outcome: Outcome
    ) -> None:
        """Find options that would make the result smaller, without the patterns that were
        dropped.
        """
        assert self._options.hints is not None
        self._plan.on_step("looking for options that would help")
        options = replace(options, on_event=self._options.optimization.on_event)
        for culprit in outcome.verified.dropped:
            options = culprit.avoided_by(options)
        try:
            outcome.hints = _hints(source, outcome.verified, options, self._options.hints)
            if outcome.fitting is not None:
                outcome.fitting.unfit = self._unfit(source, options)
        except MemoryError:
            outcome.hints = ()

    def _unfit(self, source: AnySource, options: OptimizationOptions) -> list[UnfitPattern]:
        """The patterns that would apply without the target but are not used for it."""
        assert self._target is not None
        origin = Source.of(source)
        settings = replace(options, drop=self._options.optimization.drop)
        return diagnose.unfit.unfit_patterns(origin.proto, settings, self._target, origin.base_dir)

    def _draw(self, source: AnySource, outcome: Outcome) -> None:
        assert self._options.page is not None
        self._plan.on_step("drawing the report")
        self._options.page.draw(source, outcome)

    def _write(self, outcome: Outcome) -> None:
        assert self._options.write is not None
        self._plan.on_step("writing")
        outcome.written = self._options.write(outcome.verified)


def _target_of(options: OptimizationOptions) -> Target | None:
    """The target that a result is fitted to, ``None`` for onnxruntime on the CPU."""
    target = named(options.target) if options.target else None
    return None if target is None or target.name == "cpu" else target


def with_error_of(
    options: FittingOptions, quantized: Quantized | None, target: Target
) -> FittingOptions:
    """The options of fitting, which allow a quantized model its error, on the samples that were
    used to bound it.
    """
    if quantized is None or quantized.reason:
        return options
    if quantized.in_float16 and not quantized.options.is_weight_only_float16:
        return options
    # Static quantization leaves room for the error of the target already.
    margin = 0.0 if quantized.activation_bits else target.tolerance
    return replace(
        options, tolerance=quantized.options.tolerance + margin, feeds=quantized.samples.feeds
    )


def precision_for(
    request: PrecisionOptions | None, target: Target | None
) -> PrecisionOptions | None:
    """The requested precision, as the target needs it."""
    if target is None:
        return request
    if request is None:
        float16 = PrecisionOptions(scheme="float16", compute="float16", everywhere=True)
        return float16 if target.needs.prefers_float16 else None
    if request.static:
        return replace(request, symmetric=target.needs.symmetric_int8)
    return replace(request, weights_only=True) if target.needs.weights_only else request


def _is_static(request: PrecisionOptions | None, target: Target | None) -> bool:
    """Whether int8 is requested, and the target needs static quantization for it."""
    if request is None or request.scheme != "int8":
        return False
    return target is not None and target.needs.static_int8


def for_target(
    options: OptimizationOptions, target: Target, model: onnx.ModelProto
) -> OptimizationOptions:
    """The options of the optimization of a model for a target: its operator set, without the
    families of patterns that are slower there.

    Where the provider is not installed, the model keeps its operator set: whether the runtime knows
    the newer one cannot be asked.
    """
    names = [
        pattern.name() for pattern in options.scheduled() if pattern.family() in target.families
    ]
    is_older = (
        isinstance(target.opset, int)
        and opset_versions(model.opset_import).get("", 0) < target.opset
    )
    opset = target.opset if is_older or target.opset == "newest" else None
    if target.plugin is not None and not target.plugin.is_installed:
        opset = None
    return replace(options, opset=options.opset or opset, drop=(*options.drop, *names))


def _check_shapes(target: Target, source: Source) -> None:
    """Raise for dynamic dimensions when the target needs static shapes."""
    if not target.needs.static_shapes:
        return
    dynamic_dims = [
        dim
        for value in fed_inputs(source.proto)
        for dim in dimensions(value.type)
        if not dim.HasField("dim_value")
    ]
    if dynamic_dims:
        names = dict.fromkeys(dim.dim_param or "?" for dim in dynamic_dims)
        verb = "is" if len(names) == 1 else "are"
        advice = Advice("fix", "NAME=SIZE", "fixes a dimension")
        raise ChoiceError(
            f"{target.name} needs fixed shapes, but {', '.join(names)} {verb} dynamic; {advice}"
        )


def _own_bytes(source: AnySource) -> int:
    """Bytes of a model without its external weights."""
    if isinstance(source, Source) and source.kind != "path":
        return source.proto.ByteSize()
    path = Path(source.original if isinstance(source, Source) else source)
    return path.stat().st_size


def _hints(
    original: AnySource,
    verified: VerifiedModel,
    options: OptimizationOptions,
    checks: VerificationOptions,
) -> list[OpsetHint | OptionHint]:
    is_lowered = verified.builder.model.opsets.get("", 0) < verified.opset_before
    opset_hint = (
        None
        if is_lowered
        else diagnose.hints.opset_hint(verified.proto, options, verified.base_dir, original)
    )
    sizes = next((run.dims for report in verified.reports for run in report.runs), {})
    option_hints = diagnose.hints.option_hints(
        verified.proto, options, sizes, verified.base_dir, checks
    )
    hints: list[OpsetHint | OptionHint] = [
        *([] if opset_hint is None else [opset_hint]),
        *option_hints,
    ]
    return sorted(hints, key=lambda hint: -hint.nodes)
