"""Other optimizers, as functions from model to model, and what tables of several programs show."""

import tempfile
from collections.abc import Callable
from typing import Any

import onnx

from xoptim.bench import Ratio
from xoptim.validate.errors import ProviderUnavailable
from xoptim.validate.session import resolve_providers


def offline(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model that onnxruntime saves after its own optimizations (extended)."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    settings.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        settings.optimized_model_filepath = f"{folder}/model.onnx"
        onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        return onnx.load(settings.optimized_model_filepath)


def _onnxsim(model: onnx.ModelProto) -> Any:
    import onnxsim

    return onnxsim.simplify(model)[0]


def _onnxslim(model: onnx.ModelProto) -> Any:
    import onnxslim

    return onnxslim.slim(model)


def _onnxscript(model: onnx.ModelProto) -> Any:
    from onnxscript import optimizer

    return optimizer.optimize(model)


PEERS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
    "onnxscript": _onnxscript,
}
"""Optimizers by the name of their package."""


def cell(ratio: Ratio | None) -> str:
    """A ratio and its interval."""
    return "" if ratio is None else f"{ratio.value:.2f} ({ratio.interval.low:.2f} to {ratio.interval.high:.2f})"


def missing_provider(provider: str) -> str:
    """Why an execution provider cannot be measured, or ""."""
    try:
        resolve_providers([provider])
    except ProviderUnavailable as error:
        return str(error)
    return ""
