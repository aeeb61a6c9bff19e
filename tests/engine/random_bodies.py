"""Random graphs with loops, scans and branches: states that do and do not change, common nodes, nested subgraphs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.engine.random_graphs import MOVES, RandomGraph

_UNARY = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Sign", "Softplus")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")


class RandomBody:
    """Grows a subgraph whose results are floats of one shape.

    Args:
        outer: the graph around it, which makes the names.
        values: values of that shape that it may read.
        rank: number of axes of this shape.
        depth: how many more subgraphs may stand inside each other.
    """

    def __init__(self, outer: RandomGraph, values: list[str], rank: int, depth: int) -> None:
        self.rank = rank
        self.outer, self.rng = outer, outer.rng
        self.values = list(values)
        self.depth = depth
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []

    def node(self, op_type: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node."""
        names = [self.outer.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, **attributes))
        return names

    def constant(self, value: Any) -> str:
        """Add an initializer."""
        tensor = numpy_helper.from_array(np.asarray(value), self.outer.name())
        self.initializers.append(tensor)
        return tensor.name

    def grow(self, size: int) -> None:
        """Add about ``size`` nodes."""
        for _ in range(size):
            kind = self.rng.random()
            if kind < 0.35:
                self.values += self.node(self.outer.choice(_UNARY), [self.outer.choice(self.values)])
            elif kind < 0.8:
                pair = [self.outer.choice(self.values) for _ in range(2)]
                self.values += self.node(self.outer.choice(_BINARY), pair)
            elif kind < 0.9:
                k = self.constant(np.float32(self.outer.choice((0.0, 1.0, -1.0, 0.5))))
                self.values += self.node(self.outer.choice(_BINARY), [self.outer.choice(self.values), k])
            elif self.depth:
                self.outer.choice((branch, loop, scan))(self, self.depth - 1)

    def result(self, name: str) -> str:
        """A node whose result is an output of the subgraph: a copy, unless it is a node's that is not an output yet."""
        (copy,) = self.node("Identity", [name])
        return copy

    def graph(self, inputs: list[onnx.ValueInfoProto], outputs: Sequence[tuple[str, int]]) -> onnx.GraphProto:
        """The subgraph."""
        ranks: dict[int, int] = {TensorProto.FLOAT: self.rank, TensorProto.BOOL: 0}
        infos = [helper.make_tensor_value_info(name, dtype, [None] * ranks[dtype]) for name, dtype in outputs]
        return helper.make_graph(self.nodes, self.outer.name(), inputs, infos, self.initializers)


def _floats(names: list[str], rank: int) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank) for name in names]


def _condition(body: RandomBody, value: str, threshold: float) -> str:
    """Whether the sum of a value exceeds a number."""
    (total,) = body.node("ReduceSum", [value], keepdims=0)
    return body.node("Greater", [total, body.constant(np.float32(threshold))])[0]


def branch(body: RandomBody, depth: int) -> None:
    """An If of one to three results, whose branches may compute the same."""
    g = body.outer
    count = int(g.rng.integers(1, 4))
    known = g.rng.random() < 0.2
    condition = body.constant(np.bool_(g.rng.random() < 0.5)) if known else _condition(body, g.choice(body.values), 0.3)
    seen, again = g.rng.bit_generator.state, g.rng.random() < 0.5
    branches: list[onnx.GraphProto] = []
    for _ in range(2):
        if again:
            g.rng.bit_generator.state = seen  # the same nodes under other names
        inner = RandomBody(g, body.values, body.rank, depth)
        inner.grow(int(g.rng.integers(1, 4)))
        if again and len(branches) == 1:
            g.rng.random()
            inner.grow(int(g.rng.integers(0, 2)))
        outputs = [(inner.result(g.choice(inner.values)), TensorProto.FLOAT) for _ in range(count)]
        branches.append(inner.graph([], outputs))
    body.values += body.node("If", [condition], count, then_branch=branches[0], else_branch=branches[1])


