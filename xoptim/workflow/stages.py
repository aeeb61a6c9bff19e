"""The stages of a job: each takes the outcome of those before it, and adds what it finds."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from xoptim import bench, diagnose, precision, verification, workflow
from xoptim.catalogue.query import Query
from xoptim.diagnose.frozen import frozen_sizes
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.advice import Advice
from xoptim.facts.errors import XoptimError
from xoptim.graph.assumed import fitting
from xoptim.graph.sources import Source
from xoptim.optimizing.builder import GraphBuilder
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel, located, optimize_verified
from xoptim.system.collection import collection_paused
from xoptim.verification.errors import ChoiceError, FeedError, LoadError, RunError
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Value
from xoptim.workflow.options import AnySource, JobOptions
from xoptim.workflow.outcome import Outcome
from xoptim.workflow.requests import check_shapes, for_target, with_error_of

if TYPE_CHECKING:
    from xoptim.diagnose.hints import OpsetHint, OptionHint
    from xoptim.diagnose.unfit import UnfitPattern
    from xoptim.precision.options import PrecisionOptions
    from xoptim.targets.target import Target

_LOGGER: Final = logging.getLogger("xoptim")
_INT4_MATMUL: Final = "MatMulNBits"
"""The pattern whose operator reads 4-bit weights, which each run would dequantize otherwise."""


@dataclass(frozen=True, slots=True)
class Task:
    """The input of the stages of a job.

    Attributes:
        original: the model of the caller.
        source: the model after its preparation.
        options: options of the optimization, for this model and its target.
        settings: options of the job.
        target: where the result will run; ``None`` for onnxruntime on the CPU.
        precision: how the result is quantized, as the target needs it.
    """

    original: AnySource
    source: AnySource
    options: OptimizationOptions
    settings: JobOptions
    target: Target | None
    precision: PrecisionOptions | None

    @property
    def plan(self) -> Plan:
        """How models are loaded and verified, with what the job does when one is loaded."""
        plan = self.settings.plan
        return replace(plan, load=replace(plan.load, on_loaded=self._loaded))

    def _loaded(self, builder: GraphBuilder) -> None:
        self.settings.plan.load.on_loaded(builder)
        for warning in frozen_sizes(builder.model.graph):
            _LOGGER.warning("%s", warning)
        if self.settings.page is not None:
            self.settings.page.loaded(builder)

    def say(self, step: str) -> None:
        """Say what comes next."""
        self.settings.plan.sink.on_step(step)


class Stage(Protocol):
    """A stage of a job after the optimization."""

    @property
    def name(self) -> str:
        """What the stage does, in the times of the outcome."""

    def run(self, outcome: Outcome) -> Outcome:
        """The outcome with what this stage adds to it."""


def prepared(
    original: AnySource,
    settings: JobOptions,
    target: Target | None,
    request: PrecisionOptions | None,
) -> Task:
    """The model with its preparation, the options that fit it, and the samples: all that can be
    wrong about them is found before any slow stage.
    """
    source, options = original, settings.optimization
    if not settings.preparation.is_empty:
        source = workflow.preparing.prepared_source(source, settings.preparation)
    if settings.leaves_unfit_assumptions and options.assume:
        kept, reasons = fitting(options.assume, Source.of(source).proto)
        for reason in reasons:
            _LOGGER.warning("%s; it is ignored", reason)
        options = replace(options, assume=tuple(kept))
    if target is not None:
        origin = Source.of(source)
        check_shapes(target, origin)
        options = for_target(options, target, origin.proto)
    if settings.page is not None:
        options = settings.page.listening(options)
    if request is not None and not request.are_samples_read:
        request = precision.sources.with_samples(request, Source.of(source).proto)
    return Task(original, source, options, settings, target, request)


def stages_of(task: Task) -> Iterator[Stage]:
    """The stages after the optimization, in their order."""
    settings = task.settings
    if task.precision is not None:
        yield Quantize(task)
    if task.target is not None:
        yield FitToTarget(task)
    if settings.keep_if_faster is not None:
        yield CompareTimes(task)
    if settings.benchmark is not None:
        yield Measure(task)
    if settings.hints is not None:
        yield LookForHints(task)
    # Nothing slow comes after these, so that an interrupted job has written nothing.
    if settings.page is not None:
        yield Draw(task)
    if settings.write is not None:
        yield Write(task)


@dataclass(frozen=True, slots=True)
class Optimize:
    """Optimizes the model, and compares the result with the original."""

    task: Task

    def run(self) -> Outcome:
        """The outcome of the optimization, the first of the stages."""
        task, plan, settings = self.task, self.task.plan, self.task.settings
        is_quantized, whole = task.precision is not None, plan.verify.whole
        options = task.options
        if is_quantized:
            options = precision.quantize.before_quantization(options)
        no_runs = not whole and not is_quantized and settings.keep_if_faster is None
        verifying = replace(plan.verify, whole=whole and settings.verifies_floats)
        with collection_paused() if no_runs else nullcontext():
            verified = optimize_verified(task.source, options, replace(plan, verify=verifying))
        if whole or plan.verify.each:
            checks = plan.verify.checks
            verification.warn_of_missing(located(task.source, checks)[0], checks.feeds)
        self._check_values_used(verified)
        self._check_sizes_fit(verified)
        size = _own_bytes(task.original) + verified.external_before
        return Outcome.of(verified, is_strict=task.options.strict, bytes_before=size)

    def _check_values_used(self, verified: VerifiedModel) -> None:
        """Raise when the caller's values could not be used in the comparison."""
        checks = self.task.plan.verify.checks
        failure = next((report for report in verified.reports if report.cause == "run"), None)
        if failure is not None and (checks.feeds or checks.dims or checks.test_data):
            samples = () if self.task.precision is None else self.task.precision.samples
            name = precision.sources.sample_name(0, samples[0]) if samples else ""
            where = name if checks.feeds and name else "not verified with the given values"
            raise ChoiceError(f"{where}: {failure.reason}")

    def _check_sizes_fit(self, verified: VerifiedModel) -> None:
        """Raise when onnxruntime runs the model, but not with its fixed sizes."""
        failure = next(
            (report for report in verified.reports if report.cause in ("load", "run")), None
        )
        if failure is None or not self.task.settings.preparation.fix:
            return
        original, checks = located(self.task.original, self.task.plan.verify.checks)
        is_gone = isinstance(original, (str, Path)) and not Path(original).is_file()
        if not is_gone and verification.verify_models(original, original, checks).ok:
            raise ChoiceError(
                f"the model does not run with the dimensions of {Advice('fix')}: {failure.reason}"
            )


