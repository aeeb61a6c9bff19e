"""A graph that grows node by node, for models that are drawn by the programs of this folder."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """A graph that grows node by node; weights are drawn, the same ones at each call."""

    def __init__(self, opset: int = 18) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.random = np.random.default_rng(0)

    def input(self, *shape: int | str, dtype: int = TensorProto.FLOAT, name: str = "") -> str:
        """A new input."""
        name = name or f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A new node; the name of its only or first result, others have a number behind it."""
        name = f"r{len(self.nodes)}"
        results = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op_type, inputs, results, f"n{len(self.nodes)}", **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """A new initializer."""
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        """A vector of integers."""
        return self.constant(values)

    def weight(self, *shape: int, terms: float = 0) -> str:
        """Random numbers of a magnitude that sums of this many products keep, by default of as many as there are rows."""
        return self.constant(self.random.standard_normal(shape) * (terms or shape[-2:][0]) ** -0.5, np.float32)

    def conv(self, x: str, into: int, out: int, *, window: int = 3, step: int = 1) -> str:
        """A convolution with a bias, of a padded image."""
        weights = self.weight(out, into, window, window, terms=into * window**2 / 2)
        return self.add("Conv", x, weights, self.weight(out), pads=[window // 2] * 4, strides=[step] * 2)

    def model(self, *results: str) -> onnx.ModelProto:
        """The model with these results."""
        outputs = [onnx.ValueInfoProto(name=name) for name in results]
        graph = helper.make_graph(self.nodes, "drawn", self.inputs, outputs, self.stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        for output, inferred in zip(model.graph.output, onnx.shape_inference.infer_shapes(model).graph.output, strict=True):
            output.CopyFrom(inferred)
        return model


def drawn(build: Callable[..., str | Iterable[str]], *given: Any, **settings: Any) -> onnx.ModelProto:
    """The model of a function that adds nodes to a graph, and returns the names of the results."""
    g = Graph()
    results = build(g, *given, **settings)
    return g.model(*([results] if isinstance(results, str) else results))


def by_name(*builds: Callable[[Graph, int], str | Iterable[str]]) -> dict[str, Callable[[int], onnx.ModelProto]]:
    """The models of functions by their names, each for a number of repetitions."""
    return {build.__name__: partial(drawn, build) for build in builds}
