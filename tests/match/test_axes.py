"""The described source of every axis, checked by running the operator on changed operands."""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pytest

from tests.support import load
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node, PatternRewriter
from xoptim.match.axes import parameters, rewritten
from xoptim.operators.axes import Axes, AxisOperand, Labels
from xoptim.operators.evaluate.regions import evaluate_with_onnxruntime
from xoptim.operators.registry import OPERATORS, Trait, axes_of, operators_with

INTS = (
    "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {-1}, int64[1] "
    "many = {99}"
)
X = "float[4,6,2,4] x"
CASES = {
    "Add": (f"{X}, float[2,1] w", "Add(x, w)"),
    "Where": (f"{X}, bool[6,1,1] w, float[4,1,2,4] z", "Where(w, x, z)"),
    "PRelu": (f"{X}, float[6,1,4] w", "PRelu(x, w)"),
    "Relu": (X, "Relu(x)"),
    "CastLike": (f"{X}, int64[3] w", "CastLike(x, w)"),
    "Clip": (f"{X}, float m, float n", "Clip(x, m, n)"),
    "Concat": (f"{X}, float[4,6,3,4] w", "Concat <axis = -2> (x, w)"),
    "Split": (X, "Split <axis = 1, num_outputs = 2> (x)"),
    "Softmax": (X, "Softmax(x)"),
    "Softmax, in front": (X, "Softmax <axis = 1> (x)"),
    "LogSoftmax": (X, "LogSoftmax <axis = -2> (x)"),
    "Hardmax": (X, "Hardmax <axis = 0> (x)"),
    "Slice": (X, "Slice(x, one, many, two)"),
    "Slice, two axes": (
        X,
        "Slice(x, i, j, k)",
        "int64[2] i = {1, -3}, int64[2] j = {9, -1}, int64[2] k = {-1, 1}",
    ),
    "Slice, no axes": (X, "Slice(x, i, j)", "int64[3] i = {0, 1, 0}, int64[3] j = {9, 9, 1}"),
    "Pad": (X, "Pad(x, i)", "int64[8] i = {0, 1, 0, 0, 0, 2, 0, 0}"),
    "Pad of axes": (X, "Pad(x, i, , k)", "int64[2] i = {1, 2}, int64[1] k = {-3}"),
    "ReduceMax": (X, "ReduceMax(x, k)", "int64[2] k = {-1, 1}"),
    "ReduceMax of rows": ("float[4,6] x", "ReduceMax(x, one)"),
    "Softmax of rows": ("float[4,6] x", "Softmax <axis = 1> (x)"),
    "ReduceSum, dropped": (X, "ReduceSum <keepdims = 0> (x, k)", "int64[2] k = {0, 2}"),
    "ReduceMean of all": (X, "ReduceMean(x)"),
    "ReduceSum of none": (X, "ReduceSum <noop_with_empty_axes = 1> (x)"),
    "ArgMax": (X, "ArgMax <axis = -3> (x)"),
    "ArgMin, dropped": (X, "ArgMin <axis = 2, keepdims = 0> (x)"),
    "Squeeze": ("float[4,1,2,1] x", "Squeeze(x, k)", "int64[2] k = {-1, 1}"),
    "Unsqueeze": ("float[4,6] x", "Unsqueeze(x, k)", "int64[2] k = {-1, 1}"),
    "MatMul": ("float[4,6,2,3] x, float[6,3,4] w", "MatMul(x, w)"),
    "MatMul of stacks": ("float[4,2,3] x, float[4,3,6] w", "MatMul(x, w)"),
    "MatMul of a matrix": ("float[4,6,3] x, float[3,4] w", "MatMul(x, w)"),
    "MatMul of matrices": ("float[4,6] x, float[6,2] w", "MatMul(x, w)"),
    "Gemm": ("float[4,6] x, float[6,2] w, float[2] z", "Gemm(x, w, z)"),
    "Gemm, transposed": (
        "float[6,4] x, float[2,6] w, float[4,1] z",
        "Gemm <transA = 1, transB = 1> (x, w, z)",
    ),
    "Gather": (f"{X}, int64[2,4] i", "Gather <axis = -3> (x, i)"),
    "Gather of one": (f"{X}, int64 i", "Gather <axis = 1> (x, i)"),
    "Transpose": (X, "Transpose <perm = [2, 0, 3, 1]> (x)"),
    "Transpose, turned round": (X, "Transpose(x)"),
    "Reshape": (X, "Reshape(x, k)", "int64[3] k = {0, 0, -1}"),
    "Reshape, split": (X, "Reshape(x, k)", "int64[5] k = {4, 2, 3, 2, 4}"),
    "Tile": (X, "Tile(x, k)", "int64[4] k = {1, 2, 1, 3}"),
    "Expand": ("float[4,1,2,1] x", "Expand(x, k)", "int64[4] k = {1, 6, 2, 3}"),
    "Expand, shorter": ("float[4,1,2,1] x", "Expand(x, k)", "int64[2] k = {1, 6}"),
    "Resize": (X, 'Resize <mode = "nearest"> (x, , k)', "float[4] k = {1, 2, 1, 1}"),
    "Resize to sizes": (X, 'Resize <mode = "nearest"> (x, , , k)', "int64[4] k = {4, 9, 2, 4}"),
    "QuantizeLinear": (f"{X}, float[6] s, uint8[6] o", "QuantizeLinear <axis = 1> (x, s, o)"),
    "QuantizeLinear, one scale": (f"{X}, float s", "QuantizeLinear(x, s)"),
    "DequantizeLinear": ("int8[4,6,2] x, float[2] s", "DequantizeLinear <axis = -1> (x, s)"),
    "LayerNormalization": (
        f"{X}, float[2,4] w, float[2,4] z",
        "LayerNormalization <axis = -2> (x, w, z)",
    ),
    "LayerNormalization, wide": (
        f"{X}, float[1,4] w, float[1,1,4] z",
        "LayerNormalization(x, w, z)",
    ),
    "RMSNormalization": (f"{X}, float[4] w", "RMSNormalization <axis = 3> (x, w)"),
}
"""Inputs, a node, and constants."""

