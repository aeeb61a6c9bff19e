"""Storage of a constant in lower precision."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.facts.protos import every_node, inner_graphs
from xoptim.graph.names import Names
from xoptim.match.quantization import StoringPattern

_ROW_READERS: Final = ("Gather", "GatherND")
"""Operators that read some rows of their first operand, so that only these rows are widened."""


class ConstantWriter:
    """Writes one constant in lower precision to the graph that has it.

    Args:
        model: changed in place.
        name: the name by which operators read the constant.
        names: gives names that the model does not use.
    """

    def __init__(self, model: onnx.ModelProto, name: str, names: Names) -> None:
        self._model, self._name, self._names = model, name, names
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: list[onnx.TensorProto] = []

    def write(self, pattern: type[StoringPattern], numbers: np.ndarray) -> None:
        """Store the numbers, and give their float32 form the name of the constant.

        In an embedding that only a Cast widens, this Cast moves after the operators that read rows.
        """
        graph = self._removed()
        pattern.stored(self, self._store, numbers)
        graph.initializer.extend(self._tensors)
        if len(self._nodes) == 1 and self._is_embedding():
            self._widen_afterwards(self._nodes[0].input[0])
            return
        self._nodes[-1].output[0] = self._name
        for index, node in enumerate(self._nodes):
            graph.node.insert(index, node)

    def written(self, pattern: type[StoringPattern], numbers: np.ndarray) -> int:
        """Make the nodes and the initializers without adding them to a graph.

        Returns:
            Their size in bytes.
        """
        pattern.stored(self, self._store, numbers)
        return sum(part.ByteSize() for part in (*self._nodes, *self._tensors))

    def __getattr__(self, op_type: str) -> Any:
        """A function that makes a node of an operator, and returns the name of its result."""
        return partial(self._make, op_type)

    def _make(self, op_type: str, *names: str, **attributes: Any) -> str:
        result = self._names.fresh(f"{self._name}_{op_type}")
        self._nodes.append(helper.make_node(op_type, names, [result], name=result, **attributes))
        return result

    def _store(self, array: np.ndarray, word: str) -> str:
        name = self._names.fresh(f"{self._name}_{word or array.dtype.name}")
        self._tensors.append(numpy_helper.from_array(array, name))
        return name

    def _graphs(self) -> list[onnx.GraphProto]:
        return [self._model.graph, *inner_graphs(self._model.graph.node)]

    def _removed(self) -> onnx.GraphProto:
        """Remove the constant, and the Cast that widens it; returns the graph that had it."""
        stored = self._name
        for graph in self._graphs():
            casts = [index for index, node in enumerate(graph.node) if self._name in node.output]
            if casts:
                stored = graph.node[casts[0]].input[0]
                remove_indices(graph.node, casts)
        owner = next(
            graph
            for graph in self._graphs()
            if any(tensor.name == stored for tensor in graph.initializer)
        )
        fields: tuple[Any, ...] = (owner.initializer, owner.input, owner.value_info)
        for values in fields:
            indices = [index for index, value in enumerate(values) if value.name == stored]
            remove_indices(values, indices)
        return owner

    def _is_embedding(self) -> bool:
        """Whether all readers of the constant read some of its rows only."""
        readers = [node for node in every_node(self._model.graph.node) if self._name in node.input]
        return all(
            node.op_type in _ROW_READERS and not node.domain and node.input[0] == self._name
            for node in readers
        )

    def _widen_afterwards(self, stored: str) -> None:
        """Let Gather and GatherND read the stored constant, and cast their results to float32."""
        for graph in self._graphs():
            for index in reversed(range(len(graph.node))):
                node = graph.node[index]
                if self._name not in node.input:
                    continue
                result = node.output[0]
                node.input[0], node.output[0] = stored, self._names.fresh(f"{result}_part")
                cast = helper.make_node("Cast", [node.output[0]], [result], to=TensorProto.FLOAT)
                graph.node.insert(index + 1, cast)


def remove_indices(field: Any, indices: Sequence[int]) -> None:
    """Delete elements of a repeated field of a protobuf, by ascending indices."""
    for index in reversed(indices):
        del field[index]
