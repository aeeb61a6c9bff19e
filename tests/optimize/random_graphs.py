"""Random valid graphs: many operators, shared results, constants, computed shapes, subgraphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
_UNARY = (
    "Relu",
    "Neg",
    "Abs",
    "Sigmoid",
    "Tanh",
    "Erf",
    "Identity",
    "Exp",
    "Floor",
    "Sign",
    "Softplus",
    "HardSigmoid",
    "LeakyRelu",
)
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")
_SCALARS = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 6.0, float(np.sqrt(2)), 1e-5)


class RandomGraph:
    """Grows a graph; keeps one sample shape of each float result in mind, with the names of its open dimensions.

    Args:
        seed: decides everything.
        opset: version of the standard operator set.
    """

    def __init__(self, seed: int, opset: int = 18) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, Array] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._count = 0
        self._sizes = {"n": 2, "m": 3}

    # ---------------------------------------------------------------- pieces

    def name(self) -> str:
        """A new name."""
        self._count += 1
        return f"r{self._count}"

    def node(self, op_type: str, inputs: list[str], shape: tuple[int, ...], outputs: int = 1, **attributes: Any) -> str:
        """Add a node whose first output is a float result of this shape."""
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, **attributes))
        self.shapes[names[0]] = shape
        return names[0]

    def aside(self, op_type: str, inputs: list[str], **attributes: Any) -> str:
        """Add a node whose result is not a float (or is not to be picked)."""
        name = self.name()
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Add a constant, in one of the forms a model has for it."""
        tensor = numpy_helper.from_array(np.asarray(value, dtype), self.name())
        if self.rng.random() < 0.5:
            self.initializers.append(tensor)
        else:
            self.nodes.append(helper.make_node("Constant", [], [tensor.name], value=tensor))
        return tensor.name

    def ints(self, *values: int) -> str:
        """Add a vector of int64."""
        return self.constant(list(values), np.int64)

    def input(self, shape: tuple[int | str, ...]) -> None:
        """Add a float input; texts are names of dimensions."""
        name = self.name()
        sizes = tuple(self._sizes[d] if isinstance(d, str) else d for d in shape)
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.feeds[name] = self.rng.standard_normal(sizes).astype(np.float32)
        self.shapes[name] = sizes

    def pick(self, least_rank: int = 0) -> tuple[str, tuple[int, ...]]:
        """Any float result of at least this rank, recent ones more often."""
        names = [name for name, shape in self.shapes.items() if len(shape) >= least_rank] or list(self.shapes)
        place = min(int(self.rng.exponential(4)), len(names) - 1)
        name = names[-1 - place]
        return name, self.shapes[name]

    def choice(self, options: Any) -> Any:
        """One of several things."""
        return options[int(self.rng.integers(len(options)))]

    # ---------------------------------------------------------------- growth

    def grow(self) -> None:
        """Add one random operation."""
        moves: list[Callable[[], None]] = [
            *(self.unary, self.binary, self.scalar, self.transpose, self.reshape, self.computed_reshape, self.unsqueeze),
            *(self.squeeze, self.slice, self.concat, self.split, self.gather, self.reduce, self.softmax, self.cast, self.where),
            *(self.expand, self.clip, self.pad, self.mat_mul, self.dropout, self.logic, self.gelu, self.normalize, self.branch),
        ]
        self.choice(moves)()

    def unary(self) -> None:
        """Elementwise."""
        x, shape = self.pick()
        self.node(self.choice(_UNARY), [x], shape)

    def binary(self) -> None:
        """Elementwise with broadcasting, where two results fit."""
        x, a = self.pick()
        y, b = self.pick()
        try:
            shape = np.broadcast_shapes(a, b)
        except ValueError:
            return
        self.node(self.choice(_BINARY), [x, y], shape)

    def scalar(self) -> None:
        """With a constant of one element, of rank 0 or more."""
        x, shape = self.pick()
        value = np.full((1,) * int(self.rng.integers(0, len(shape) + 1)), self.choice(_SCALARS))
        c = self.constant(value)
        op_type = self.choice((*_BINARY, "Div", "Pow") if float(value.flat[0]) in (1.0, 2.0) else (*_BINARY, "Add", "Mul"))
        swapped = op_type in _BINARY and self.rng.random() < 0.4
        self.node(op_type, [c, x] if swapped else [x, c], shape)

    def transpose(self) -> None:
        """Any permutation, the default one included."""
        x, shape = self.pick(1)
        perm = [int(p) for p in self.rng.permutation(len(shape))]
        if self.rng.random() < 0.2:
            self.node("Transpose", [x], shape[::-1])
        else:
            self.node("Transpose", [x], tuple(shape[p] for p in perm), perm=perm)

    def reshape(self) -> None:
        """To a constant shape, with 0 and -1 where they are right."""
        x, shape = self.pick()
        size = int(np.prod(shape))
        target = self.choice([(size,), (1, size), shape, (*shape, 1), (-1,), (0, -1) if len(shape) > 1 else (-1, 1)])
        result = np.zeros(shape, np.bool_).reshape([shape[i] if d == 0 else d for i, d in enumerate(target)]).shape
        self.node("Reshape", [x, self.ints(*target)], result)

    def computed_reshape(self) -> None:
        """To a shape computed from Shape, as exporters write it."""
        x, shape = self.pick(2)
        if len(shape) < 2:
            return
        whole = self.aside("Shape", [x])
        pieces = []
        for axis in range(len(shape)):
            one = self.aside("Gather", [whole, self.constant(axis, np.int64)], axis=0)
            pieces.append(self.aside("Unsqueeze", [one, self.ints(0)]))
        if self.rng.random() < 0.5:
            pieces[-2:] = [self.aside("Mul", pieces[-2:])]
            result = (*shape[:-2], shape[-2] * shape[-1])
        else:
            place = int(self.rng.integers(len(pieces) + 1))
            pieces.insert(place, self.ints(1))
            result = (*shape[:place], 1, *shape[place:])
        self.node("Reshape", [x, self.aside("Concat", pieces, axis=0)], result)

    def unsqueeze(self) -> None:
        """One new axis, counted from either end."""
        x, shape = self.pick()
        if len(shape) > 4:
            return
        axis = int(self.rng.integers(0, len(shape) + 1))
        written = axis - len(shape) - 1 if self.rng.random() < 0.5 else axis
        self.node("Unsqueeze", [x, self.ints(written)], (*shape[:axis], 1, *shape[axis:]))

    def squeeze(self) -> None:
        """An axis of length 1, if there is one that is certain to stay so."""
        for name, shape in list(self.shapes.items())[::-1]:
            producer = next((n for n in self.nodes if name in n.output), None)
            if producer is not None and producer.op_type == "Unsqueeze" and 1 in shape:
                axis = shape.index(1)
                if shape.count(1) == 1:
                    self.node("Squeeze", [name, self.ints(axis)], (*shape[:axis], *shape[axis + 1 :]))
                return

    def slice(self) -> None:
        """Along one axis, sometimes everything."""
        x, shape = self.pick(1)
        if not shape:
            return
        axis = int(self.rng.integers(len(shape)))
        start, end = self.choice([(0, 2**63 - 1), (1, 2**63 - 1), (0, -1), (0, 2), (-1, 2**31 - 1)])
        size = len(range(shape[axis])[start:end])
        inputs = [x, self.ints(start), self.ints(end), self.ints(axis - len(shape) if self.rng.random() < 0.3 else axis)]
        if size:
            self.node("Slice", inputs, (*shape[:axis], size, *shape[axis + 1 :]))

    def concat(self) -> None:
        """Of one to three results that fit, or of a result with itself."""
        x, shape = self.pick(1)
        if not shape:
            return
        axis = int(self.rng.integers(len(shape)))
        count = int(self.rng.integers(1, 4))
        self.node("Concat", [x] * count, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]), axis=axis)

    def split(self) -> None:
        """A constant-sized axis in two; sometimes put together again."""
        x, shape = self.pick(1)
        axis = len(shape) - 1
        if not shape or shape[axis] != 4:
            return
        half = (*shape[:axis], 2)
        first = self.node("Split", [x, self.ints(2, 2)], half, outputs=2, axis=axis)
        second = self.nodes[-1].output[1]
        self.shapes[second] = half
        if self.rng.random() < 0.5:
            self.node("Concat", [first, second], shape, axis=axis)

    def gather(self) -> None:
        """With a scalar or a vector of constant indices."""
        x, shape = self.pick(1)
        if not shape:
            return
        axis = int(self.rng.integers(len(shape)))
        if self.rng.random() < 0.5:
            self.node("Gather", [x, self.constant(0, np.int64)], (*shape[:axis], *shape[axis + 1 :]), axis=axis)
        else:
            self.node("Gather", [x, self.ints(0, -1)], (*shape[:axis], 2, *shape[axis + 1 :]), axis=axis)

    def reduce(self) -> None:
        """One axis, kept or not."""
        x, shape = self.pick(1)
        if not shape:
            return
        axis, keep = int(self.rng.integers(len(shape))), int(self.rng.integers(2))
        result = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
        op_type = self.choice(("ReduceMean", "ReduceSum", "ReduceMax"))
        self.node(op_type, [x, self.ints(axis)], result, keepdims=keep)

    def softmax(self) -> None:
        """Along any axis."""
        x, shape = self.pick(1)
        if shape:
            self.node("Softmax", [x], shape, axis=int(self.rng.integers(len(shape))) - len(shape))

    def cast(self) -> None:
        """There and back, through types that lose or keep."""
        x, shape = self.pick()
        middle = self.choice((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL))
        clipped = self.aside("Clip", [x, self.constant(-9.0), self.constant(9.0)])
        self.node("Cast", [self.aside("Cast", [clipped], to=middle)], shape, to=TensorProto.FLOAT)

    def where(self) -> None:
        """Between a result and a constant, by a comparison, sometimes negated."""
        x, shape = self.pick()
        condition = self.aside(self.choice(("Greater", "LessOrEqual")), [x, self.constant(self.choice((0.0, 0.5)))])
        if self.rng.random() < 0.5:
            condition = self.aside("Not", [condition])
        other = self.constant(self.choice(_SCALARS))
        self.node("Where", [condition, x, other] if self.rng.random() < 0.5 else [condition, other, x], shape)

    def expand(self) -> None:
        """To its own shape, or by one axis; the target constant or computed."""
        x, shape = self.pick()
        if len(shape) > 3:
            return
        target = self.aside("Shape", [x])
        if self.rng.random() < 0.5:
            self.node("Expand", [x, target], shape)
        else:
            longer = self.aside("Concat", [self.ints(2), target], axis=0)
            self.node("Expand", [x, longer], (2, *shape))

    def clip(self) -> None:
        """With both bounds or one."""
        x, shape = self.pick()
        low = self.constant(self.choice((0.0, -1.0))) if self.rng.random() < 0.7 else ""
        high = self.constant(self.choice((6.0, 1.0))) if self.rng.random() < 0.7 else ""
        self.node("Clip", [x, low, high], shape)

    def pad(self) -> None:
        """The last axis, or nothing."""
        x, shape = self.pick(1)
        if not shape:
            return
        amount = int(self.rng.integers(0, 2))
        pads = [0] * len(shape) * 2
        pads[len(shape) - 1] = amount
        self.node("Pad", [x, self.ints(*pads)], (*shape[:-1], shape[-1] + amount))

    def mat_mul(self) -> None:
        """By a constant matrix, with or without a bias."""
        x, shape = self.pick(2)
        if len(shape) < 2:
            return
        weight = self.constant(self.rng.standard_normal((shape[-1], 4)) / 2)
        if self.rng.random() < 0.3:
            weight = self.aside("Transpose", [self.constant(self.rng.standard_normal((4, shape[-1])) / 2)], perm=[1, 0])
        product = self.node("MatMul", [x, weight], (*shape[:-1], 4))
        if self.rng.random() < 0.6:
            self.node("Add", [product, self.constant(self.rng.standard_normal(4))], (*shape[:-1], 4))

    def dropout(self) -> None:
        """As exporters leave it."""
        x, shape = self.pick()
        self.node("Dropout", [x], shape)

    def logic(self) -> None:
        """Comparisons joined by a connective."""
        x, shape = self.pick()
        a, b = (self.aside("Greater", [x, self.constant(v)]) for v in (0.0, 1.0))
        joined = self.aside(self.choice(("And", "Or", "Xor")), [a, self.choice((b, self.constant(True, np.bool_)))])
        self.node("Cast", [joined], shape, to=TensorProto.FLOAT)

    def gelu(self) -> None:
        """The exact unit, spelled out."""
        x, shape = self.pick()
        e = self.aside("Erf", [self.aside("Div", [x, self.constant(np.sqrt(2))])])
        p = self.aside("Mul", [x, self.aside("Add", [e, self.constant(1.0)])])
        self.node("Mul", [p, self.constant(0.5)], shape)

    def normalize(self) -> None:
        """Layer normalization or root mean square normalization, spelled out."""
        x, shape = self.pick(1)
        if not shape or shape[-1] < 2:
            return
        axes = self.ints(-1)
        centred = x
        if self.rng.random() < 0.6:
            centred = self.aside("Sub", [x, self.aside("ReduceMean", [x, axes], keepdims=1)])
        square = (
            self.aside("Pow", [centred, self.constant(2.0)]) if self.rng.random() < 0.5 else self.aside("Mul", [centred] * 2)
        )
        variance = self.aside("Add", [self.aside("ReduceMean", [square, axes], keepdims=1), self.constant(1e-5)])
        y = self.node("Div", [centred, self.aside("Sqrt", [variance])], shape)
        if self.rng.random() < 0.6:
            self.node("Mul", [y, self.constant(self.rng.standard_normal(shape[-1]))], shape)

    def branch(self) -> None:
        """An If that captures a result, its condition constant or not."""
        x, shape = self.pick()
        if self.rng.random() < 0.4:
            condition = self.constant(bool(self.rng.integers(2)), np.bool_)
        else:
            total = self.aside("ReduceSum", [x], keepdims=0)
            # Not 0: sums of normalized rows are 0 but for rounding, which must not decide.
            condition = self.aside("Greater", [total, self.constant(0.3)])
        bodies = []
        for op_type in ("Relu", "Neg"):
            inner, result = self.name(), self.name()
            nodes = [helper.make_node(op_type, [x], [inner]), helper.make_node("Identity", [inner], [result])]
            output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
            bodies.append(helper.make_graph(nodes, op_type, [], [output]))
        self.node("If", [condition], shape, then_branch=bodies[0], else_branch=bodies[1])

    # ---------------------------------------------------------------- result

    def model(self, size: int) -> onnx.ModelProto:
        """A model of about ``size`` operations."""
        for shape in (("n", "m", 4), (2, 3, 4), ("n", 4)):
            self.input(shape)
        while len(self.nodes) < size:
            self.grow()
        names = [name for name in self.shapes if name not in self.feeds]
        chosen = dict.fromkeys([names[-1], *(self.choice(names) for _ in range(2))])
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(self.shapes[name])) for name in chosen]
        graph = helper.make_graph(self.nodes, "random", self.inputs, outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
