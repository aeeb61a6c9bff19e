"""Calibration: the activations of a model on samples, and their ranges."""

import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from xoptim.facts.lazy import lazy_module
from xoptim.match.quantization import Observed, Range
from xoptim.operators.registry import Trait, operators_with
from xoptim.precision.channels import ChannelStatistics, channel_axes
from xoptim.precision.options import Calibration
from xoptim.verification.runs.session import Port, Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

_calibrate = lazy_module("onnxruntime.quantization.calibrate")

_BINS: Final = {"percentile": 2048, "entropy": 128}
"""The numbers of bins of a histogram, as onnxruntime has them by default."""
_PERCENTILE: Final = 99.99
_MAX_MAGNITUDE: Final = 2.0**100
"""Tensors with larger magnitudes get no range: their scale would be near the limits of float32."""
KEEPING: Final = operators_with(Trait.MOVES) - {"Split"} | {"MaxPool"}
"""Operators whose results consist of elements of their first operand. They run on integers as well:
the result has the scale of this operand.
"""


class Probe:
    """A model whose inner results can be read.

    Args:
        model: the model.
        folder: of its external data.
        names: of results of nodes of the main graph.
        settings: of the session.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        names: Iterable[str],
        settings: SessionSettings,
    ) -> None:
        results = sorted(set(names) - {value.name for value in model.graph.output})
        probe = onnx.ModelProto()
        probe.CopyFrom(model)
        probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in results)
        self._session = Session(probe, replace(settings, level="off"), base_dir=folder)

    @property
    def inputs(self) -> Sequence[Port]:
        """The inputs of the model."""
        return self._session.inputs

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The results, all outputs, and the values of the inputs."""
        names = (port.name for port in self._session.outputs)
        return {**feeds, **dict(zip(names, self._session.run(feeds), strict=True))}


class Ranges:
    """Ranges of float32 tensors.

    A tensor has no range if it is empty in a sample, or holds NaN or numbers near the limits of
    float32, as masks do.

    Args:
        calibration: ``minmax`` for all numbers; ``percentile`` and ``entropy`` for the ranges of
            `onnxruntime.quantization`, which skip rare large numbers.
    """

    def __init__(self, calibration: Calibration) -> None:
        self._extremes: dict[str, Range] = {}
        self._unfit: set[str] = set()
        self._collector: Any = None
        if calibration != "minmax":
            bins = _BINS[calibration]
            self._collector = _calibrate.HistogramCollector(
                calibration, False, bins, bins, _PERCENTILE, "same"
            )

    def add(self, values: Mapping[str, Value]) -> None:
        """Take in the values of one sample."""
        arrays = {
            name: value
            for name, value in values.items()
            if isinstance(value, np.ndarray) and value.dtype == np.float32
        }
        self._unfit |= {
            name
            for name, value in arrays.items()
            if not value.size or not (np.abs(value) < _MAX_MAGNITUDE).all()
        }
        arrays = {name: value for name, value in arrays.items() if name not in self._unfit}
        for name, value in arrays.items():
            low, high = self._extremes.get(name, (np.inf, -np.inf))
            self._extremes[name] = min(low, float(value.min())), max(high, float(value.max()))
        if self._collector is not None:
            with contextlib.redirect_stdout(io.StringIO()):  # the collector prints its progress
                self._collector.collect(arrays)

    def by_name(self) -> dict[str, Range]:
        """The ranges, by name."""
        ranges = self._extremes
        if self._collector is not None and ranges:
            with contextlib.redirect_stdout(io.StringIO()):
                limits = self._collector.compute_collection_result()
            ranges = {name: (float(pair[0]), float(pair[1])) for name, pair in limits.items()}
        return {name: limits for name, limits in ranges.items() if name not in self._unfit}


def calibrated(
    model: onnx.ModelProto,
    folder: Path | None,
    op_types: Iterable[str],
    samples: Sequence[Mapping[str, Value]],
    calibration: Calibration,
    settings: SessionSettings,
) -> Observed:
    """The ranges of operands and results of operators of the main graph, and channel statistics of
    the first operands of MatMul, Gemm and Conv; tensors that are quantized already are skipped.

    Args:
        model: the model.
        folder: of its external data.
        op_types: types of the operators whose ranges are wanted.
        samples: values of the inputs.
        calibration: see `Ranges`.
        settings: of the session.
    """
    kinds = {*op_types}
    kinds |= KEEPING if kinds else set()
    constants = {tensor.name for tensor in model.graph.initializer}
    results = {name for node in model.graph.node for name in node.output}
    nodes = [node for node in model.graph.node if not node.domain and node.op_type in kinds]
    quantized = {name for node in model.graph.node for name in _quantized(node)}
    names = (
        {name for node in nodes for name in (*node.input, *node.output) if name}
        - constants
        - quantized
    )
    axes = {
        name: axis
        for name, axis in channel_axes(model).items()
        if name not in constants | quantized
    }
    probe = Probe(model, folder, (names | axes.keys()) & results, settings)
    ranges, channels = Ranges(calibration), ChannelStatistics(axes)
    for feeds in samples:
        values = probe.run(feeds)
        ranges.add({name: value for name, value in values.items() if name in names})
        channels.add(values)
    limits = ranges.by_name()
    for node in nodes:
        if node.op_type in KEEPING and node.input[0] in limits:
            limits[node.output[0]] = limits[node.input[0]]
    return Observed(limits, channels.by_name())


def _quantized(node: onnx.NodeProto) -> Sequence[str]:
    """The float32 operand of a QuantizeLinear, or the result of a DequantizeLinear."""
    return {"QuantizeLinear": node.input[:1], "DequantizeLinear": node.output[:1]}.get(
        node.op_type, ()
    )
