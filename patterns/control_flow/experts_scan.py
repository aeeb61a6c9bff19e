import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.regions import Carried, region_below
from xoptim.operators.registry import axes_of

from .._nodes import is_op
from .._operators import BROADCASTING, ELEMENTWISE

_MAX_NODES: Final = 48
"""Maximum number of nodes between the weights and the sum over the experts of a token."""
_MIN_WORK: Final = 24_000
"""Minimum number of copied weights per expert. With fewer, the iterations cost more than the copies
(measured: 1.66 of the time with 12,288, 0.81 with 24,576).
"""
_RANK: Final = 3
"""The rank of weights with a matrix for each expert."""
_MOVES: Final = ("Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity")
_OPERATORS: Final = frozenset(
    (*BROADCASTING, *ELEMENTWISE, "Concat", "MatMul", "Slice", "Split", "Squeeze", "Unsqueeze")
)
"""Operators between the copies and the sum. None of their attributes holds the number of rows."""
_FLOATS: Final = (TensorProto.FLOAT, TensorProto.DOUBLE)
"""Types for which onnxruntime's ScatterND supports addition."""
_EXPERT, _ROW = "expert", "row"
"""Kinds of values. In the original, both have one element for each row, which is an expert that a
token chose. In the Scan, ``expert`` values have the weights of the present expert only.
"""


@dataclass(frozen=True)
class _Experts:
    """The nodes that compute with the weights of chosen experts.

    A row is one expert that a token chose: n tokens with k experts each have n · k rows.

    Attributes:
        index: the expert of each row, a vector.
        gathers: the nodes that copy the weights of the expert of each row.
        nodes: the nodes that compute with these weights, in the order of the graph. They compute
            each row independently.
        exit: the only result that other nodes read.
        entries: values from outside that have an element for each row.
        total: the Reshape and the ReduceSum that add the rows of each token, if they follow.
        choices: the number of rows of a token.
    """

    index: str
    gathers: Sequence[Node]
    nodes: Sequence[Node]
    exit: str
    entries: Sequence[str]
    total: Sequence[Node] = ()
    choices: int = 1


