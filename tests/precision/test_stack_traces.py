"""Metadata of the nodes of quantized models."""

import numpy as np
import onnx
import pytest

from tests.precision.models import convolutions, images, network, words
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import quantize

SCOPES, TRACE = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.stack_trace"


def traced(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with what torch writes about each node."""
    for index, node in enumerate(model.graph.node):
        texts = {SCOPES: f"['', 'layer.{index}']", TRACE: f"File model.py, line {index}\n" * 40}
        onnx.helper.set_metadata_props(node, texts)
    return model


@pytest.mark.parametrize(
    ("model", "feeds", "options"),
    [
        (convolutions(), [images(seed=seed) for seed in range(4)], {"static": True}),
        (network(), [words(seed=seed) for seed in range(4)], {"goal": "size"}),
        (network(), [words()], {"scheme": "float16", "compute": "float16"}),
    ],
    ids=["static", "dynamic", "float16"],
)
def test_stack_traces_are_not_copied(
    model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]], options: dict[str, object]
) -> None:
    how, chosen = Plan(), OptimizationOptions()
    precision = PrecisionOptions(tolerance=0.5, feeds=feeds, **options)  # type: ignore[arg-type]
    verified = optimize_verified(Source(traced(model)), chosen, how)
    found = quantize(verified, chosen, how, precision)
    assert found.applied
    nodes = found.verified.proto.graph.node
    keys = {entry.key for node in nodes for entry in node.metadata_props}
    assert SCOPES in keys
    assert TRACE not in keys


def test_traces_stay_without_quantization() -> None:
    verified = optimize_verified(Source(traced(network())), OptimizationOptions(), Plan())
    keys = {entry.key for node in verified.proto.graph.node for entry in node.metadata_props}
    assert TRACE in keys
