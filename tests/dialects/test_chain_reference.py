"""Chains against the algorithm of the document about circuits, written out as it stands there."""

import random
from collections.abc import Sequence

import pytest

from tests.dialects.chains import chained
from tests.support import load
from xoptim.engine.engine import match_patterns
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.view import GraphView

UNARY = ("Neg", "Exp", "Abs")
BINARY = ("Add", "Sub")


def random_graph(rng: random.Random, size: int) -> str:
    """Layers and parameters at random: some constants are computed, some results are outputs, or
    read twice.
    """
    known = ["x", "z", "w", "v"]
    nodes = []
    for number in range(size):
        operator = rng.choice(UNARY + BINARY)
        recent = known[-3:] if rng.random() < 0.7 else known
        operands = [rng.choice(recent)] + ([rng.choice(known)] if operator in BINARY else [])
        rng.shuffle(operands)
        nodes.append(f"t{number} = {operator}({', '.join(operands)})")
        known.append(f"t{number}")
    outputs = dict.fromkeys([known[-1], *rng.sample(known[4:], 2)])
    return (
        "agraph (float[2] x, float[2] z) "
        f"=> ({', '.join(outputs)}) <float[2] w = {{1, 2}}, float[2] v = {{3, "
        f"4}}> {{ {' '.join(nodes)} }}"
    )


def inputs_of(graph: Graph, node: Node) -> list[str]:
    """Operands that are not parameters: variable ones; in a node that reads constants only, those
    that are computed.
    """
    constant = GraphView(graph).is_constant
    variable = [name for name in node.input if not constant(name)]
    return variable or [name for name in node.input if graph.producer(name) is not None]


def outputs_of(graph: Graph, node: Node) -> int:
    """How many read the result."""
    return graph.use_count(node.output[0]) + graph.is_output(node.output[0])


def match_from(graph: Graph, start: Node, entries: Sequence[str]) -> list[Node] | None:
    """The algorithm: the modules that match the entries when it starts at the root."""
    matched: list[Node] = []
    current: Node | None = start
    for position, entry in enumerate(entries):
        if current is None or current.op_type != entry:
            return None
        inputs = inputs_of(graph, current)
        last = position == len(entries) - 1
        if len(inputs) > 1 and not last:
            return None
        if outputs_of(graph, current) > 1 and position:
            return None
        matched.append(current)
        if not last:
            current = graph.producer(inputs[0]) if inputs else None
    return matched


def random_entries(graph: Graph, rng: random.Random) -> list[str]:
    """Operators along a way through the graph, of which one may be wrong."""
    node: Node | None = rng.choice(list(graph.nodes))
    entries: list[str] = []
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4))):
        if node is None:
            break
        entries.append(node.op_type)
        node = graph.producer(rng.choice(node.input))
    if rng.random() < 0.2:
        entries[rng.randrange(len(entries))] = rng.choice(UNARY + BINARY)
    return entries


@pytest.mark.parametrize("seed", range(40))
def test_the_same_matches(seed: int) -> None:
    rng = random.Random(seed)
    total = 0
    for size in (10, 30, 60):
        graph = load(random_graph(rng, size)).graph
        for _ in range(6):
            entries = random_entries(graph, rng)
            starts = [match_from(graph, node, entries) for node in graph.nodes]
            kept: list[list[Node]] = []
            for match in filter(None, starts):
                if not any(node in other for node in match for other in kept):
                    kept.append(match)
            matches, roots = match_patterns(graph, chained(*entries))
            found = [list(m.bindings["entries"]) for m in matches if m.bindings is not None]
            assert sorted(found, key=lambda nodes: nodes[0].label) == kept, entries
            assert set(roots) == {match[0] for match in kept}
            total += len(kept)
    assert total > 5, "there is something to find"