OPSET = 23
UNMOVED = ("Gemm", "Gemm, transposed", "MatMul", "MatMul of a matrix", "Reshape", "Reshape, split")
PARTS = {
    "Add": ("0123", "012"),
    "Where": ("0123", "0"),
    "PRelu": ("0123", "013"),
    "Relu": ("0123", "0123"),
    "CastLike": ("0123", "0123"),
    "Clip": ("0123", "0123"),
    "Concat": ("013", "013"),
    "Split": ("023", "023"),
    "Softmax": ("012", "012"),
    "Softmax, in front": ("023", "023"),
    "LogSoftmax": ("013", "013"),
    "Hardmax": ("123", "123"),
    "Slice": ("013", "013"),
    "Slice, two axes": ("02", "02"),
    "Slice, no axes": ("3", "3"),
    "Pad": ("023", "023"),
    "Pad of axes": ("023", "023"),
    "ReduceMax": ("02", "02"),
    "ReduceMax of rows": ("0", "0"),
    "Softmax of rows": ("0", "0"),
    "ReduceSum, dropped": ("01", "01"),
    "ReduceMean of all": ("", ""),
    "ReduceSum of none": ("0123", "0123"),
    "ArgMax": ("023", "023"),
    "ArgMin, dropped": ("012", "012"),
    "Squeeze": ("01", "01"),
    "Unsqueeze": ("02", "02"),
    "MatMul": ("0123", "01"),
    "MatMul of stacks": ("012", "0"),
    "MatMul of a matrix": ("012", "01"),
    "MatMul of matrices": ("01", ""),
    "Gemm": ("01", ""),
    "Gemm, transposed": ("01", ""),
    "Gather": ("01234", "01234"),
    "Gather of one": ("012", "012"),
    "Transpose": ("0123", "0123"),
    "Transpose, turned round": ("0123", "0123"),
    "Reshape": ("01", "01"),
    "Reshape, split": ("0", "0"),
    "Tile": ("02", "02"),
    "Expand": ("02", "02"),
    "Expand, shorter": ("012", "012"),
    "Resize": ("023", "023"),
    "Resize to sizes": ("", ""),
    "QuantizeLinear": ("0123", "023"),
    "QuantizeLinear, one scale": ("0123", "0123"),
    "DequantizeLinear": ("012", "01"),
    "LayerNormalization": ("01", "01"),
    "LayerNormalization, wide": ("012", "012"),
    "RMSNormalization": ("012", "012"),
}
"""The axes of the first result that can be cut if operands are cut, and the ones that can be
dropped then.
"""


