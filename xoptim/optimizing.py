"""The public door: `optimize` and `verify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

import onnx

from xoptim.bench.options import BenchOptions
from xoptim.builder import GraphBuilder
from xoptim.diagnose.report import OptimizationReport
from xoptim.graph.load import collection_paused
from xoptim.graph.sources import Source
from xoptim.optimize.options import OptimizationChanges, OptimizationOptions
from xoptim.proof import ProofOptions, located, prove
from xoptim.tune.speed import keep_if_not_slower
from xoptim.validate.errors import DifferentModelError, NotValidatedError
from xoptim.validate.options import ValidationChanges, ValidationOptions
from xoptim.validate.report import ValidationReport
from xoptim.validate.validation import validate

AnyModel = TypeVar("AnyModel")
Listener = Callable[[OptimizationReport], object]


@overload
def optimize(
    model: str | Path,
    options: OptimizationOptions | None = None,
    *,
    inline: bool = False,
    verify: bool | ValidationOptions = False,
    only_if_faster: bool | BenchOptions = False,
    report: Listener | None = None,
    **changes: Unpack[OptimizationChanges],
) -> onnx.ModelProto: ...


@overload
def optimize(
    model: AnyModel,
    options: OptimizationOptions | None = None,
    *,
    inline: bool = False,
    verify: bool | ValidationOptions = False,
    only_if_faster: bool | BenchOptions = False,
    report: Listener | None = None,
    **changes: Unpack[OptimizationChanges],
) -> AnyModel: ...


def optimize(
    model: Any,
    options: OptimizationOptions | None = None,
    *,
    inline: bool = False,
    verify: bool | ValidationOptions = False,
    only_if_faster: bool | BenchOptions = False,
    report: Listener | None = None,
    **changes: Unpack[OptimizationChanges],
) -> Any:
    """Optimize a model and return one of the same kind. The given model is left unchanged.

    Args:
        model: a ``ModelProto``, bytes, an ``onnx_ir.Model``, torch's ``ONNXProgram`` (which takes the new model over), or
            a path, which gives a ``ModelProto``.
        options: of the optimization.
        inline: replace calls of local functions by their bodies first.
        verify: run the original and the result in onnxruntime and compare, as the command does: a pattern that makes the
            model compute something else is left out, with a warning. Options set the comparison; by default it runs
            on the provider for which the model is optimized.
        only_if_faster: measure the original and the result; when it is measurably slower, leave out the groups of patterns
            that make it slower, as ``xopt --only-if-faster`` does. Options set the measurement.
        report: called with an `OptimizationReport`, which has the result of the comparison too.
        **changes: fields of `OptimizationOptions` to set, such as ``patterns="default+onnxruntime"``.

    Returns:
        The optimized model. From a path, external weights that no rewrite needed still refer to their file.

    Raises:
        ModelError: when the model cannot be read.
        UnknownPatternError: when a pattern name is unknown.
        DifferentModelError: with ``verify``, when the result computes something else: with ``strict``, or when no rewrite
            was found to leave out. ``report`` describes the difference.
        NotValidatedError: with ``verify``, when there is no verdict, for instance because onnxruntime cannot run
            the original. ``report`` gives the reason, and ``model`` is the optimized model.
        ChoiceError: with ``verify``, when sizes or values of the options do not fit the model.
        PatternError: when a selected pattern is declared wrongly.
        ProviderUnavailable: when onnxruntime lacks the provider of the comparison.
        LoadError, FeedError, RunError: with ``only_if_faster``, when a model cannot be measured.
    """
    source = Source(model)
    chosen = replace(options or OptimizationOptions(), **changes)
    if verify is False and only_if_faster is False:
        with collection_paused():
            proto = _optimized(source, chosen, inline, report)
    else:
        checks = verify if isinstance(verify, ValidationOptions) else ValidationOptions(providers=(chosen.provider,))
        how = ProofOptions(checks=checks, whole=verify is not False, bisect=not chosen.strict, inline=inline)
        bench = BenchOptions(provider=chosen.provider) if only_if_faster is True else only_if_faster or None
        proto = _proved(source, chosen, how, bench, report)
    return source.give_back(proto)


def _optimized(source: Source, options: OptimizationOptions, inline: bool, report: Listener | None) -> onnx.ModelProto:
    """Optimize in a function of its own, so that its objects are freed before the garbage collector visits them."""
    builder = GraphBuilder(source, optimization_options=options, inline=inline)
    builder.optimize()
    if report is not None:
        report(builder.report())
    proto = builder.to_onnx(optimize=False)
    builder.dispose()
    return proto


def _proved(
    source: Source, options: OptimizationOptions, how: ProofOptions, bench: BenchOptions | None, report: Listener | None
) -> onnx.ModelProto:
    proof = prove(source, options, how)
    if bench is not None and proof.failure is None:
        proof, _ = keep_if_not_slower(source, proof, options, how, bench)
    if report is not None:
        report(proof.report)
    failure = proof.failure
    if failure is not None:
        kind = DifferentModelError if failure.status == "different" else NotValidatedError
        raise kind(failure, proof.proto)
    proof.builder.dispose()
    return proof.proto


def outline(model: AnyModel) -> AnyModel:
    """Write blocks that repeat along a model, such as the layers of a transformer, once: as local functions that are called.

    Nothing else changes. ``optimize(model, outline=True)`` does the same after the patterns, and ``inline=True`` undoes it.

    Args:
        model: as for `optimize`.

    Returns:
        A model of the same kind; equal to the given one if no block repeats.

    Raises:
        ModelError: when the model cannot be read.
    """
    nothing = OptimizationOptions(
        patterns=None, remove_unused=False, remove_identity=False, constant_folding=False, merge=False, outline=True
    )
    return optimize(model, nothing)


def verify(
    original: Any, other: Any, options: ValidationOptions | None = None, **changes: Unpack[ValidationChanges]
) -> ValidationReport:
    """Run two models in onnxruntime on the same values and compare; see `xoptim.validate.validate`.

    Args:
        original: the model to trust, of any kind that `optimize` takes.
        other: the model to judge, likewise.
        options: values, provider and tolerance of the comparison.
        **changes: fields of `ValidationOptions` to set, such as ``exactness="exact"``, which demands equal bits.

    Returns:
        The report: ``ok`` when they are equal, ``status`` and ``reason`` otherwise.

    Raises:
        ModelError: when a model cannot be read.
        ChoiceError: when sizes or values of the options do not fit the original.
        ProviderUnavailable: when onnxruntime lacks a requested execution provider.
    """
    first, checks = located(Source(original), replace(options or ValidationOptions(), **changes))
    judged = Source(other)
    second = Path(other) if judged.kind == "path" else judged.proto
    return validate(first, second, replace(checks, optimized_dir=judged.base_dir or checks.optimized_dir))
