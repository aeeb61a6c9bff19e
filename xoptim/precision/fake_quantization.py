"""Fake quantization: operands become quantized numbers, but operators compute in float32."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import onnx

from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.protos import every_node
from xoptim.graph.propagate import quietly
from xoptim.graph.sources import Source
from xoptim.match.quantization import (
    BlockPattern,
    Observed,
    QuantizationPattern,
    RangedPattern,
    first_result,
)
from xoptim.match.rewrite import Rewrite
from xoptim.match.view import Cpu
from xoptim.optimizing.builder import GraphBuilder
from xoptim.precision.shared_initializers import share_initializers
from xoptim.preparation.ports import defined_names


def fake_quantized(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[Rewrite]],
    only: Mapping[str, str] | Collection[str] | None,
    provider: str,
    observed: Observed | None = None,
    cpu: Cpu = "any",
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Quantize operands of operators of a model and its subgraphs.

    Quantized numbers are stored in the main graph.

    Args:
        model: the model, in which each value has its own name.
        folder: of its external data.
        patterns: patterns that quantize operands, and others that are used with them.
        only: the results to quantize: a mapping to the pattern of each result, or a collection of
            results for which any pattern may apply. ``None`` for all results.
        provider: execution provider for which the patterns apply.
        observed: calibration data; see `Observed`.
        cpu: see `OptimizationOptions.cpu`.

    Returns:
        The new model, and the name of the pattern for each result that was quantized.
    """
    applied: dict[str, str] = {}

    def note(application: Application) -> None:
        if isinstance(application.pattern, QuantizationPattern):
            applied[first_result(application.anchor)] = application.pattern.name()

    options = OptimizationOptions(
        patterns=[_pattern_for(cls, only, observed) for cls in patterns],
        provider=provider,
        cpu=cpu,
        constant_folding=False,
        merge=False,
        remove_identity=False,
        on_application=note,
    )
    quantized = rewritten(Source(model, folder), options)
    share_initializers(quantized, defined_names(model))
    results = {first_result(node) for node in every_node(model.graph.node)}
    return quantized, {result: pattern for result, pattern in applied.items() if result in results}


def _pattern_for(
    cls: type[Rewrite],
    only: Mapping[str, str] | Collection[str] | None,
    observed: Observed | None,
) -> Rewrite | type[Rewrite]:
    """A pattern, limited to the results that it may quantize."""
    names: Collection[str] | None = only
    if isinstance(only, Mapping):
        names = [result for result, pattern in only.items() if pattern == cls.name()]
    if issubclass(cls, RangedPattern):
        return cls(names, observed)
    if issubclass(cls, BlockPattern):
        return cls(names, None if observed is None else observed.rounded)
    return cls(names) if issubclass(cls, QuantizationPattern) else cls


def rewritten(source: Source, options: OptimizationOptions) -> onnx.ModelProto:
    """The optimized model, without warnings about it. The graph of the optimization is freed."""
    with quietly():
        builder = GraphBuilder(source, optimization_options=options)
    model = builder.to_onnx()
    builder.dispose()
    return model
