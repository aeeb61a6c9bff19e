"""Graphs of towers: the same operations several times side by side, on operands of their own."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 4


@dataclass
class Sketch:
    """A graph that grows node by node."""

    seed: int = 0
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, Sequence[int | str]] = field(default_factory=dict)
    constants: list[TensorProto] = field(default_factory=list)
    """Initializers."""

    def __post_init__(self) -> None:
        self.numbers = np.random.default_rng(self.seed)

    def input(self, *shape: int | str) -> str:
        """A new input of 32-bit floats."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = shape
        return name

    def weight(self, *shape: int) -> str:
        """A new constant of random numbers."""
        return self.constant(self.numbers.standard_normal(shape).astype(np.float32))

    def constant(self, array: np.ndarray) -> str:
        """A new constant."""
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def add(self, op_type: str, *operands: str, **attributes: Any) -> str:
        """A new node; the name of its result."""
        name = f"r{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, operands, [name], **attributes))
        return name

    def model(self, *results: str, opset: int = 18) -> onnx.ModelProto:
        """The model with these results."""
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in self.inputs.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in results]
        graph = helper.make_graph(self.nodes, "towers", inputs, outputs, self.constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
        )
        typed = onnx.shape_inference.infer_shapes(model)
        del typed.graph.value_info[:]
        return typed


Step = Callable[[Sketch, str, str, random.Random], str]
"""Adds an operation to a tower: from the graph, the tower so far, a value that all towers read, and
random numbers.
"""
STEPS: dict[str, Step] = {
    "linear": lambda g, x, common, rng: g.add(
        "Add", *_either(rng, g.add("MatMul", x, g.weight(WIDTH, WIDTH)), g.weight(WIDTH))
    ),
    "gemm": lambda g, x, common, rng: g.add(
        "Gemm", x, g.weight(WIDTH, WIDTH), g.weight(WIDTH), transB=1
    ),
    "relu": lambda g, x, common, rng: g.add("Relu", x),
    "norm": lambda g, x, common, rng: g.add(
        "LayerNormalization", x, g.weight(WIDTH), g.weight(WIDTH), axis=-1
    ),
    "softmax": lambda g, x, common, rng: g.add("Softmax", x, axis=1),
    "scale": lambda g, x, common, rng: g.add("Mul", *_either(rng, x, g.weight(1))),
    "residual": lambda g, x, common, rng: g.add("Add", *_either(rng, x, g.add("Tanh", x))),
    "centre": lambda g, x, common, rng: g.add(
        "Sub", x, g.add("ReduceMean", x, g.constant(np.array([-1])), keepdims=1)
    ),
    "turn": lambda g, x, common, rng: g.add(
        "Transpose", g.add("Exp", g.add("Transpose", x, perm=[1, 0])), perm=[1, 0]
    ),
    "heads": lambda g, x, common, rng: g.add(
        "Reshape", _heads(g, x), g.constant(np.array([0, WIDTH]))
    ),
    "clip": lambda g, x, common, rng: g.add(
        "Clip", x, g.constant(np.array(-1, np.float32)), g.constant(np.array(1, np.float32))
    ),
    "shared": lambda g, x, common, rng: g.add("Add", *_either(rng, x, common)),
    "parts": lambda g, x, common, rng: g.add(
        "Concat", *(_part(g, x, start) for start in (2, 0)), axis=-1
    ),
    "flat": lambda g, x, common, rng: g.add(
        "Squeeze", g.add("Unsqueeze", x, g.constant(np.array([1]))), g.constant(np.array([-2]))
    ),
}


def _heads(g: Sketch, x: str) -> str:
    return g.add("Softmax", g.add("Reshape", x, g.constant(np.array([0, 2, WIDTH // 2]))), axis=-1)


def _part(g: Sketch, x: str, start: int) -> str:
    return g.add("Slice", x, *(g.constant(np.array([each])) for each in (start, start + 2, 1)))


def _either(rng: random.Random, x: str, y: str) -> tuple[str, str]:
    return (x, y) if rng.random() < 0.5 else (y, x)


def feeds(model: onnx.ModelProto, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Values for the inputs, with so many rows."""
    numbers = np.random.default_rng(seed)
    found = {}
    for value in model.graph.input:
        shape = [dim.dim_value or rows for dim in value.type.tensor_type.shape.dim]
        found[value.name] = numbers.standard_normal(shape).astype(np.float32)
    return found
