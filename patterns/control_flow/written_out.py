"""If, Loop and Scan, replaced by the nodes of their subgraphs."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from xoptim.match import (
    Example,
    Graph,
    GraphView,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
)
from xoptim.operators.registry import is_deterministic

from ._loop_nodes import LoopNode, loop_node

_MAX_ITERATIONS: Final = 64


class _WrittenOut(PatternOptimization):
    """An If, a Loop or a Scan that is replaced by the nodes of a subgraph."""

    anchors = ("Loop",)


class IfConstantPattern(_WrittenOut):
    """If(constant) → the branch that is taken

    What: replaces the If by the nodes of the branch.
    Why: no node is fused or folded across the border of a subgraph.
    Refuses when:
    1. the condition is not constant.
    2. the branch has sparse or overridable initializers, which cannot be moved.
    """

    anchors = ("If",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        condition = g.get_constant_scalar(node.input[0])
        if condition is None:  # (1)
            return self.none(node, msg="the condition is not constant")
        branch = node.bodies.get("then_branch" if condition else "else_branch")
        if branch is None or not g.can_splice(branch):  # (2)
            return self.none(node, msg="the branch has sparse or overridable initializers")
        return MatchResult(self, [node], lambda g, node: g.splice(branch, {}, node.output))

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) <bool c = {1}> { h = Neg(x) y = If(c) < "
        "then_branch = yes () => (float[a] p) { t = Exp(h) p = Relu(t) }, "
        "else_branch = no () => (float[a] q) { t = Sqrt(h) q = Relu(t) }> }",
        "{ h = Neg(x) t = Exp(h) y = Relu(t) }",
    )


class LoopNeverPattern(_WrittenOut):
    """Loop(0, ..., x) → x

    What: replaces the results of a loop without iterations by the initial values.
    Why: drops a Loop that computes nothing.
    Refuses when:
    1. neither the number of iterations is known to be 0, nor the initial condition to be false.
    2. the loop has a scan output: it would be empty, with a shape that depends on the body.
    """

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        count = g.get_constant_scalar(node.input[0]) if node.input[0] else None
        condition = (
            g.get_constant_scalar(node.input[1]) if len(node.input) > 1 and node.input[1] else None
        )
        if not (count is not None and count <= 0) and (condition is None or condition):  # (1)
            return self.none(node, msg="the loop may have iterations")
        if len(node.output) > len(node.input) - 2:  # (2)
            return self.none(node, msg="the loop has scan outputs")
        return MatchResult(self, [node], self.apply)

    def apply(self, g: PatternRewriter, node: Node) -> list[Node]:
        return [
            g.make_node("Identity", [a], [b])
            for a, b in zip(node.input[2:], node.output, strict=False)
            if b
        ]

    examples = Example.only(
        "agraph (float[a] x, int64 n) => (float[a] y) <bool c = {0}> { "
        "t = Loop(n, c, x) < body = round (int64 i, bool d, float[a] p) "
        "=> (bool e, float[a] q) { e = Identity(d) q = Relu(p) }> y = Neg(t) }",
        "{ y = Neg(x) }",
    )


class LoopOncePattern(_WrittenOut):
    """Loop(1, true, ...) → the body

    What: replaces the Loop by the nodes of its body.
    Why: no node is fused or folded across the border of a subgraph.
    Refuses when:
    1. the number of iterations is not known to be 1, or the initial condition not known to be true.
    2. the body has sparse or overridable initializers, which cannot be moved.
    """

    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        loop = loop_node(g, node)  # (2)
        if loop.iterations(g) != 1:  # (1); the condition that the body returns does not matter
            return self.none(node, msg="the loop is not known to have exactly one iteration")
        return MatchResult(self, [node], partial(unroll, loop.body, 1))

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y, float[1,a] z) <int64 n = {1}, bool c = {1}> { "
        "y, z = Loop(n, c, x) < body = round (int64 i, bool d, float[a] p) "
        "=> (bool e, float[a] q, float[a] r) { e = Identity(d) q = Relu(p) r = Exp(q) }> }",
        "<int64[1] k = {0}> { y = Relu(x) r = Exp(y) z = Unsqueeze(r, k) }",
    )


class LoopUnrollPattern(_WrittenOut):
    """Loop(2, true, x) of x + f(i) → x + f(0) + f(1)

    What: repeats the body for each iteration. The number of the iteration becomes a constant.
    Why: nodes that depend only on this number are folded, and no node is fused or folded across the
    border of a subgraph. Measured 0.65 of the time of a loop of 3 iterations. (Runtimes that
    compute float16 in float32 round at the border, so the last bit may differ.)
    Refuses when:
    1. the number of iterations is not known to be 2 to 64, or a condition may end the loop earlier.
    2. the unrolled loop would have more nodes than the Loop and its body. Nodes that depend only on
       the number of the iteration do not count.
    3. the body has sparse or overridable initializers, which cannot be moved.
    """

    exactness = "rounding"
    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # The condition must be true at the beginning, and after each iteration.
        loop = loop_node(g, node)  # (3)
        count, body = loop.iterations(g), loop.body
        goes_on = g.inside(body).get_constant_scalar(body.outputs[0])
        if count is None or not 2 <= count <= _MAX_ITERATIONS or not goes_on:  # (1)
            return self.none(
                node,
                msg="the number of iterations is unknown, or not from 2 to 64,"
                " or a condition may end the loop",
            )
        unrolled_size = size_of_iterations(g, body, count) + (count + 1) * len(loop.scan_outputs())
        if unrolled_size > 1 + size_of(list(body.nodes)):  # (2)
            return self.none(node, msg="the unrolled loop would have more nodes")
        return MatchResult(self, [node], partial(unroll, body, count))

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) <int64 n = {3}, bool c = {1}> { y = Loop(n, c, x) < "
        "body = round (int64 i, bool d, float[a] p) => (bool e, float[a] q) "
        "{ e = Identity(d) f = Cast <to = 1> (i) q = Sub(p, f) }> }",
        "<float k = {0}, float l = {1}, float m = {2}> { p = Sub(x, k) q = Sub(p, l) "
        "y = Sub(q, m) }",
    )


class ScanOncePattern(_WrittenOut):
    """Scan(x of one step) → the body

    What: replaces the Scan by the nodes of its body. A Squeeze precedes for each scanned input, and
    an Unsqueeze follows for each scan output.
    Why: no node is fused or folded across the border of a subgraph. Measured 0.86 to 0.91 of the
    time. (Runtimes that compute float16 in float32 round at the border, so the last bit may
    differ.)
    Refuses when:
    1. the number of steps is not known to be 1.
    2. the body has sparse or overridable initializers, which cannot be moved.
    """

    anchors = ("Scan",)
    exactness = "rounding"
    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        scan = loop_node(g, node)  # (2)
        if scan.iterations(g) != 1:  # (1)
            return self.none(node, msg="the scan is not known to have exactly one iteration")
        return MatchResult(self, [node], partial(only_step, scan))

    examples = Example.only(
        "agraph (float[a] x, float[a,1] z) => (float[a] y, float[a,1] w) { "
        "y, w = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1], "
        "body = step (float[a] s, float[a] t) => (float[a] u, float[a] v) { u = Mul(s, t) "
        "v = Exp(u) }> (x, z) }",
        "<int64[1] k = {1}, int64[1] l = {-1}> { t = Squeeze(z, k) y = Mul(x, t) v = Exp(y) "
        "w = Unsqueeze(v, l) }",
    )


def unroll(body: Graph, count: int, g: PatternRewriter, node: Node) -> list[Node]:
    """The nodes of all iterations of a Loop; ``count`` is at least 1."""
    results = [name or g.unique_name("unused") for name in node.output]
    carried, state_count = node.input[2:], len(node.input) - 2
    condition = g.make_initializer("", np.array(True), source="condition")
    states = results[:state_count]
    pieces: list[list[str]] = [[] for _ in results[state_count:]]
    nodes: list[Node] = []
    for number in range(count):
        iteration = g.make_initializer("", np.array(number), source="iteration")
        is_last = number == count - 1
        after = states if is_last else [g.unique_name(name) for name in states]
        stacked = [g.unique_name(name) for name in results[state_count:]]
        inputs = dict(zip(body.inputs, (iteration, condition, *carried), strict=True))
        nodes += g.splice(body, inputs, [g.unique_name("goes_on"), *after, *stacked])
        for place, name in enumerate(stacked):
            pieces[place].append(name)
        carried = tuple(after)
    for piece, result in zip(pieces, results[state_count:], strict=True):
        nodes += _stack(piece, result, g)
    return nodes


def _stack(pieces: Sequence[str], result: str, g: PatternRewriter) -> list[Node]:
    if len(pieces) == 1:
        return [g.make_node_check_opset("Unsqueeze", pieces, [result], axes=[0])]
    rows = [g.make_node_check_opset("Unsqueeze", [name], 1, axes=[0]) for name in pieces]
    return [*rows, g.make_node("Concat", [row.output[0] for row in rows], [result], axis=0)]


def only_step(scan: LoopNode, g: PatternRewriter, node: Node) -> list[Node]:
    """The nodes that replace a Scan of one step; see `ScanOncePattern`."""
    scanned, results = (
        node.input[scan.state_count :],
        [name or g.unique_name("unused") for name in node.output],
    )
    axes = node.attribute.get("scan_input_axes") or [0] * len(scanned)
    slices = [
        g.make_node_check_opset("Squeeze", [name], 1, axes=[axis])
        for name, axis in zip(scanned, axes, strict=True)
    ]
    stacked = [g.unique_name(name) for name in results[scan.state_count :]]
    inputs = [*node.input[: scan.state_count], *(squeeze.output[0] for squeeze in slices)]
    nodes = g.splice(
        scan.body,
        dict(zip(scan.body.inputs, inputs, strict=True)),
        [*results[: scan.state_count], *stacked],
    )
    axes = node.attribute.get("scan_output_axes") or [0] * len(stacked)
    triples = zip(stacked, results[scan.state_count :], axes, strict=True)
    rows = [
        g.make_node_check_opset("Unsqueeze", [name], [result], axes=[axis])
        for name, result, axis in triples
    ]
    return [*slices, *nodes, *rows]


def size_of(nodes: Sequence[Node]) -> int:
    """Number of nodes, including subgraphs, without Identity and Constant."""
    graphs = [
        inner for node in nodes for body in node.bodies.values() for inner in body.all_graphs()
    ]
    all_nodes = [*nodes, *(node for graph in graphs for node in graph.nodes)]
    return sum(1 for node in all_nodes if node.op_type not in ("Identity", "Constant"))


def size_of_iterations(g: GraphView, body: Graph, count: int) -> int:
    """Number of nodes of all iterations.

    Nodes that depend only on the number of the iteration do not count: they are folded.
    """
    constants = {body.inputs[0]}
    for node in body.nodes:
        is_known = all(
            name in constants or (name and body.tensor(name) is not None) for name in node.input
        )
        if is_known and not node.bodies and is_deterministic(node.op_type, node.domain):
            constants.update(node.output)
    return count * size_of([node for node in body.nodes if constants.isdisjoint(node.output)])