@dataclass(frozen=True, slots=True)
class Quantize:
    """Quantizes the optimized model."""

    task: Task
    name = "quantizing"

    def run(self, outcome: Outcome) -> Outcome:
        """The outcome with the quantized model as its result."""
        task, request = self.task, self.task.precision
        assert request is not None
        target, options = task.target, task.options
        is_static = request.scheme == "int8" and target is not None and target.needs.static_int8
        quantizer = precision.static_int8.static_int8 if is_static else precision.quantize.quantize
        in_float16 = request.is_weight_only_float16  # `quantize` adds the pattern itself then
        if request.weights_only and request.scheme == "int4" and not in_float16:
            options = replace(options, patterns=Query.of(options.patterns).including(_INT4_MATMUL))
        try:
            quantized = quantizer(outcome.verified, options, task.settings.plan, request)
        except precision.samples.SampleError as error:
            if self._fails_on(error.feeds):
                raise error.of("original") from error
            raise
        if task.settings.precision is None and target is not None:
            quantized = replace(quantized, target=target.name)
        return replace(outcome, quantized=quantized, verified=quantized.verified)

    def _fails_on(self, feeds: Mapping[str, Value]) -> bool:
        """Whether the original does not run on a sample."""
        original, checks = located(self.task.source, self.task.plan.verify.checks)
        single = replace(checks, feeds=feeds, assignments=1, extremes=False)
        try:
            verification.run_reference(original, single)
        except (RunError, LoadError, FeedError):
            return True
        return False


@dataclass(frozen=True, slots=True)
class FitToTarget:
    """Fits the result to its target; while it differs there, it is quantized more precisely."""

    task: Task

    @property
    def name(self) -> str:
        """What the stage does, with the name of the target."""
        assert self.task.target is not None
        return f"fitting to {self.task.target.name}"

    def run(self, outcome: Outcome) -> Outcome:
        """The outcome with the fitted model as its result."""
        task, first = self.task, outcome.quantized
        outcome = self._fitted(outcome)
        if first is None or first.float32_model is None or task.precision is None:
            return outcome
        request, spent = task.precision, first.seconds
        for widths, share in precision.static_int8.FALLBACKS[first.activation_bits]:
            if outcome.fitting is None or not outcome.fitting.difference:
                break
            if request.budget is not None:
                if spent >= request.budget:
                    break
                request = replace(request, budget=request.budget - spent)
            plan = task.settings.plan
            plan.sink.discard(outcome.verified.proto)
            retry = precision.static_int8.static_int8(
                first.float32_model, task.options, plan, request, widths, share
            )
            spent = retry.seconds
            if retry.reason:
                break
            outcome = self._fitted(replace(outcome, quantized=retry, verified=retry.verified))
        return outcome

    def _fitted(self, outcome: Outcome) -> Outcome:
        task, plan = self.task, self.task.settings.plan
        assert task.target is not None
        whole = plan.verify.whole
        options = task.settings.fitting
        options = replace(options, verifies=options.verifies and whole)
        options = with_error_of(options, outcome.quantized, task.target)
        fit = workflow.fitting.Fit(task.target, options, plan)
        verified, fitted = fit.run(task.source, outcome.verified)
        return replace(outcome, verified=verified, fitting=fitted, must_verify_on_target=whole)


