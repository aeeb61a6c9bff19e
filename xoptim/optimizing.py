"""The public door: `optimize` and `verify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

import onnx

from xoptim.builder import GraphBuilder
from xoptim.diagnose.report import OptimizationReport
from xoptim.graph.load import collection_paused
from xoptim.graph.sources import Source
from xoptim.optimize.options import OptimizationChanges, OptimizationOptions
from xoptim.proof import ProofOptions, located, prove
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
    report: Listener | None = None,
    **changes: Unpack[OptimizationChanges],
) -> AnyModel: ...


def optimize(
    model: Any,
    options: OptimizationOptions | None = None,
    *,
    inline: bool = False,
    verify: bool | ValidationOptions = False,
    report: Listener | None = None,
    **changes: Unpack[OptimizationChanges],
) -> Any:
    """Optimize a model and return one of the same kind. The model given is not modified.

    Args:
        model: a ``ModelProto``, bytes, an ``onnx_ir.Model``, torch's ``ONNXProgram`` (which takes the new model over), or
            a path, which gives a ``ModelProto``.
        options: what to do.
        inline: replace calls of local functions by their bodies first.
        verify: run the original and the result in onnxruntime and compare, as the command does: a pattern that makes the
            model compute something else is left out, with a warning. Options say how to compare; by default that is done
            on the provider that the model is optimized for.
        report: called with an `OptimizationReport`, which has the outcome of the comparison too.
        **changes: fields of `OptimizationOptions` to set, such as ``patterns="default+onnxruntime"``.

    Returns:
        The optimized model. From a path, external weights that no rewrite needed still refer to their file.

    Raises:
        ModelError: when the model cannot be read.
        UnknownPatternError: when a pattern name is not known.
        DifferentModelError: when the result computes something else and ``verify`` is asked for: with ``strict``, or when
            nothing was found to leave out. ``report`` tells how it differs.
        NotValidatedError: when ``verify`` is asked for and nothing can be said, for instance because onnxruntime cannot run
            the original. ``report`` tells why, and ``model`` is the optimized model.
        ProviderUnavailable: when onnxruntime does not have the provider to compare on.
    """
    source = Source(model)
    chosen = replace(options or OptimizationOptions(), **changes)
    if verify is False:
        with collection_paused():
            proto = _optimized(source, chosen, inline, report)
    else:
        checks = verify if isinstance(verify, ValidationOptions) else ValidationOptions(providers=(chosen.provider,))
        proto = _proved(source, chosen, ProofOptions(checks=checks, bisect=not chosen.strict, inline=inline), report)
    return source.give_back(proto)


def _optimized(source: Source, options: OptimizationOptions, inline: bool, report: Listener | None) -> onnx.ModelProto:
    """Nothing of the work outlives this call, so that there is nothing left to walk for the garbage collector."""
    builder = GraphBuilder(source, optimization_options=options, inline=inline)
    builder.optimize()
    if report is not None:
        report(builder.report())
    proto = builder.to_onnx(optimize=False)
    builder.dispose()
    return proto


def _proved(source: Source, options: OptimizationOptions, how: ProofOptions, report: Listener | None) -> onnx.ModelProto:
    proof = prove(source, options, how)
    if report is not None:
        report(proof.report)
    failure = proof.failure
    if failure is not None:
        kind = DifferentModelError if failure.status == "different" else NotValidatedError
        raise kind(failure, proof.proto)
    proof.builder.dispose()
    return proof.proto


def verify(
    original: Any, other: Any, options: ValidationOptions | None = None, **changes: Unpack[ValidationChanges]
) -> ValidationReport:
    """Run two models in onnxruntime on the same values and compare; see `xoptim.validate.validate`.

    Args:
        original: the model to trust, of any kind that `optimize` takes.
        other: the model to judge, likewise.
        options: on which values, on which provider, and how closely to compare.
        **changes: fields of `ValidationOptions` to set, such as ``exactness="exact"``, which demands equal bits.

    Returns:
        The report: ``ok`` when they are equal, ``status`` and ``reason`` otherwise.

    Raises:
        ModelError: when a model cannot be read.
        ProviderUnavailable: when onnxruntime does not have an execution provider that was asked for.
    """
    first, checks = located(Source(original), replace(options or ValidationOptions(), **changes))
    judged = Source(other)
    second = Path(other) if judged.kind == "path" else judged.proto
    return validate(first, second, replace(checks, optimized_dir=judged.base_dir or checks.optimized_dir))
