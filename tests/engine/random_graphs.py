"""Random valid graphs: many operators, shared results, constants, computed shapes, subgraphs."""

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

    # ---------------------------------------------------------------- result

    def model(self, size: int) -> onnx.ModelProto:
        """A model of about ``size`` operations."""
        for shape in (("n", "m", 4), (2, 3, 4), ("n", 4)):
            self.input(shape)
        while len(self.nodes) < size:
            self.choice(MOVES)(self)
        names = [name for name in self.shapes if name not in self.feeds]
        chosen = dict.fromkeys([names[-1], *(self.choice(names) for _ in range(2))])
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(self.shapes[name])) for name in chosen]
        graph = helper.make_graph(self.nodes, "random", self.inputs, outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


# -------------------------------------------------------------------- moves


def _unary(g: RandomGraph) -> None:
    """Elementwise."""
    x, shape = g.pick()
    g.node(g.choice(_UNARY), [x], shape)


def _binary(g: RandomGraph) -> None:
    """Elementwise with broadcasting, where two results fit."""
    x, a = g.pick()
    y, b = g.pick()
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        return
    g.node(g.choice(_BINARY), [x, y], shape)


def _scalar(g: RandomGraph) -> None:
    """With a constant of one element, of rank 0 or more."""
    x, shape = g.pick()
    value = np.full((1,) * int(g.rng.integers(0, len(shape) + 1)), g.choice(_SCALARS))
    c = g.constant(value)
    op_type = g.choice((*_BINARY, "Div", "Pow") if float(value.flat[0]) in (1.0, 2.0) else (*_BINARY, "Add", "Mul"))
    swapped = op_type in _BINARY and g.rng.random() < 0.4
    g.node(op_type, [c, x] if swapped else [x, c], shape)


def _transpose(g: RandomGraph) -> None:
    """Any permutation, the default one included."""
    x, shape = g.pick(1)
    perm = [int(p) for p in g.rng.permutation(len(shape))]
    if g.rng.random() < 0.2:
        g.node("Transpose", [x], shape[::-1])
    else:
        g.node("Transpose", [x], tuple(shape[p] for p in perm), perm=perm)


def _reshape(g: RandomGraph) -> None:
    """To a constant shape, with 0 and -1 where they are right."""
    x, shape = g.pick()
    size = int(np.prod(shape))
    target = g.choice([(size,), (1, size), shape, (*shape, 1), (-1,), (0, -1) if len(shape) > 1 else (-1, 1)])
    result = np.zeros(shape, np.bool_).reshape([shape[i] if d == 0 else d for i, d in enumerate(target)]).shape
    g.node("Reshape", [x, g.ints(*target)], result)


def _computed_reshape(g: RandomGraph) -> None:
    """To a shape computed from Shape, as exporters write it."""
    x, shape = g.pick(2)
    if len(shape) < 2:
        return
    whole = g.aside("Shape", [x])
    pieces = []
    for axis in range(len(shape)):
        one = g.aside("Gather", [whole, g.constant(axis, np.int64)], axis=0)
        pieces.append(g.aside("Unsqueeze", [one, g.ints(0)]))
    if g.rng.random() < 0.5:
        pieces[-2:] = [g.aside("Mul", pieces[-2:])]
        result = (*shape[:-2], shape[-2] * shape[-1])
    else:
        place = int(g.rng.integers(len(pieces) + 1))
        pieces.insert(place, g.ints(1))
        result = (*shape[:place], 1, *shape[place:])
    g.node("Reshape", [x, g.aside("Concat", pieces, axis=0)], result)


def _unsqueeze(g: RandomGraph) -> None:
    """One new axis, counted from either end."""
    x, shape = g.pick()
    if len(shape) > 4:
        return
    axis = int(g.rng.integers(0, len(shape) + 1))
    written = axis - len(shape) - 1 if g.rng.random() < 0.5 else axis
    g.node("Unsqueeze", [x, g.ints(written)], (*shape[:axis], 1, *shape[axis:]))


def _squeeze(g: RandomGraph) -> None:
    """An axis of length 1, if there is one that is certain to stay so."""
    for name, shape in list(g.shapes.items())[::-1]:
        producer = next((n for n in g.nodes if name in n.output), None)
        if producer is not None and producer.op_type == "Unsqueeze" and 1 in shape:
            axis = shape.index(1)
            if shape.count(1) == 1:
                g.node("Squeeze", [name, g.ints(axis)], (*shape[:axis], *shape[axis + 1 :]))
            return


def _slice(g: RandomGraph) -> None:
    """Along one axis, sometimes everything."""
    x, shape = g.pick(1)
    if not shape:
        return
    axis = int(g.rng.integers(len(shape)))
    start, end = g.choice([(0, 2**63 - 1), (1, 2**63 - 1), (0, -1), (0, 2), (-1, 2**31 - 1)])
    size = len(range(shape[axis])[start:end])
    inputs = [x, g.ints(start), g.ints(end), g.ints(axis - len(shape) if g.rng.random() < 0.3 else axis)]
    if size:
        g.node("Slice", inputs, (*shape[:axis], size, *shape[axis + 1 :]))


def _concat(g: RandomGraph) -> None:
    """Of one to three results that fit, or of a result with itg."""
    x, shape = g.pick(1)
    if not shape:
        return
    axis = int(g.rng.integers(len(shape)))
    count = int(g.rng.integers(1, 4))
    g.node("Concat", [x] * count, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]), axis=axis)


