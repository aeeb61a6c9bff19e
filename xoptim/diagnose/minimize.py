"""Reduce a model to a few nodes that reproduce a fault (delta debugging, Zeller and Hildebrandt 2002)."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

import onnx

from xoptim.graph.fragment import fragment
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.walk import reads

Shows = Callable[[onnx.ModelProto], bool]
_MOST_TRIALS: Final = 400
"""Maximal number of parts of the model that are tried."""


def minimize(model: onnx.ModelProto, shows: Shows, around: Collection[str] = ()) -> onnx.ModelProto | None:
    """The smallest model found that reproduces a fault, which ``shows`` decides; ``None`` when neither it nor a part does.

    Results of dropped nodes become inputs. Nodes of subgraphs are kept or dropped with the node that owns the subgraph. The
    growing neighbourhoods of the results in ``around`` are tried first.
    """
    graph = load_model(model).graph
    trials = 0

    def fails(nodes: Sequence[Node]) -> bool:
        nonlocal trials
        trials += 1
        return bool(nodes) and trials <= _MOST_TRIALS and shows(part(graph, nodes))

    found = next((nodes for nodes in _neighbourhoods(graph, around) if fails(nodes)), None)
    if found is None:
        found = list(graph.nodes)
        if not shows(model):
            return None
    return part(graph, _minimized(found, fails))


def part(graph: Graph, nodes: Sequence[Node]) -> onnx.ModelProto:
    """Some nodes as a model; its outputs are the results that none of them reads, and outputs of the graph."""
    read = {name for node in nodes for name in reads(node)}
    results = [n for node in nodes for n in node.output if n and (n not in read or graph.is_output(n))]
    return fragment(graph, nodes, results)


def _neighbourhoods(graph: Graph, around: Collection[str]) -> list[list[Node]]:
    """The producers of some results, then the nodes up to 1, 2, 4, ... steps away, all connected nodes last."""
    found = {node: None for name in around if (node := graph.producer(name)) is not None}
    if not found:
        return []
    rings = [list(found)]
    edge = list(found)
    distance, wanted = 0, 1
    while edge:
        edge = list(dict.fromkeys(n for node in edge for n in _neighbours(graph, node) if n not in found))
        found.update(dict.fromkeys(edge))
        distance += 1
        if distance == wanted or not edge:
            rings.append(sorted(found, key=lambda node: node.label))
            wanted *= 2
    return rings


def _neighbours(graph: Graph, node: Node) -> list[Node]:
    before = [producer for name in reads(node) if (producer := graph.producer(name)) is not None]
    return before + [reader for name in node.output for reader in graph.consumers(name)]


def _minimized(nodes: Sequence[Node], fails: Callable[[Sequence[Node]], bool]) -> list[Node]:
    """A subset of nodes that fails, although no smaller subset that was tried does."""
    left = list(nodes)
    pieces = 2
    while len(left) >= 2:
        size = -(-len(left) // pieces)
        for chunk in [left[start : start + size] for start in range(0, len(left), size)]:
            rest = [node for node in left if node not in chunk]
            if fails(rest):
                left, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(2 * pieces, len(left))
    return left