class ExpertsScanPattern(PatternOptimization):
    """ReduceSum(f(Gather(w, i), x)) → Scan over the experts w of f(w, rows of x that chose w)

    What: mixture of experts. The model copies the weights of an expert for each token that chooses
    it (``batched_mm`` of transformers). The Scan computes with the weights of each expert once, for
    all its tokens. MatMuls, biases, activations and other nodes that do not mix rows may come
    between the copies and the sum.
    Why: a Qwen3-MoE of two layers takes 0.09 of the time for 128 tokens, and 0.67 for one. The
    copies take gigabytes for long inputs.
    Refuses when:
    1. the weights are not constant matrices, or the indices do not come from a TopK over at most as
       many elements as there are matrices.
    2. a node in between mixes rows, or another node reads a result in between.
    3. a dimension of the result, other than the first, is not known.
    4. the experts are small: copying them takes less time than the iterations.
    """

    anchors = ("Gather",)
    exactness = "rounding"
    providers = ("cpu",)
    min_opset = 16  # from here on, ScatterND has the attribute reduction
    radius = 24

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        shape = _weights_shape(g, node)
        if shape is None or len(shape) != _RANK:  # (1)
            return self.none(node, msg="the data are not a constant stack of matrices")
        index = node.input[1]
        index_shape = g.try_infer_shape(index)
        # (1)
        if index_shape is None or len(index_shape) != 1 or not _are_choices(g, index, shape[0]):
            return self.none(node, msg="the indices are not known to come from a TopK")
        gathers = [
            reader
            for reader in g.next_nodes(index)
            if (dims := _weights_shape(g, reader)) is not None and dims[0] == shape[0]
        ]
        shapes = [_weights_shape(g, gather) or () for gather in gathers]
        matrices = [
            gather for gather, dims in zip(gathers, shapes, strict=True) if len(dims) == _RANK
        ]
        if not all(gather is node or g.is_before(node, gather) for gather in matrices):
            return self.none(node, msg="another Gather of experts comes first")
        experts = _Region(g, index, gathers, index_shape[0]).find()
        if experts is None:  # (2)
            return self.none(
                node, msg="a node mixes rows, or an intermediate result is read elsewhere"
            )
        exit_shape = g.try_infer_shape(experts.exit) or ()
        inner = [size for size in exit_shape[1:] if isinstance(size, int)]
        if len(inner) + 1 != len(exit_shape):  # (3)
            return self.none(node, msg="a dimension of the result is unknown")
        # If the number of rows is not static, there may be a single token.
        rows = index_shape[0] if isinstance(index_shape[0], int) else experts.choices
        work = rows * sum(math.prod(dims[1:]) for dims in shapes)
        if work < _MIN_WORK * int(shape[0]):  # (4)
            return self.none(node, msg="the experts are small")
        nodes = [*experts.gathers, *experts.nodes, *experts.total]
        return MatchResult(self, nodes, partial(_write, experts, inner))

    _chosen = "n = NonZero(chosen) r = Squeeze(n, zero)"
    _waves = (
        "ones = ConstantOfShape <value = float[1] {1}> (all) "
        "numbers = CumSum(ones, zero) waves = Cos(numbers)"
    )
    _lists = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] minus = {-1}"
    _one = (
        "agraph (float[t,12] x, float[t,2] s) => (float[t,4000] y) "
        f"<{_lists}, int64[1] all = {{96000}}, int64[3] z = {{2, 4000, 12}}, "
        f"int64[1] h = {{4000}}, int64[2,1] e = {{0, 1}}> {{ {_waves} p, i = TopK(s, one) "
        "j = Reshape(i, minus) c = Unsqueeze(x, two)"
    )
    _two = (
        "agraph (float[t,2,12] x, float[t,3] s) => (float[t,1500] y) "
        f"<{_lists}, int64[1] all = {{108000}}, int64[3] z = {{3, 12, 3000}}, "
        "int64[2] column = {-1, 1}, int64[2] sizes = {1500, 1500}, int64[3] merged = {-1, 1, 12}, "
        "int64[3] split = {-1, 2, 1500}, int64[1] wide = {1500}, int64 count = {2}, "
        f"int64[3,1] e = {{0, 1, 2}}> {{ {_waves} w = Reshape(waves, z) "
        "b = ReduceMax <keepdims = 0> (w, one) p, i = TopK(s, two) j = Reshape(i, minus) "
        "c = Reshape(x, merged) u = Reshape(p, column)"
    )
    examples = Example.pairs(
        f"{_one} w = Reshape(waves, z) g = Gather(w, j) m = MatMul(g, c) y = Squeeze(m, two) }}",
        f"{_one} v = Reshape(waves, z) w = Transpose <perm = [0, 2, 1]> (v) "
        "length = Shape(j) dims = Concat <axis = 0> (length, h) "
        "zeros = ConstantOfShape <value = float[1] {0}> (dims) q = Equal(e, j) "
        "y = Scan <num_scan_inputs = 2, body = expert "
        "(float[?,4000] sum, float[12,4000] matrix, bool[?] chosen) => (float[?,4000] new) { "
        f"{_chosen} a = Gather(c, r) k = Squeeze(a, two) m = MatMul(k, matrix) "
        "l = Unsqueeze(m, two) d = Squeeze(l, two) f = Unsqueeze(r, one) "
        'new = ScatterND <reduction = "none"> (sum, f, d) }> (zeros, w, q) }',
        f"{_two} g = Gather(w, j) m = MatMul(c, g) d = Squeeze(m, one) h = Gather(b, j) "
        "a = Add(d, h) k, l = Split <axis = 1> (a, sizes) f = Sigmoid(k) o = Add(f, l) "
        "v = Mul(o, u) q = Reshape(v, split) y = ReduceSum <keepdims = 0> (q, one) }",
        f"{_two} length = Shape(j) tokens = Div(length, two) "
        "dims = Concat <axis = 0> (tokens, wide) "
        "zeros = ConstantOfShape <value = float[1] {0}> (dims) q = Equal(e, j) "
        "y = Scan <num_scan_inputs = 3, body = expert (float[?,1500] sum, float[12,3000] matrix, "
        "float[3000] bias, bool[?] chosen) => (float[?,1500] new) { "
        f"{_chosen} xr = Gather(c, r) ur = Gather(u, r) xs = Squeeze(xr, one) "
        "m = MatMul(xs, matrix) mu = Unsqueeze(m, one) d = Squeeze(mu, one) a = Add(d, bias) "
        "k, l = Split <axis = 1> (a, sizes) f = Sigmoid(k) o = Add(f, l) "
        "v = Mul(o, ur) t = Div(r, count) places = Unsqueeze(t, one) "
        'new = ScatterND <reduction = "add"> (sum, places, v) }> (zeros, w, b, q) }',
    )


