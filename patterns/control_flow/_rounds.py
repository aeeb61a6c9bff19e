"""The body of a loop written out, once for each iteration."""

from collections.abc import Sequence

import numpy as np

from xoptim.facts.schema import is_deterministic
from xoptim.match import Graph, GraphView, Node, PatternRewriter

from ._cycles import Cycle


def rounds(body: Graph, count: int, g: PatternRewriter, node: Node) -> list[Node]:
    """The nodes of all iterations of a Loop, at least one."""
    results = [name or g.unique_name("unused") for name in node.output]
    carried, states = node.input[2:], len(node.input) - 2
    holds = g.make_initializer("", np.array(True), source="round")
    pieces: list[list[str]] = [[] for _ in results[states:]]
    nodes: list[Node] = []
    for number in range(count):
        first = g.make_initializer("", np.array(number), source="round")
        is_last = number == count - 1
        after = results[:states] if is_last else [g.unique_name(name) for name in results[:states]]
        stacked = [g.unique_name(name) for name in results[states:]]
        inputs = dict(zip(body.inputs, (first, holds, *carried), strict=True))
        nodes += g.splice(body, inputs, [g.unique_name("goes_on"), *after, *stacked])
        for place, name in enumerate(stacked):
            pieces[place].append(name)
        carried = tuple(after)
    for piece, result in zip(pieces, results[states:], strict=True):
        nodes += _stack(piece, result, g)
    return nodes


def _stack(pieces: Sequence[str], result: str, g: PatternRewriter) -> list[Node]:
    if len(pieces) == 1:
        return [g.make_node_check_opset("Unsqueeze", pieces, [result], axes=[0])]
    rows = [g.make_node_check_opset("Unsqueeze", [name], 1, axes=[0]) for name in pieces]
    return [*rows, g.make_node("Concat", [row.output[0] for row in rows], [result], axis=0)]


def only_step(found: Cycle, g: PatternRewriter, node: Node) -> list[Node]:
    """The nodes of a Scan of one step, between a Squeeze of each tensor that it goes through and an Unsqueeze of each stack."""
    scanned, results = node.input[found.count :], [name or g.unique_name("unused") for name in node.output]
    axes = node.attribute.get("scan_input_axes") or [0] * len(scanned)
    pairs = zip(scanned, axes, strict=True)
    slices = [g.make_node_check_opset("Squeeze", [name], 1, axes=[axis]) for name, axis in pairs]
    stacked = [g.unique_name(name) for name in results[found.count :]]
    inputs = [*node.input[: found.count], *(each.output[0] for each in slices)]
    nodes = g.splice(found.body, dict(zip(found.body.inputs, inputs, strict=True)), [*results[: found.count], *stacked])
    axes = node.attribute.get("scan_output_axes") or [0] * len(stacked)
    triples = zip(stacked, results[found.count :], axes, strict=True)
    rows = [g.make_node_check_opset("Unsqueeze", [name], [result], axes=[axis]) for name, result, axis in triples]
    return [*slices, *nodes, *rows]


def size_of(nodes: Sequence[Node]) -> int:
    """Number of nodes, those in subgraphs included, copies and constants not."""
    graphs = [inner for node in nodes for body in node.bodies.values() for inner in body.all_graphs()]
    found = [*nodes, *(node for graph in graphs for node in graph.nodes)]
    return sum(1 for node in found if node.op_type not in ("Identity", "Constant"))


def size_of_rounds(g: GraphView, body: Graph, count: int) -> int:
    """Number of nodes of all iterations, once what depends on the number of the iteration alone is computed ahead of time."""
    known = {body.inputs[0]}
    for node in body.nodes:
        is_known = all(name in known or (name and body.tensor(name) is not None) for name in node.input)
        if is_known and not node.bodies and is_deterministic(node.op_type, node.domain):
            known.update(node.output)
    return count * size_of([node for node in body.nodes if known.isdisjoint(node.output)])
