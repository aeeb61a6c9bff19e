"""Constants that are large enough to be stored in lower precision, whatever reads them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.protos import every_node, inner_graphs
from xoptim.match.quantization import FEWEST_STORED
from xoptim.verification.runs.protos import tensor_array, tensor_bytes

_FLOAT16_TYPES: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_INTEGER_TYPES: Final = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4)
_QUANTIZED_NAMES: Final = ("Quant", "QLinear", "NBits", "Bnb4", "MatMulInteger", "ConvInteger")
"""Parts of the names of operators whose float32 constants are scales."""
_SMALL_SHARE: Final = 0.001
"""The smallest constants, up to this part of all bytes, are not worth the nodes that widen them."""


@dataclass(frozen=True, slots=True)
class LargeConstant:
    """A constant that can be stored in lower precision.

    Attributes:
        name: the name by which operators read its float32 numbers: that of the initializer, or of
            the result of the Cast that widens it.
        tensor: the initializer; float16 or bfloat16 if a Cast widens it.
        readers: the nodes that read it.
    """

    name: str
    tensor: onnx.TensorProto
    readers: Sequence[onnx.NodeProto]

    @property
    def bits(self) -> int:
        """Bits of a number in the file."""
        return 32 if self.tensor.data_type == TensorProto.FLOAT else 16

    def numbers(self, folder: Path | None) -> np.ndarray:
        """The float32 numbers."""
        numbers: np.ndarray = tensor_array(self.tensor, folder).astype(np.float32, copy=False)
        return numbers


def large_constants(model: onnx.ModelProto) -> dict[str, LargeConstant]:
    """The float32 constants of `FEWEST_STORED` numbers or more, and constants of 16 bits that a
    Cast widens, by name.

    All graphs are searched. Constants that the caller may override, outputs, and scales of
    quantized weights are skipped.
    """
    graphs = [model.graph, *inner_graphs(model.graph.node)]
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in every_node(model.graph.node):
        for name in dict.fromkeys(node.input):
            readers.setdefault(name, []).append(node)
    excluded = {value.name for graph in graphs for value in graph.output} | _scales(model)
    excluded |= {value.name for value in model.graph.input} if model.ir_version >= 4 else set()
    constants = list[LargeConstant]()
    for tensor in (tensor for graph in graphs for tensor in graph.initializer):
        if math.prod(tensor.dims) < FEWEST_STORED or tensor.name in excluded:
            continue
        consumers = readers.get(tensor.name, [])
        if tensor.data_type == TensorProto.FLOAT:
            constants.append(LargeConstant(tensor.name, tensor, consumers))
        elif (
            tensor.data_type in _FLOAT16_TYPES
            and len(consumers) == 1
            and _is_widening(consumers[0])
        ):
            name = consumers[0].output[0]
            constants.append(LargeConstant(name, tensor, readers.get(name, [])))
    return {
        constant.name: constant
        for constant in constants
        if constant.readers and constant.name not in excluded
    }


def small_constants(constants: Iterable[LargeConstant]) -> set[str]:
    """The names of the smallest constants, which together have at most `_SMALL_SHARE` of the bytes
    of all constants.
    """
    by_size = sorted(constants, key=lambda constant: tensor_bytes(constant.tensor))
    sums = list(accumulate(tensor_bytes(constant.tensor) for constant in by_size))
    limit = _SMALL_SHARE * sums[-1] if sums else 0
    return {constant.name for constant, total in zip(by_size, sums, strict=True) if total <= limit}


def _scales(model: onnx.ModelProto) -> set[str]:
    """The operands of quantized operators, and of a Sub or Mul of integers that a Cast widens."""
    constants = {
        tensor.name
        for graph in (model.graph, *inner_graphs(model.graph.node))
        for tensor in graph.initializer
        if tensor.data_type in _INTEGER_TYPES
    }
    integers, operands = set[str](), set[str]()
    for node in every_node(model.graph.node):
        is_scaling = node.op_type in ("Mul", "Sub") and not integers.isdisjoint(node.input)
        if is_scaling or any(word in node.op_type for word in _QUANTIZED_NAMES):
            operands.update(node.input)
        if (is_scaling and node.op_type == "Sub") or (
            node.op_type == "Cast" and node.input[0] in constants
        ):
            integers.update(node.output)
    return operands


def _is_widening(node: onnx.NodeProto) -> bool:
    return node.op_type == "Cast" and any(
        attribute.name == "to" and attribute.i == TensorProto.FLOAT for attribute in node.attribute
    )


def float32_bytes(model: onnx.ModelProto) -> dict[str, int]:
    """The bytes of float32 constants, by the operator that reads them first, largest first."""
    consumers = {
        name: node.op_type
        for node in reversed([*every_node(model.graph.node)])
        for name in node.input
    }
    sizes = dict[str, int]()
    for graph in (model.graph, *inner_graphs(model.graph.node)):
        for tensor in graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                op_type = consumers.get(tensor.name, "outputs")
                sizes[op_type] = sizes.get(op_type, 0) + tensor_bytes(tensor)
    return dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))