def _weights_shape(g: GraphView, node: Node) -> tuple[int, ...] | None:
    """The shape of the constant weights of all experts from which a Gather takes some, if any."""
    if not is_op(node, "Gather") or node.attribute.get("axis", 0) or len(node.input) < 2:
        return None
    if not g.is_constant(node.input[0]) or not is_float(g.try_infer_type(node.input[0])):
        return None
    return g.static_shape(node.input[0]) or None


def _are_choices(g: GraphView, name: str, count: int) -> bool:
    """Whether integers are indices from a TopK over at most ``count`` elements."""
    node = g.node_before(name)
    while is_op(node, *_MOVES):
        name = node.input[0]
        node = g.node_before(name)
    if not is_op(node, "TopK") or name != node.output[1]:
        return False
    shape = g.try_infer_shape(node.input[0])
    size = None if shape is None else shape[node.attribute.get("axis", -1)]
    return isinstance(size, int) and size <= count


class _Region:
    """Finds the nodes that compute with the weights of chosen experts.

    Args:
        g: the graph.
        index: the expert of each row.
        gathers: the nodes that copy weights.
        count: the number of rows.
    """

    def __init__(self, g: GraphView, index: str, gathers: Sequence[Node], count: Dim) -> None:
        self._g, self._index, self._gathers, self._count = g, index, gathers, count
        self._forms: dict[str, Any] = {gather.output[0]: _EXPERT for gather in gathers}
        self._rows: dict[Node, list[str]] = {}

    def find(self) -> _Experts | None:
        """The largest set of nodes that ends with the sum over the rows of each token.

        If there is none, the smallest set that ends with a vector for each row, or else the
        smallest set. ``None`` without any set.
        """
        nodes = [*region_below(self._g, self._forms, self._carry, _MAX_NODES).nodes]
        nodes.sort(key=lambda node: node.label)
        candidates = [
            experts for node in nodes if (experts := self._ending(node, nodes)) is not None
        ]
        totals = [experts for experts in candidates if experts.total]
        vectors = [
            experts
            for experts in candidates
            if len(self._g.try_infer_shape(experts.exit) or ()) == 2
        ]
        if totals:
            return totals[-1]
        return next(iter((*vectors, *candidates)), None)

    def _carry(self, node: Node) -> Carried | None:
        """How a node computes some of the rows; ``None`` if it cannot."""
        g = self._g
        axes = axes_of(g, node) if is_op(node, *_OPERATORS) else None
        if axes is None or not axes.results[0]:
            return None
        if node.op_type == "Squeeze" and g.get_argument(node, "axes") is None:
            return None  # A Squeeze without axes would drop the axis of a single row.
        first = axes.results[0][0]
        shapes = [g.try_infer_shape(name) if name else None for name in node.input]
        # The axis of the rows in each operand that has this axis. It must be the first one.
        row_axes = axes.parts(shapes, first, self._count)
        if row_axes is None or any(row_axes.values()):
            return None
        rows = [
            node.input[place] for place in row_axes if self._forms.get(node.input[place]) != _EXPERT
        ]
        reads_all_rows = any(
            name in self._forms and place not in row_axes for place, name in enumerate(node.input)
        )
        if (
            not rows
            or reads_all_rows
            or not self._computes_with_experts(node, len(row_axes) - len(rows))
        ):
            return None
        self._rows[node] = rows
        self._forms.update(dict.fromkeys(node.output, _ROW))
        return Carried(dict.fromkeys(row_axes, _ROW), {})

    def _computes_with_experts(self, node: Node, experts: int) -> bool:
        """Whether a node can read the weights of one expert instead of a copy for each row."""
        if not experts:
            return True
        shapes = [self._g.try_infer_shape(name) for name in node.input]
        if is_op(node, "MatMul"):
            left, right = shapes
            is_left = self._forms.get(node.input[0]) == _EXPERT
            if left is None or right is None or not len(left) == len(right) == _RANK:
                return False
            return not is_left or right[2] == 1
        ranks = {None if shape is None else len(shape) for shape in shapes}
        return node.op_type in BROADCASTING and len(ranks) == 1 and None not in ranks

    def _ending(self, last: Node, nodes: Sequence[Node]) -> _Experts | None:
        """The nodes that compute the result of ``last`` from the copied weights.

        ``None`` unless they include all consumers of the copied weights.
        """
        g = self._g
        if len(last.output) != 1 or g.try_infer_type(last.output[0]) not in _FLOATS:
            return None
        members, names = list[Node](), {last.output[0]}
        for node in reversed(nodes[: nodes.index(last) + 1]):
            if names.intersection(node.output):
                members.append(node)
                names.update(node.input)
        inner = [name for node in (*self._gathers, *members) for name in node.output]
        inner.remove(last.output[0])
        if not all(g.is_used_only_by(name, *members) for name in inner if g.is_used(name)):
            return None
        if any(not g.is_used(gather.output[0]) for gather in self._gathers):
            return None
        results = {*inner, last.output[0]}
        entries = dict.fromkeys(
            name for node in reversed(members) for name in self._rows[node] if name not in results
        )
        experts = _Experts(
            self._index, self._gathers, [*reversed(members)], last.output[0], [*entries]
        )
        return self._with_total(experts)

    def _with_total(self, experts: _Experts) -> _Experts:
        """The same nodes, with the sum of the rows of each token if the sum follows."""
        g = self._g
        reshape = g.next_node(experts.exit)
        row_shape = g.try_infer_shape(experts.exit)
        if not is_op(reshape, "Reshape") or row_shape is None or not g.is_exclusive(experts.exit):
            return experts
        shape, total = g.try_infer_shape(reshape.output[0]), g.next_node(reshape.output[0])
        if shape is None or not is_op(total, "ReduceSum") or not g.is_exclusive(reshape.output[0]):
            return experts
        choices = shape[1] if len(shape) > 1 else None
        is_sum = g.get_argument(total, "axes") in ([1], [1 - len(shape)])
        is_split = isinstance(choices, int) and shape[0] * choices == row_shape[0]
        if not is_split or shape[2:] != row_shape[1:] or not is_sum:
            return experts
        if total.attribute.get("keepdims", 1):
            return experts
        assert isinstance(choices, int)
        return replace(experts, total=(reshape, total), choices=choices)


