"""Decide which results are constant, and compute their values on demand."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.attributes import AttributeReference
from xoptim.facts.errors import MissingWeightsError
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor, text_bytes
from xoptim.operators.evaluate.kernel_table import LARGEST_RESULT
from xoptim.operators.evaluate.regions import evaluate_with_onnxruntime
from xoptim.operators.inference.values import known_value
from xoptim.operators.registry import operator_of


class EvaluationView:
    """The interface through which the numpy kernels read a node.

    ``num_outputs`` includes outputs omitted in the middle.
    """

    __slots__ = ("domain", "node", "num_outputs", "op_type", "opset")

    def __init__(self, node: Node, opset: int | None = None) -> None:
        self.node = node
        self.op_type = node.op_type
        self.domain = node.domain
        self.opset = node.opset if opset is None else opset
        self.num_outputs = len(node.output)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Value of an attribute as written, ``default`` when absent.

        Raises ValueError when the caller of a local function gives the value.
        """
        value = self.node.attribute.get(name)
        if isinstance(value, AttributeReference):
            raise ValueError(f"the value of {name} is given by the caller of the local function")
        return default if value is None else value


def is_constant(graph: Graph, name: str) -> bool:
    """Whether a result is the same at every run: stored, computed only from such results, or
    determined by shapes alone.
    """
    return (
        graph.tensor(name) is not None
        or graph.is_computed(name)
        or known_value(graph.info_of(name)) is not None
    )


def constant_array(graph: Graph, name: str) -> np.ndarray | None:
    """The value of a constant result, computed when it is not stored.

    ``None`` when it cannot be computed, or its external data is missing.
    """
    tensor = graph.tensor(name)
    if tensor is not None:
        try:
            return tensor.numpy()
        except MissingWeightsError:
            return None
    scope = graph.scope(name)
    if scope is None or not is_constant(graph, name):
        return None
    value = known_value(scope.info_of(name))
    if value is not None:
        return value
    node = scope.producer(name)
    if node is None:
        return None
    cached = scope.evaluated(name)
    if isinstance(cached, str):
        inputs = [constant_array(scope, i) if i else None for i in node.input]
        complete = not any(value is None and i for value, i in zip(inputs, node.input, strict=True))
        shape = scope.info_of(name).static_shape or ()
        size = math.prod(shape)
        if scope.info_of(name).dtype == TensorProto.STRING:
            size = text_bytes(
                size,
                longest_result(
                    node, [Tensor.from_array(operand) for operand in inputs if operand is not None]
                ),
            )
        results = evaluate(node, inputs) if complete and size <= LARGEST_RESULT else None
        # Failures are remembered: otherwise every lookup would evaluate them again.
        values: Sequence[np.ndarray | None] = (
            results if results is not None else (None,) * len(node.output)
        )
        by_name = dict(zip(node.output, values, strict=False))
        scope.remember(by_name)
        return by_name[name]
    return cached


_MAX_NUMBER_LENGTH: Final = 32
"""Characters of a number that is written as text."""


def longest_result(node: Node, operands: Iterable[Tensor | int | None]) -> int:
    """Maximal number of characters of a text in the results of a node.

    An operand is a tensor, or the length of the longest text in it.
    """
    lengths = (
        operand.longest_text() if isinstance(operand, Tensor) else operand or 0
        for operand in operands
    )
    longest = max(map(_longest_value, node.attribute.values()), default=0)
    return sum(lengths) + longest + _MAX_NUMBER_LENGTH


def _longest_value(value: Any) -> int:
    """Characters of the longest text in an attribute."""
    if isinstance(value, TensorProto):
        return max(map(len, value.string_data), default=0)
    values = value if isinstance(value, (list, tuple)) else (value,)
    return max((len(text) for text in values if isinstance(text, (str, bytes))), default=0)


def evaluate(node: Node, inputs: list[np.ndarray | None]) -> list[np.ndarray] | None:
    """The results of one node: by numpy where that is exact, else by onnxruntime.

    ``None`` when it cannot be run.
    """
    kernel = operator_of(node.domain, node.op_type).kernel
    if kernel is not None:
        try:
            results = kernel(EvaluationView(node), inputs)
        except MemoryError:
            raise
        except Exception:  # numpy may raise any exception for invalid operands
            results = None
        if results is not None:
            return results
    assert node.graph is not None
    model = node.graph.model
    feeds = {
        name: value
        for name, value in zip(node.input, inputs, strict=True)
        if name and value is not None
    }
    outputs = [name for name in node.output if name]
    region = evaluate_with_onnxruntime(
        [node.to_proto()], feeds, outputs, node.graph.opsets, model.ir_version
    )
    if region.values is None:
        return None
    empty = np.empty(0)
    return [region.values[name] if name else empty for name in node.output]


def store(graph: Graph, hint: str, array: np.ndarray) -> str:
    """Add a constant under a new name."""
    name = graph.names.fresh(hint)
    graph.add_initializer(name, Tensor.from_array(array))
    return name