def _split(g: RandomGraph) -> None:
    """A constant-sized axis in two; sometimes put together again."""
    x, shape = g.pick(1)
    axis = len(shape) - 1
    if not shape or shape[axis] != 4:
        return
    half = (*shape[:axis], 2)
    first = g.node("Split", [x, g.ints(2, 2)], half, outputs=2, axis=axis)
    second = g.nodes[-1].output[1]
    g.shapes[second] = half
    if g.rng.random() < 0.5:
        g.node("Concat", [first, second], shape, axis=axis)


def _gather(g: RandomGraph) -> None:
    """With a scalar or a vector of constant indices."""
    x, shape = g.pick(1)
    if not shape:
        return
    axis = int(g.rng.integers(len(shape)))
    if g.rng.random() < 0.5:
        g.node("Gather", [x, g.constant(0, np.int64)], (*shape[:axis], *shape[axis + 1 :]), axis=axis)
    else:
        g.node("Gather", [x, g.ints(0, -1)], (*shape[:axis], 2, *shape[axis + 1 :]), axis=axis)


def _reduce(g: RandomGraph) -> None:
    """One axis, kept or not."""
    x, shape = g.pick(1)
    if not shape:
        return
    axis, keep = int(g.rng.integers(len(shape))), int(g.rng.integers(2))
    result = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
    op_type = g.choice(("ReduceMean", "ReduceSum", "ReduceMax"))
    g.node(op_type, [x, g.ints(axis)], result, keepdims=keep)


def _softmax(g: RandomGraph) -> None:
    """Along any axis."""
    x, shape = g.pick(1)
    if shape:
        g.node("Softmax", [x], shape, axis=int(g.rng.integers(len(shape))) - len(shape))


def _cast(g: RandomGraph) -> None:
    """There and back, through types that lose or keep."""
    x, shape = g.pick()
    middle = g.choice((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL))
    clipped = g.aside("Clip", [x, g.constant(-9.0), g.constant(9.0)])
    g.node("Cast", [g.aside("Cast", [clipped], to=middle)], shape, to=TensorProto.FLOAT)


def _where(g: RandomGraph) -> None:
    """Between a result and a constant, by a comparison, sometimes negated."""
    x, shape = g.pick()
    condition = g.aside(g.choice(("Greater", "LessOrEqual")), [x, g.constant(g.choice((0.0, 0.5)))])
    if g.rng.random() < 0.5:
        condition = g.aside("Not", [condition])
    other = g.constant(g.choice(_SCALARS))
    g.node("Where", [condition, x, other] if g.rng.random() < 0.5 else [condition, other, x], shape)


def _expand(g: RandomGraph) -> None:
    """To its own shape, or by one axis; the target constant or computed."""
    x, shape = g.pick()
    if len(shape) > 3:
        return
    target = g.aside("Shape", [x])
    if g.rng.random() < 0.5:
        g.node("Expand", [x, target], shape)
    else:
        longer = g.aside("Concat", [g.ints(2), target], axis=0)
        g.node("Expand", [x, longer], (2, *shape))


def _clip(g: RandomGraph) -> None:
    """With both bounds or one."""
    x, shape = g.pick()
    low = g.constant(g.choice((0.0, -1.0))) if g.rng.random() < 0.7 else ""
    high = g.constant(g.choice((6.0, 1.0))) if g.rng.random() < 0.7 else ""
    g.node("Clip", [x, low, high], shape)