@dataclass
class _Body:
    """The subgraph for one expert.

    Attributes:
        g: makes names and constants.
        nodes: the nodes of the subgraph.
        names: for values of the graph, their names in the subgraph.
    """

    g: PatternRewriter
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def op(self, op_type: str, *operands: str, **attributes: Any) -> str:
        """Write a node; returns its result."""
        result = self.g.unique_name(f"expert_{op_type.lower()}")
        self.nodes.append(helper.make_node(op_type, operands, [result], **attributes))
        return result

    def axis(self, number: int) -> str:
        """A constant list of one axis."""
        return self.g.make_initializer("", np.array([number], np.int64), source="axes")

    def write(self, node: Node) -> None:
        """Write a node of the graph for the rows of one expert."""
        results = [self.g.unique_name(name) for name in node.output]
        operands = [self.names.get(name, name) for name in node.input]
        self.nodes.append(
            helper.make_node(node.op_type, operands, results, domain=node.domain, **node.attribute)
        )
        self.names.update(zip(node.output, results, strict=True))

    def multiply(self, node: Node, matrix: str, *, is_left: bool) -> None:
        """Write a MatMul of the rows by the matrix of one expert.

        ``is_left``: whether the matrix is the first operand in the graph; ``matrix`` is then
        transposed already.
        """
        rows_operand, vector_axis = (node.input[1], 2) if is_left else (node.input[0], 1)
        rows = self.names[rows_operand]
        shape = self.g.try_infer_shape(rows_operand)
        if shape is None or shape[vector_axis] != 1:
            self.names[node.output[0]] = self.op("MatMul", rows, matrix)
            return
        # Each row is a vector: one MatMul of a matrix with all rows computes them at once.
        rows = self.op("Squeeze", rows, self.axis(vector_axis))
        product = self.op("MatMul", rows, matrix)
        self.names[node.output[0]] = self.op("Unsqueeze", product, self.axis(vector_axis))