class Run(NamedTuple):
    """A node, its axes, and the numbers that it reads and computes."""

    g: GraphView
    node: Node
    axes: Axes
    operands: list[np.ndarray]
    results: list[np.ndarray]

    @property
    def shapes(self) -> list[Shape | None]:
        """The shapes of the operands."""
        return [self.g.try_infer_shape(name) for name in self.node.input]

    def size(self, label: int) -> int:
        """The size of an axis of the first result."""
        return int(self.results[0].shape[self.axes.results[0].index(label)])

    def check(
        self,
        axes: Axes,
        operands: Sequence[np.ndarray],
        expected: Sequence[np.ndarray],
        **changes: object,
    ) -> None:
        """Run the node on other operands, with the parameters that it needs then."""
        edit = PatternRewriter(self.g.graph)
        changed = parameters(self.g, self.node, axes, **changes)  # type: ignore[arg-type]
        node = rewritten(edit, self.node, self.node.input, len(self.node.output), changed)
        known = dict(zip(self.node.input, operands, strict=True))
        arrays = [
            known[name] if name in known else edit.get_computed_constant(name)
            for name in node.input
        ]
        for a, b in zip(ran(node, arrays), expected, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def ran(node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The results of a node."""
    feeds = {
        name: array
        for name, array in zip(node.input, arrays, strict=True)
        if name and array is not None
    }
    found = evaluate_with_onnxruntime(
        [node.to_proto()], feeds, list(node.output), {"": OPSET}, 10
    ).values
    assert found is not None
    return [found[name] for name in node.output]


def started(inputs: str, call: str, constants: str = "") -> Run:
    outputs = "y, q" if call.startswith("Split") else "y"
    stored = ", ".join(filter(None, (INTS, constants)))
    model = load(
        f"agraph ({inputs}) => ({outputs}) <{stored}> {{ {outputs} = {call} }}", opset=OPSET
    )
    (node,) = model.graph.nodes
    g, random = GraphView(model.graph), np.random.default_rng(len(call))
    operands: list[np.ndarray] = []
    for name in node.input:
        value, shape = g.get_computed_constant(name), g.static_shape(name) if name else ()
        if value is None:
            kind = numpy_dtype(g.try_infer_type(name)) if name else np.dtype(np.float32)
            value = np.asarray(
                random.integers(0, 2, shape)
                if kind.kind in "iub"
                else random.uniform(0.2, 2, shape)
            ).astype(kind)
        operands.append(value)
    axes = axes_of(g, node)
    assert axes is not None
    return Run(g, node, axes, operands, ran(node, operands))


RUNS = {name: started(*case) for name, case in CASES.items()}
each = pytest.mark.parametrize("name", CASES)


def test_each_operator_is_there() -> None:
    missing = {op_type for (_, op_type), each in OPERATORS.items() if each.axes} - {
        run.node.op_type for run in RUNS.values()
    }
    assert missing <= operators_with(Trait.ELEMENTWISE, Trait.BROADCASTS, Trait.REDUCES)


def turned(array: np.ndarray, old: Labels, new: Labels) -> np.ndarray:
    return array.transpose([old.index(label) for label in new])


@each
def test_permutations(name: str) -> None:
    """A permutation of the operands gives the result permuted alike, for more than one
    permutation.
    """
    run = RUNS[name]
    first = run.axes.operands[0]
    assert first is not None
    count = 0
    for labels in {first.labels, run.axes.results[0]}:
        for order in permutations(labels):
            moved = run.axes.reordered(order)
            if moved is None or not all(
                map(is_placed, moved.operands, [moved.results[0]] * len(moved.operands))
            ):
                continue
            operands = [
                array if old is None or new is None else turned(array, old.labels, new.labels)
                for array, old, new in zip(
                    run.operands, run.axes.operands, moved.operands, strict=True
                )
            ]
            results = [
                turned(array, *each)
                for array, *each in zip(run.results, run.axes.results, moved.results, strict=True)
            ]
            run.check(moved, operands[::-1] if moved.fixed != run.axes.fixed else operands, results)
            count += 1
    assert count > 1 or name in UNMOVED


def is_placed(operand: AxisOperand | None, result: Labels) -> bool:
    """Whether the axes of an operand with fewer axes than the result are the last ones."""
    return (
        operand is None
        or not operand.broadcasts
        or {*operand.labels} == {*result[len(result) - len(operand.labels) :]}
    )


@each
def test_parts(name: str) -> None:
    """A part of a result comes from the same part of operands: some positions of an axis, or one,
    without the axis.
    """
    run = RUNS[name]
    shapes, cut = run.shapes, set[tuple[int, bool]]()
    for label in run.axes.results[0]:
        for drops, index in ((False, [-1, 0]), (True, -1)):
            parts = run.axes.parts(shapes, label, run.size(label), drops)
            if parts is None:
                continue
            operands = [
                array.take(index, parts[place]) if place in parts else array
                for place, array in enumerate(run.operands)
            ]
            results = [
                array.take(index, labels.index(label))
                for array, labels in zip(run.results, run.axes.results, strict=True)
            ]
            axes = run.axes.replaced({label: ()}) if drops else run.axes
            run.check(axes, operands, results, cut=label)
            cut.add((label, drops))
    places = [
        {run.axes.results[0].index(label) for label, drops in cut if drops == one}
        for one in (False, True)
    ]
    assert tuple("".join(map(str, sorted(found))) for found in places) == PARTS[name]


@each
def test_new_axes(name: str) -> None:
    """A new axis in front of an axis of the operands is in front of that in the result."""
    run = RUNS[name]
    new = 99
    count = 0
    for before in (None, *run.axes.results[0]):
        axes = run.axes.inserted(new, before)
        if axes is None:
            continue
        operands = list(run.operands)
        for place, operand in enumerate(axes.operands):
            if operand is not None and new in operand.labels:
                operands[place] = np.expand_dims(operands[place], operand.labels.index(new))
        results = [
            np.expand_dims(a, labels.index(new)) if new in labels else a
            for a, labels in zip(run.results, axes.results, strict=True)
        ]
        run.check(axes, operands, results)
        count += 1
    assert count > 1 or name in UNMOVED


@each
def test_split_axes(name: str) -> None:
    """An axis that is split into two in the operands is split in the result."""
    run = RUNS[name]
    shapes, new = run.shapes, 99
    for label in (
        () if run.axes.numbers else run.axes.results[0][: len(run.axes.results[0]) - run.axes.last]
    ):
        if (
            label in run.axes.names.values()
            or run.axes.parts(shapes, label, run.size(label)) is None
        ):
            continue
        axes = run.axes.replaced({label: (label, new)})
        operands = [
            split(a, o and o.labels, label)
            for a, o in zip(run.operands, run.axes.operands, strict=True)
        ]
        results = [
            split(a, labels, label) for a, labels in zip(run.results, run.axes.results, strict=True)
        ]
        run.check(axes, operands, results)


def split(array: np.ndarray, labels: Labels | None, label: int) -> np.ndarray:
    if labels is None or label not in labels:
        return array
    axis = labels.index(label)
    size = array.shape[axis]
    return array.reshape(
        *array.shape[:axis], *((1, 1) if size == 1 else (2, size // 2)), *array.shape[axis + 1 :]
    )


def test_a_squeeze_of_an_empty_list_of_axes_is_not_described() -> None:
    """It drops all axes of size 1, of which a symbol may be one."""
    model = load("agraph (float[a,b,4] x) => (y) <int64[0] e = {}> { y = Squeeze (x, e) }", OPSET)
    (node,) = model.graph.nodes
    assert axes_of(GraphView(model.graph), node) is None
