"""The constant matrices that are quantized in blocks, and the tensors multiplied by them."""

import math
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto
from onnx.helper import get_node_attr_value

from xoptim.facts.protos import every_node, inner_graphs
from xoptim.match.block_rounding import BlockFormat, WeightKey
from xoptim.match.quantization import LARGEST
from xoptim.verification.runs.protos import tensor_array

_EMBEDDING: Final = "Gather"
_MATRIX_RANK: Final = 2
Activations: TypeAlias = tuple[str, ...]
"""The names of all tensors that are multiplied by one constant."""


class WeightMatrices:
    """The constant float32 matrices of a model, and others that a Cast converts to float32.

    Args:
        model: the model.
        folder: of its external data.
        form: bits and block size for rounding them.
    """

    def __init__(self, model: onnx.ModelProto, folder: Path | None, form: BlockFormat) -> None:
        self._folder, self._form = folder, form
        tensors = {
            tensor.name: tensor
            for graph in (model.graph, *inner_graphs(model.graph.node))
            for tensor in graph.initializer
            if len(tensor.dims) == _MATRIX_RANK
        }
        self._tensors = {
            name: tensor
            for name, tensor in tensors.items()
            if tensor.data_type == TensorProto.FLOAT
        }
        for node in every_node(model.graph.node):
            if node.op_type == "Cast" and _attribute(node, "to", 0) == TensorProto.FLOAT:
                tensor = tensors.get(node.input[0])
                if tensor is not None and tensor.data_type != TensorProto.FLOAT:
                    self._tensors[node.output[0]] = tensor

    def fits(self, key: WeightKey) -> bool:
        """Whether a matrix exists, has finite numbers, and has complete blocks of rows."""
        tensor = self._tensors.get(key[0])
        if tensor is None or not math.prod(tensor.dims) or self.rows(key) % self._form.size:
            return False
        return bool((np.abs(self.read(key)) <= LARGEST).all())

    def rows(self, key: WeightKey) -> int:
        """The number of rows of a matrix: the terms of a sum."""
        name, is_transposed = key
        return int(self._tensors[name].dims[is_transposed])

    def read(self, key: WeightKey) -> np.ndarray:
        """A float32 matrix of shape (terms, columns)."""
        name, is_transposed = key
        numbers = tensor_array(self._tensors[name], self._folder).astype(np.float32, copy=False)
        return np.ascontiguousarray(numbers.T) if is_transposed else numbers


def weight_readers(
    model: onnx.ModelProto, op_types: set[str], matrices: WeightMatrices
) -> dict[WeightKey, Activations]:
    """The constant matrices that operators read, and the tensors of the main graph that are
    multiplied by them.
    """
    observable = {name for node in model.graph.node for name in node.output}
    observable |= {value.name for value in model.graph.input}
    transposes = {
        node.output[0]: node.input[0]
        for node in every_node(model.graph.node)
        if node.op_type == "Transpose" and _attribute(node, "perm", [1, 0]) == [1, 0]
    }
    readers = dict[WeightKey, list[str]]()
    for node in every_node(model.graph.node):
        if node.op_type not in op_types:
            continue
        if node.op_type == _EMBEDDING:
            key, activations = (node.input[0], True), ""
        else:
            name, is_transposed = node.input[1], bool(_attribute(node, "transB", 0))
            if name in transposes:
                name, is_transposed = transposes[name], not is_transposed
            key = name, is_transposed
            is_plain = not any(
                _attribute(node, attribute, 0) for attribute in ("transA", "transBatchA")
            )
            activations = node.input[0] if is_plain else ""
        if matrices.fits(key):
            names = readers.setdefault(key, [])
            if activations in observable and activations not in names:
                names.append(activations)
    return {key: tuple(names) for key, names in readers.items()}


def _attribute(node: onnx.NodeProto, name: str, default: object) -> object:
    return get_node_attr_value(node, name) if _has(node, name) else default


def _has(node: onnx.NodeProto, name: str) -> bool:
    return any(attribute.name == name for attribute in node.attribute)