class _Stacks:
    """The weights that the Scan reads expert by expert, transposed if needed.

    Args:
        g: makes the Transposes.
        gathers: the nodes that copy weights.
    """

    def __init__(self, g: PatternRewriter, gathers: Sequence[Node]) -> None:
        self._g = g
        self._stacks = {gather.output[0]: gather.input[0] for gather in gathers}
        self._transposes = dict[str, str]()
        self.names = dict[str, str]()  # in the body, by stack

    def shape_of(self, stack: str) -> list[int]:
        """The shape of weights that the Scan reads, with all experts."""
        for source, transpose in self._transposes.items():
            if transpose == stack:
                experts, rows, columns = self._g.static_shape(source) or ()
                return [experts, columns, rows]
        return [*(self._g.static_shape(stack) or ())]

    def places(self, node: Node) -> list[int]:
        """The indices of operands of a node that are copies of weights."""
        return [index for index, name in enumerate(node.input) if name in self._stacks]

    def of_expert(self, copies: str, *, is_transposed: bool = False) -> str:
        """The name of the weights of the present expert in the body.

        ``copies`` is the result of a Gather of weights in the graph.
        """
        stack = self._stacks[copies]
        if is_transposed:
            if stack not in self._transposes:
                self._transposes[stack] = self._g.op.Transpose(stack, perm=[0, 2, 1])
            stack = self._transposes[stack]
        if stack not in self.names:
            self.names[stack] = self._g.unique_name("expert_weights")
        return self.names[stack]


def _write(experts: _Experts, sizes: Sequence[int], g: PatternRewriter, *_: Node) -> list[Node]:
    """A Scan over the weights of all experts, whose state is the sum."""
    body, stacks = _Body(g), _Stacks(g, experts.gathers)
    state, chosen = g.unique_name("expert_state"), g.unique_name("expert_is_chosen")
    places = body.op("Squeeze", body.op("NonZero", chosen), body.axis(0))
    for name in experts.entries:
        body.names[name] = body.op("Gather", name, places, axis=0)
    for node in experts.nodes:
        copies = stacks.places(node)
        if copies and node.op_type == "MatMul":
            is_left = copies == [0]
            matrix = stacks.of_expert(node.input[copies[0]], is_transposed=is_left)
            body.multiply(node, matrix, is_left=is_left)
        else:
            body.names |= {
                node.input[place]: stacks.of_expert(node.input[place]) for place in copies
            }
            body.write(node)
    rows = places
    if experts.choices > 1:
        count = g.make_initializer("", np.array(experts.choices, np.int64), source="choices")
        rows = body.op("Div", places, count)
    updates = body.names[experts.exit]
    reduction = "add" if experts.total else "none"
    indices = body.op("Unsqueeze", rows, body.axis(1))
    result = body.op("ScatterND", state, indices, updates, reduction=reduction)
    dtype = g.try_infer_type(experts.exit)
    dims = [None, *sizes]
    inputs = [helper.make_tensor_value_info(state, dtype, dims)]
    for stack, name in stacks.names.items():
        shape = stacks.shape_of(stack)
        inputs.append(helper.make_tensor_value_info(name, g.try_infer_type(stack), shape[1:]))
    inputs.append(helper.make_tensor_value_info(chosen, TensorProto.BOOL, [None]))
    outputs = [helper.make_tensor_value_info(result, dtype, dims)]
    graph = helper.make_graph(body.nodes, g.unique_name("expert"), inputs, outputs)
    operands = [_zeros(g, experts, dtype, sizes), *stacks.names, _choices(g, experts)]
    target = experts.total[-1].output if experts.total else [experts.exit]
    scan = g.make_node("Scan", operands, target, num_scan_inputs=len(operands) - 1, body=graph)
    return [*g.created, scan]


def _zeros(g: PatternRewriter, experts: _Experts, dtype: int, sizes: Sequence[int]) -> str:
    """The sum before the first expert: zeros."""
    count = g.op.Shape(experts.index)
    if experts.choices > 1:
        count = g.op.Div(count, np.array([experts.choices], np.int64))
    shape = g.op.Concat(count, np.array(sizes, np.int64), axis=0)
    zero = helper.make_tensor("", dtype, [1], [0])
    zeros: str = g.op.ConstantOfShape(shape, value=zero)
    return zeros


def _choices(g: PatternRewriter, experts: _Experts) -> str:
    """Booleans of shape (experts, rows): whether a row belongs to an expert."""
    shape = g.static_shape(experts.gathers[0].input[0])
    assert shape is not None
    dtype = numpy_dtype(g.try_infer_type(experts.index))
    numbers = np.arange(shape[0], dtype=dtype)[:, None]
    chosen: str = g.op.Equal(numbers, experts.index)
    return chosen
