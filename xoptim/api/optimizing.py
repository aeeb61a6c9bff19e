"""The public functions `optimize` and `verify`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, overload

import onnx

from xoptim import tuning, verification, workflow
from xoptim.bench.options import BenchOptions
from xoptim.diagnose.report import OptimizationReport
from xoptim.engine.options import (
    OptimizationChanges as OptimizationChanges,  # for integrations
    OptimizationOptions,
)
from xoptim.facts.changes import with_changes
from xoptim.facts.progress import silent
from xoptim.graph.hub import local_file
from xoptim.graph.save import Draft, hold_weights
from xoptim.graph.sources import Source, is_a, is_model
from xoptim.optimizing.plans import LoadPlan, Plan, Sink, VerifyPlan
from xoptim.optimizing.verified import located
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.within import verify_within
from xoptim.verification.judging.report import VerificationReport
from xoptim.verification.options import VerificationChanges, VerificationOptions
from xoptim.workflow.job import Job, JobOptions

if TYPE_CHECKING:
    from xoptim.tuning.speed import NotSlower

_LOGGER: Final = logging.getLogger("xoptim")
AnyModel = TypeVar("AnyModel")
Listener = Callable[[OptimizationReport], object]


class ProvedChanges(OptimizationChanges, total=False):
    """Fields of `OptimizationOptions`, and whether rewrites are proved."""

    prove: bool


class OptimizeChanges(ProvedChanges, total=False):
    """The keyword arguments of `optimize`."""

    inline: bool
    verify: bool | VerificationOptions
    only_if_faster: bool | BenchOptions
    precision: PrecisionOptions | None
    report: Listener | str | Path | None
    target: str


class FileChanges(ProvedChanges, total=False):
    """Keyword arguments of `optimize_file`."""

    precision: PrecisionOptions | None


@overload
def optimize(
    model: str | Path,
    options: OptimizationOptions | None = None,
    **changes: Unpack[OptimizeChanges],
) -> onnx.ModelProto: ...
@overload
def optimize(
    model: AnyModel, options: OptimizationOptions | None = None, **changes: Unpack[OptimizeChanges]
) -> AnyModel: ...
def optimize(
    model: Any,
    options: OptimizationOptions | None = None,
    *,
    inline: bool = False,
    verify: bool | VerificationOptions = False,
    only_if_faster: bool | BenchOptions = False,
    precision: PrecisionOptions | None = None,
    report: Listener | str | Path | None = None,
    target: str = "",
    **changes: Unpack[ProvedChanges],
) -> Any:
    """Optimize a model and return one of the same kind. The given model is left unchanged.

    Args:
        model: a ``ModelProto``, bytes, an ``onnx_ir.Model``, torch's ``ONNXProgram`` (which then
            holds the new model), or a path, which gives a ``ModelProto`` with all weights
            (`optimize_file` holds none in memory).
        options: of the optimization.
        inline: replace calls of local functions by their bodies first.
        verify: run both models in ONNX Runtime and compare; a pattern that changes results is
            dropped, with a warning.
        only_if_faster: measure, as `BenchOptions` say; drop groups of patterns that slow the model.
        precision: quantize as ``xopt --precision`` does, within its tolerance.
        report: called with an `OptimizationReport`; or the file of a page with both graphs and
            every rewrite (``report="report.html"``, see `xoptim.report`).
        target: name of the target, such as ``"webgpu"``: the model is fitted to the target and,
            with ``verify``, verified there.
        **changes: fields of `OptimizationOptions`, such as ``patterns="default+onnxruntime"``; and
            ``prove=True``, which proves rewrites for all sizes: see ``proofs`` of the report.

    Raises:
        ModelError: when the model cannot be read, or converted to the operator set.
        UnknownPatternError, PatternError: when a pattern is unknown, or declared wrongly.
        DifferentModelError: with ``verify``, when the outputs of the result differ.
        NotVerifiedError: with ``verify``, when there is no verdict; ``model`` is the result.
        ChoiceError, ValueError: when options do not fit the model, or each other.
        ToleranceError: with ``precision``, when the result does not keep the tolerance.
        TargetError: with ``verify``, when the result is not found equal on the target.
        ProviderUnavailable, MissingLibraryError: when a provider or a library is not installed.
        LoadError, FeedError, RunError: when a model cannot be measured.
    """
    settings, prove = _settings(options, changes)
    job = JobOptions(
        optimization=replace(settings, target=target or settings.target),
        plan=_plan(settings, verify, inline=inline, prove=prove),
        precision=precision,
        keep_if_faster=_speed_step(settings, only_if_faster),
    )
    return _optimized(Source(model), job, report)


def _optimized(source: Source, job: JobOptions, report: Listener | str | Path | None) -> Any:
    """The model that a job makes, of the kind of the source."""
    proto = _result(source, report, job)
    if source.kind == "path":
        hold_weights(proto, source.base_dir)
    return source.give_back(proto)


def optimize_file(
    source: str | Path,
    target: str | Path,
    options: OptimizationOptions | None = None,
    *,
    inline: bool = False,
    verify: bool | VerificationOptions = True,
    external_data: bool | None = None,
    share_weights: bool = False,
    report: Listener | str | Path | None = None,
    **changes: Unpack[FileChanges],
) -> list[Path]:
    """Optimize a model from file to file, without holding its weights in memory.

    The model and its weights file, if there is one, are written atomically after verification, and
    need no other file. Returns the files written.

    Args:
        source: the model.
        target: the file to write, which may be the source.
        options: of the optimization.
        inline: replace calls of local functions by their bodies first.
        verify: as for `optimize`, but done unless it is ``False``.
        external_data: write weights to a file of their own, ``TARGET.data``; by default if the
            source has external data, or the result would not fit into a protobuf of 2 GiB.
        share_weights: refer to the file of the source's weights, if it is in the same folder,
            instead of copying those that have not changed; the metadata of the result
            (``xoptim.weights``) name that file then.
        report: as for `optimize`.
        **changes: fields of `OptimizationOptions` to set, except ``target``, which ``options`` may
            set; ``prove`` as for `optimize`; and ``precision``, which holds the weights of MatMuls
            in memory.

    Raises:
        ModelError: when the model cannot be read, or a file cannot be written.
        DifferentModelError, NotVerifiedError: as for `optimize`; nothing is written then.
        UnknownPatternError, ChoiceError, ToleranceError, PatternError, ProviderUnavailable,
            MissingLibraryError: as for `optimize`.
    """
    precision = changes.pop("precision", None)
    settings, prove = _settings(options, changes)
    with Draft(Path(target), external=external_data, share_weights=share_weights) as draft:
        plan = _plan(settings, verify, inline=inline, prove=prove)
        plan = replace(plan, sink=Sink(draft=draft))
        job = JobOptions(optimization=settings, plan=plan, precision=precision)
        return draft.commit(_result(local_file(source), report, job))


def _settings(
    options: OptimizationOptions | None, changes: ProvedChanges
) -> tuple[OptimizationOptions, bool]:
    """The options with changes, and whether rewrites are proved."""
    prove = changes.pop("prove", False)
    return with_changes(OptimizationOptions, options, changes), prove


def _plan(
    options: OptimizationOptions,
    verify: bool | VerificationOptions,
    *,
    inline: bool,
    prove: bool,
) -> Plan:
    """How the model is loaded and verified."""
    if not isinstance(verify, (bool, VerificationOptions)):
        raise TypeError(f"verify must be True, False or VerificationOptions, not {verify!r}")
    checks = (
        verify
        if isinstance(verify, VerificationOptions)
        else VerificationOptions(providers=(options.provider,))
    )
    verify_plan = VerifyPlan(
        checks=checks, whole=verify is not False, proves=prove, bisect=not options.strict
    )
    return Plan(load=LoadPlan(inline=inline), verify=verify_plan)


def _speed_step(options: OptimizationOptions, request: bool | BenchOptions) -> NotSlower | None:
    """The step that drops patterns that make the result slower, if it is requested."""
    if request is False:
        return None
    return tuning.NotSlower(BenchOptions(provider=options.provider) if request is True else request)


def _result(
    source: Source | Path, report: Listener | str | Path | None, options: JobOptions
) -> onnx.ModelProto:
    """The model that a job makes, reported as ``report`` says.

    Raises unless the model was found equal, or was not compared.
    """
    page = workflow.page.Page(Path(report)) if isinstance(report, (str, Path)) else None
    outcome = Job(source, replace(options, page=page)).run()
    if callable(report):
        report(outcome.report)
    if page is not None:
        page.save()
    outcome.raise_failure()
    if outcome.fitting is not None and outcome.fitting.fault:
        _LOGGER.warning("%s", outcome.fitting.fault)
    proto = outcome.verified.proto
    for verified in {id(model): model for model in (outcome.floats, outcome.verified)}.values():
        verified.builder.dispose()
    return proto


def outline(model: AnyModel) -> AnyModel:
    """Write repeated blocks of a model, such as the layers of a transformer, as local functions.

    Nothing else changes. ``optimize(model, outline=True)`` does the same after the patterns, and
    ``inline=True`` undoes it. Returns a model of the same kind; equal to the given one if no block
    repeats. Raises `ModelError` when the model cannot be read. ``model``: as for `optimize`.
    """
    outline_only = OptimizationOptions(
        patterns=None,
        remove_unused=False,
        remove_identity=False,
        constant_folding=False,
        merge=False,
        outline=True,
    )
    return optimize(model, outline_only)


def verify(
    original: Any,
    other: Any,
    options: VerificationOptions | None = None,
    *,
    precision: PrecisionOptions | None = None,
    on_step: Callable[[str], object] = silent,
    **changes: Unpack[VerificationChanges],
) -> VerificationReport:
    """Run two models on the same inputs in ONNX Runtime and compare the outputs.

    See `xoptim.verification.verify_models`. The original may be a Python function, see
    `xoptim.verification.functions.verify_function`; `xoptim.integrations.torch.verify` compares
    with a torch module.

    Returns the report: ``ok`` when they are equal, ``status`` and ``reason`` otherwise.

    Args:
        original: the model to trust, of any kind that `optimize` takes; or a function that takes
            the inputs of the model in order, as arrays, and returns the outputs.
        other: the model to judge, of any kind that `optimize` takes.
        options: values, provider and tolerance of the comparison.
        precision: judge a quantized model by the metric, the tolerances and the samples of these
            options.
        on_step: called with a description of each step of a comparison of two models, such as
            ``verifying: comparing runs: 3 of 40``; unused with ``precision`` and functions.
        **changes: fields of `VerificationOptions` to set, such as ``exactness="exact"``, which
            demands equal bits.

    Raises:
        ModelError: when a model cannot be read.
        ChoiceError: when sizes or values of the options do not fit the original.
        ProviderUnavailable: when onnxruntime lacks a requested execution provider.
    """
    checks = with_changes(VerificationOptions, options, changes)
    candidate = Source(other)
    if callable(original) and not is_model(original):
        if precision is not None:
            raise TypeError("precision compares with a model, not with a function")
        if is_a(original, "torch", "Module"):
            raise TypeError("use xoptim.integrations.torch.verify to compare with a torch module")
        model, checks = located(candidate, checks)
        return verification.functions.verify_function(original, model, checks)
    reference, checks = located(Source(original), checks)
    model = candidate.original if candidate.kind == "path" else candidate.proto
    checks = replace(checks, optimized_dir=candidate.base_dir or checks.optimized_dir)
    if precision is not None:
        return verify_within(reference, model, precision, checks)
    return verification.verify_models(reference, model, checks, on_step=on_step)
