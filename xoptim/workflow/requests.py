"""The requests of a job, adapted to its target, and their checks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import onnx

from xoptim.engine.options import OptimizationOptions
from xoptim.facts.advice import Advice
from xoptim.facts.protos import fed_inputs, opset_versions
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import VerifyPlan
from xoptim.precision.options import PrecisionOptions, samples_needed
from xoptim.preparation.ports import dimensions
from xoptim.targets.fitting import lacking_operator
from xoptim.targets.registry import named
from xoptim.verification.errors import ChoiceError
from xoptim.workflow.fitting_options import FittingOptions

if TYPE_CHECKING:
    from xoptim.precision.quantized import Quantized
    from xoptim.targets.target import Target


def target_of(options: OptimizationOptions) -> Target | None:
    """The target that a result is fitted to, ``None`` for onnxruntime on the CPU."""
    target = named(options.target) if options.target else None
    return None if target is None or target.name == "cpu" else target


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


def for_target(
    options: OptimizationOptions, target: Target, model: onnx.ModelProto
) -> OptimizationOptions:
    """The options of the optimization of a model for a target: its operator set, without the
    families of patterns that are slower there, and without patterns that only write operators that
    its table lacks.

    Where the provider is not installed, the model keeps its operator set: it is unknown whether the
    runtime supports the newer one.
    """
    names = [
        pattern.name()
        for pattern in options.scheduled()
        if pattern.family() in target.families or lacking_operator(pattern, target)
    ]
    is_older = (
        isinstance(target.opset, int)
        and opset_versions(model.opset_import).get("", 0) < target.opset
    )
    opset = target.opset if is_older or target.opset == "newest" else None
    if target.plugin is not None and not target.plugin.is_installed:
        opset = None
    return replace(options, opset=options.opset or opset, drop=(*options.drop, *names))


def with_error_of(
    options: FittingOptions, quantized: Quantized | None, target: Target
) -> FittingOptions:
    """The options of fitting, with the tolerance and the samples of the quantization, if any."""
    if quantized is None or quantized.reason:
        return options
    if quantized.in_float16 and not quantized.options.is_weight_only_float16:
        return options
    # Static quantization leaves room for the error of the target already.
    margin = 0.0 if quantized.activation_bits else target.tolerance
    return replace(
        options, tolerance=quantized.options.tolerance + margin, feeds=quantized.samples.feeds
    )


def check_shapes(target: Target, source: Source) -> None:
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


def check_static(
    request: PrecisionOptions | None, target: Target | None, verifying: VerifyPlan
) -> None:
    """Raise when static quantization lacks samples, or the target has no int8 kernels."""
    if request is None or not request.static:
        return
    if target is not None and not target.needs.computes_int8:
        raise ChoiceError(
            f"{target.name} has no kernels for int8 activations; without static, only weights "
            "are quantized"
        )
    if not request.are_samples_read or verifying.checks.test_data is not None:
        return
    if not request.samples:
        raise ChoiceError(samples_needed())
