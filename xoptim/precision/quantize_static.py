"""Quantization by onnxruntime: values for the calibration, ranges, and the types of weights."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from xoptim.facts.lazy import lazy_module
from xoptim.facts.protos import proto_reads
from xoptim.match.quantization import Range
from xoptim.verification.runs.session import Value

quantization = lazy_module("onnxruntime.quantization")
qnn = lazy_module("onnxruntime.quantization.execution_providers.qnn")
NARROW: Final = 8
WIDE: Final = 16
WIDTHS: Final = (NARROW, WIDE)
"""Bits of the results of operators, fewest first. Weights have 8 bits."""
MARGIN: Final = 1.5
"""Factor by which 16-bit ranges exceed the ranges on samples. The steps are small all the same."""
_WITH_WEIGHTS: Final = ("Conv", "ConvTranspose")
"""Operators whose weights get one scale per channel from onnxruntime itself."""
_MATMULS: Final = ("MatMul", "Gemm")
_MATRIX: Final = 2
_OPERANDS: Final = 2
_MAX_INT8: Final = 127


def quantize_static(
    model: onnx.ModelProto,
    feeds: Sequence[Mapping[str, Value]],
    bits: int,
    split: Collection[str] = (),
    calibration: str = "minmax",
    ranges: Mapping[str, Range] = MappingProxyType({}),
    margin: float = MARGIN,
    *,
    keeps_activations: bool = False,
) -> onnx.ModelProto:
    """A model with QDQ around its operators, with ranges from samples.

    Args:
        model: in operator set 21 or newer, its weights inside; left unchanged.
        feeds: the values of the inputs.
        bits: of the results of operators, 8 or 16.
        split: names of nodes whose weights become the sum of two constants of 8 bits.
        calibration: the method by which ranges are found, see `PrecisionOptions`.
        ranges: of results, by name, in place of calibrated ones.
        margin: the factor by which ``ranges`` are widened.
        keeps_activations: whether a Relu or Clip that QDQ makes redundant stays.
    """
    types = quantization.QuantType
    methods = quantization.CalibrationMethod
    method = {
        "minmax": methods.MinMax,
        "percentile": methods.Percentile,
        "entropy": methods.Entropy,
    }
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    ranges = {**ranges, **_split(copy, split, ranges)}
    _drop_unread_constants(copy)
    with _quiet(), tempfile.TemporaryDirectory(prefix="xopt-") as folder:
        config = qnn.get_qnn_qdq_config(
            copy,
            _Reader(feeds),
            calibrate_method=method[calibration],
            activation_type=types.QUInt8 if bits == NARROW else types.QUInt16,
            weight_type=types.QInt8,
            per_channel=True,
            init_overrides={**_widened(ranges, margin), **_type_overrides(copy, bits)},
            keep_removable_activations=keeps_activations,
        )
        path = Path(folder) / "quantized.onnx"
        quantization.quantize(copy, str(path), config)
        return onnx.load(path)


def weights_of(
    node: onnx.NodeProto, stored: Mapping[str, onnx.TensorProto]
) -> tuple[str, int] | None:
    """The constant weights of a Conv, MatMul or Gemm, and the axis of their scales; ``None``
    without constant weights.
    """
    if len(node.input) < _OPERANDS or node.input[1] not in stored:
        return None
    name = node.input[1]
    if node.op_type == "Conv":
        return name, 0
    if node.op_type in _MATMULS and len(stored[name].dims) == _MATRIX:
        return name, 0 if _is_transposed(node) else 1
    return None


def _split(
    model: onnx.ModelProto, names: Collection[str], ranges: Mapping[str, Range]
) -> dict[str, Range]:
    """Replace each named node by the sum of two nodes.

    The weights of the first node are rounded to 8 bits; those of the second are the difference.

    Returns:
        The ranges of the new results.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    new_ranges: dict[str, Range] = {}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        weights_axis = weights_of(node, stored) if node.name in names else None
        if weights_axis is None:
            nodes.append(node)
            continue
        name, axis = weights_axis
        result = node.output[0]
        numbers = numpy_helper.to_array(stored[name])
        first = _of_8_bits(numbers, axis)
        parts = {"first": first, "second": numbers - first}
        for part, values in parts.items():
            weights = f"{result}_{part}_weights"
            model.graph.initializer.append(numpy_helper.from_array(values, weights))
            operands = [node.input[0], weights, *(node.input[2:] if part == "first" else ())]
            node_of_part = onnx.helper.make_node(
                node.op_type, operands, [f"{result}_{part}"], f"{node.name}_{part}"
            )
            node_of_part.attribute.extend(node.attribute)
            nodes.append(node_of_part)
        operands = [f"{result}_{part}" for part in parts]
        nodes.append(onnx.helper.make_node("Add", operands, [result], node.name))
        if result in ranges:
            new_ranges[operands[0]] = ranges[result]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return new_ranges