def _pad(g: RandomGraph) -> None:
    """The last axis, or nothing."""
    x, shape = g.pick(1)
    if not shape:
        return
    amount = int(g.rng.integers(0, 2))
    pads = [0] * len(shape) * 2
    pads[len(shape) - 1] = amount
    g.node("Pad", [x, g.ints(*pads)], (*shape[:-1], shape[-1] + amount))


def _mat_mul(g: RandomGraph) -> None:
    """By a constant matrix, with or without a bias."""
    x, shape = g.pick(2)
    if len(shape) < 2:
        return
    weight = g.constant(g.rng.standard_normal((shape[-1], 4)) / 2)
    if g.rng.random() < 0.3:
        weight = g.aside("Transpose", [g.constant(g.rng.standard_normal((4, shape[-1])) / 2)], perm=[1, 0])
    product = g.node("MatMul", [x, weight], (*shape[:-1], 4))
    if g.rng.random() < 0.6:
        g.node("Add", [product, g.constant(g.rng.standard_normal(4))], (*shape[:-1], 4))


def _dropout(g: RandomGraph) -> None:
    """As exporters leave it."""
    x, shape = g.pick()
    g.node("Dropout", [x], shape)


def _logic(g: RandomGraph) -> None:
    """Comparisons joined by a connective."""
    x, shape = g.pick()
    a, b = (g.aside("Greater", [x, g.constant(v)]) for v in (0.0, 1.0))
    joined = g.aside(g.choice(("And", "Or", "Xor")), [a, g.choice((b, g.constant(True, np.bool_)))])
    g.node("Cast", [joined], shape, to=TensorProto.FLOAT)


def _gelu(g: RandomGraph) -> None:
    """The exact unit, spelled out."""
    x, shape = g.pick()
    e = g.aside("Erf", [g.aside("Div", [x, g.constant(np.sqrt(2))])])
    p = g.aside("Mul", [x, g.aside("Add", [e, g.constant(1.0)])])
    g.node("Mul", [p, g.constant(0.5)], shape)


def _normalize(g: RandomGraph) -> None:
    """Layer normalization or root mean square normalization, spelled out."""
    x, shape = g.pick(1)
    if not shape or shape[-1] < 2:
        return
    axes = g.ints(-1)
    centred = x
    if g.rng.random() < 0.6:
        centred = g.aside("Sub", [x, g.aside("ReduceMean", [x, axes], keepdims=1)])
    square = g.aside("Pow", [centred, g.constant(2.0)]) if g.rng.random() < 0.5 else g.aside("Mul", [centred] * 2)
    variance = g.aside("Add", [g.aside("ReduceMean", [square, axes], keepdims=1), g.constant(1e-5)])
    y = g.node("Div", [centred, g.aside("Sqrt", [variance])], shape)
    if g.rng.random() < 0.6:
        g.node("Mul", [y, g.constant(g.rng.standard_normal(shape[-1]))], shape)


def _branch(g: RandomGraph) -> None:
    """An If that captures a result, its condition constant or not."""
    x, shape = g.pick()
    if g.rng.random() < 0.4:
        condition = g.constant(bool(g.rng.integers(2)), np.bool_)
    else:
        total = g.aside("ReduceSum", [x], keepdims=0)
        # Not 0: sums of normalized rows are 0 but for rounding, which must not decide.
        condition = g.aside("Greater", [total, g.constant(0.3)])
    bodies = []
    for op_type in ("Relu", "Neg"):
        inner, result = g.name(), g.name()
        nodes = [helper.make_node(op_type, [x], [inner]), helper.make_node("Identity", [inner], [result])]
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        bodies.append(helper.make_graph(nodes, op_type, [], [output]))
    g.node("If", [condition], shape, then_branch=bodies[0], else_branch=bodies[1])


MOVES: tuple[Callable[[RandomGraph], None], ...] = (
    _unary, _binary, _scalar, _transpose, _reshape, _computed_reshape, _unsqueeze, _squeeze, _slice, _concat,
    _split, _gather, _reduce, _softmax, _cast, _where, _expand, _clip, _pad, _mat_mul, _dropout, _logic,
    _gelu, _normalize, _branch,
)  # fmt: skip
"""Each adds one random operation, or nothing where it finds no fitting operand."""