def loop(body: RandomBody, depth: int) -> None:
    """A Loop with states that change, that do not, and that nothing reads; stacked results are added up."""
    g = body.outer
    states, stacks = int(g.rng.integers(1, 4)), int(g.rng.integers(0, 3))
    rounds = body.constant(np.int64(g.choice((0, 1, 2, 3, 5))))
    if g.rng.random() < 0.4:  # a number that is not known
        (rank,) = body.node("Shape", [g.choice(body.values)])
        rounds = body.node("ReduceSum", [rank], keepdims=0)[0] if g.rng.random() < 0.5 else body.node("Size", [rank])[0]
    entry = g.choice(("", body.constant(np.bool_(True)), "computed"))
    if entry == "computed":
        entry = _condition(body, g.choice(body.values), -1.0)
    names = [g.name() for _ in range(states)]
    number, holds = g.name(), g.name()
    inner = RandomBody(g, body.values + names * 2, body.rank, depth)
    if g.rng.random() < 0.5:
        (cast,) = inner.node("Cast", [number], to=TensorProto.FLOAT)
        inner.values += inner.node("Add", [g.choice(names), cast])
    inner.grow(int(g.rng.integers(1, 6)))
    goes_on = inner.node("Identity", [holds])[0] if g.rng.random() < 0.7 else _condition(inner, g.choice(inner.values), -2.0)
    kept = [name if g.rng.random() < 0.3 else g.choice(inner.values) for name in names]
    outputs = [(inner.result(name), TensorProto.FLOAT) for name in kept]
    outputs += [(inner.result(g.choice(inner.values)), TensorProto.FLOAT) for _ in range(stacks)]
    inputs = [
        helper.make_tensor_value_info(number, TensorProto.INT64, []),
        helper.make_tensor_value_info(holds, TensorProto.BOOL, []),
        *_floats(names, body.rank),
    ]
    initial = [g.choice(body.values) for _ in names]
    graph = inner.graph(inputs, [(goes_on, TensorProto.BOOL), *outputs])
    results = body.node("Loop", [rounds, entry, *initial], states + stacks, body=graph)
    _use(body, results[:states], results[states:])


def scan(body: RandomBody, depth: int) -> None:
    """A Scan over one to three copies of values on a new axis, in either direction."""
    g = body.outer
    states, scanned, stacks = (int(g.rng.integers(low, high)) for low, high in ((0, 3), (1, 3), (1, 3)))
    length = int(g.rng.integers(1, 4))
    axis = body.constant(np.array([0]))
    operands = []
    for _ in range(scanned):
        rows = [body.node("Unsqueeze", [g.choice(body.values), axis])[0] for _ in range(length)]
        operands += body.node("Concat", rows, axis=0)
    names = [g.name() for _ in range(states + scanned)]
    inner = RandomBody(g, body.values + names * 2, body.rank, depth)
    inner.grow(int(g.rng.integers(1, 6)))
    kept = [name if g.rng.random() < 0.3 else g.choice(inner.values) for name in names[:states]]
    kept += [g.choice(inner.values) for _ in range(stacks)]
    graph = inner.graph(_floats(names, body.rank), [(inner.result(name), TensorProto.FLOAT) for name in kept])
    attributes: dict[str, Any] = {"num_scan_inputs": scanned, "body": graph}
    if g.rng.random() < 0.4:
        attributes["scan_input_directions"] = [int(g.rng.integers(2)) for _ in range(scanned)]
        attributes["scan_output_directions"] = [int(g.rng.integers(2)) for _ in range(stacks)]
    initial = [g.choice(body.values) for _ in range(states)]
    results = body.node("Scan", [*initial, *operands], states + stacks, **attributes)
    _use(body, results[:states], results[states:])


def _use(body: RandomBody, states: list[str], stacked: list[str]) -> None:
    """Make results values, but for some that stay unread."""
    body.values += [name for name in states if body.rng.random() < 0.7]
    for name in stacked:
        if body.rng.random() < 0.7:
            body.values += body.node("ReduceSum", [name, body.constant(np.array([0]))], keepdims=0)


class _Inline(RandomBody):
    """Adds its nodes to the graph itself."""

    def __init__(self, outer: RandomGraph, shape: tuple[int, ...]) -> None:
        super().__init__(outer, [name for name, found in outer.shapes.items() if found == shape], len(shape), 1)
        self.nodes, self.initializers = outer.nodes, outer.initializers


def _body(g: RandomGraph) -> None:
    """A loop, a scan or a branch among the values of one shape."""
    _, shape = g.pick()
    if not shape or len(shape) > 3:
        return
    inline = _Inline(g, shape)
    before = len(inline.values)
    g.choice((branch, loop, scan))(inline, 1)
    inline.grow(1)
    g.shapes.update(dict.fromkeys(inline.values[before:], shape))


class RandomFlow(RandomGraph):
    """A random graph of which every third operation has subgraphs."""

    def model(self, size: int) -> onnx.ModelProto:
        """A model of about ``size`` operations."""
        for shape in (("n", "m", 4), (2, 3, 4), ("n", 4)):
            self.input(shape)
        while len(self.nodes) < size:
            (_body if self.rng.random() < 0.35 else self.choice(MOVES))(self)
        names = [name for name in self.shapes if name not in self.feeds]
        chosen = dict.fromkeys([names[-1], *(self.choice(names) for _ in range(3))])
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(self.shapes[name])) for name in chosen]
        graph = helper.make_graph(self.nodes, "random", self.inputs, outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