def _drop_unread_constants(model: onnx.ModelProto) -> None:
    """Remove constants that no node reads: the calibration's sessions warn about each of them."""
    read = {name for node in model.graph.node for name in proto_reads(node)}
    read.update(value.name for value in (*model.graph.input, *model.graph.output))
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def _of_8_bits(numbers: np.ndarray, axis: int) -> np.ndarray:
    """Weights quantized to 8 bits, with one scale for each index of an axis, as float32."""
    axes = tuple(index for index in range(numbers.ndim) if index != axis)
    scales = np.abs(numbers).max(axis=axes, keepdims=True) / _MAX_INT8
    scales = np.where(scales == 0, 1, scales)
    quantized: np.ndarray = (np.round(numbers / scales) * scales).astype(np.float32)
    return quantized


def _widened(ranges: Mapping[str, Range], margin: float) -> dict[str, list[dict[str, Any]]]:
    """The ranges of results, widened for numbers beyond those on the samples."""
    return {
        name: [_range_override(margin * min(low, 0.0), margin * max(high, 0.0))]
        for name, (low, high) in ranges.items()
        if low < high
    }


def _range_override(low: float, high: float) -> dict[str, Any]:
    """A range in the form in which onnxruntime takes it in place of a calibrated one."""
    return {"rmin": np.float32(low), "rmax": np.float32(high)}


def _type_overrides(model: onnx.ModelProto, bits: int) -> dict[str, list[dict[str, Any]]]:
    """The types of constants, by name.

    Matrices have 8 bits and one scale per column. Other constants, such as embeddings, have as many
    bits as results. QNN takes the scale of a LayerNormalization only as unsigned 8-bit integers.
    """
    types = quantization.QuantType
    overrides: dict[str, list[dict[str, Any]]] = {}
    tensors = {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
    }
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name not in tensors or node.op_type in _WITH_WEIGHTS:
                continue
            if node.op_type == "LayerNormalization":
                if index == 1:
                    overrides[name] = [{"quant_type": types.QUInt8, "symmetric": False}]
                continue
            weights = weights_of(node, tensors)
            if weights is not None and index == 1:
                override = {"quant_type": types.QInt8, "axis": weights[1], "symmetric": True}
                overrides[name] = [override]
            elif bits == WIDE and node.op_type != "Gemm":
                overrides.setdefault(name, [{"quant_type": types.QUInt16}])
    return overrides


def _is_transposed(node: onnx.NodeProto) -> bool:
    return any(attribute.name == "transB" and attribute.i for attribute in node.attribute)


class _Reader:
    """Values of the inputs, as the calibration of onnxruntime reads them, one after the other."""

    def __init__(self, feeds: Sequence[Mapping[str, Value]]) -> None:
        self._feeds = feeds
        self._rest = iter(feeds)

    def get_next(self) -> dict[str, Value] | None:
        """The values of the next run, ``None`` at the end."""
        feeds = next(self._rest, None)
        return None if feeds is None else dict(feeds)

    def __iter__(self) -> Iterator[Mapping[str, Value]]:
        return iter(self._feeds)


@contextmanager
def _quiet() -> Iterator[None]:
    """Mute the messages of onnxruntime's quantization, which go to the root logger and configure
    it.
    """
    root = logging.getLogger()
    handler, disabled = logging.NullHandler(), root.manager.disable
    root.addHandler(handler)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.removeHandler(handler)