@dataclass(frozen=True, slots=True)
class CompareTimes:
    """Drops patterns that make the result slower than the original."""

    task: Task
    name = "comparing times"

    def run(self, outcome: Outcome) -> Outcome:
        """The outcome with the result to keep, and its measurements or why there are none."""
        task, keep = self.task, self.task.settings.keep_if_faster
        assert keep is not None
        origin = Source.of(task.source)
        try:
            verified, speed = keep(origin, outcome.verified, task.options, task.plan)
        except XoptimError as error:
            return replace(outcome, floats=outcome.verified, unmeasured=error)
        return replace(outcome, floats=verified, verified=verified, speed=speed)


@dataclass(frozen=True, slots=True)
class Measure:
    """Measures the original and the result, unless one of them cannot be run."""

    task: Task
    name = "measuring"

    def run(self, outcome: Outcome) -> Outcome:
        """The outcome with the times of both models."""
        task, options = self.task, self.task.settings.benchmark
        assert options is not None
        task.say("measuring")
        verified = outcome.verified
        folders = {"original": verified.builder.model.base_dir, "result": verified.base_dir}
        base_dirs = {label: folder for label, folder in folders.items() if folder is not None}
        original = task.source.proto if isinstance(task.source, Source) else task.source
        models = {"original": original, "result": verified.proto}
        try:
            latency = bench.measure.bench(models, replace(options, base_dirs=base_dirs))
        except XoptimError as error:
            _LOGGER.warning("not measured: %s", error)
            return outcome
        return replace(outcome, latency=latency)


@dataclass(frozen=True, slots=True)
class LookForHints:
    """Looks for options that would make the result smaller, without the dropped patterns."""

    task: Task
    name = "looking for hints"

    def run(self, outcome: Outcome) -> Outcome:
        """The outcome with hints, and with patterns that the target drops."""
        task, checks = self.task, self.task.settings.hints
        assert checks is not None
        task.say("looking for options that would help")
        options = replace(task.options, on_event=task.settings.optimization.on_event)
        for culprit in outcome.verified.dropped:
            options = culprit.avoided_by(options)
        try:
            outcome = replace(outcome, hints=_hints(task.source, outcome.verified, options, checks))
            if outcome.fitting is not None:
                fitted = replace(outcome.fitting, unfit=self._unfit(options))
                outcome = replace(outcome, fitting=fitted)
        except MemoryError:
            return replace(outcome, hints=())
        return outcome

    def _unfit(self, options: OptimizationOptions) -> list[UnfitPattern]:
        """The patterns that would apply without the target but are not used for it."""
        assert self.task.target is not None
        origin = Source.of(self.task.source)
        options = replace(options, drop=self.task.settings.optimization.drop)
        return diagnose.unfit.unfit_patterns(
            origin.proto, options, self.task.target, origin.base_dir
        )


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


@dataclass(frozen=True, slots=True)
class Draw:
    """Draws the page about the optimization."""

    task: Task
    name = "reporting"

    def run(self, outcome: Outcome) -> Outcome:
        """The same outcome: the page holds what was drawn."""
        page = self.task.settings.page
        assert page is not None
        self.task.say("drawing the report")
        page.draw(self.task.source, outcome)
        return outcome


@dataclass(frozen=True, slots=True)
class Write:
    """Writes the result."""

    task: Task
    name = "writing"

    def run(self, outcome: Outcome) -> Outcome:
        """The outcome with the files written."""
        write = self.task.settings.write
        assert write is not None
        self.task.say("writing")
        return replace(outcome, written=write(outcome.verified))


def _own_bytes(source: AnySource) -> int:
    """Bytes of a model without its external weights."""
    if isinstance(source, Source) and source.kind != "path":
        return source.proto.ByteSize()
    path = Path(source.original if isinstance(source, Source) else source)
    return path.stat().st_size
