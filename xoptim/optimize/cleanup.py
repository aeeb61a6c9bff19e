"""Remove Identity nodes, unused nodes and unused initializers."""

from __future__ import annotations

from collections.abc import Iterable

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.redirect import redirect


def remove_identities(graph: Graph, nodes: Iterable[Node]) -> int:
    """Remove the Identity nodes among ``nodes`` whose input can replace their output; returns how many."""
    count = 0
    for node in nodes:
        if node.graph is graph and node.op_type == "Identity" and not node.domain and _bypass(graph, node):
            count += 1
    return count


def _bypass(graph: Graph, node: Node) -> bool:
    if len(node.input) != 1 or len(node.output) != 1:
        return False
    source, target = node.input[0], node.output[0]
    if graph.scope(source) is not graph and graph.is_output(target):
        return False
    if not redirect(graph, target, source):
        return False
    if node.graph is graph:
        graph.remove(node)
    return True


def remove_unused(graph: Graph) -> int:
    """Remove all unused nodes and initializers; returns the number of nodes removed."""
    count = 0
    for node in reversed(graph.nodes):
        if node.output and not graph.is_node_needed(node):
            graph.remove(node)
            count += 1
    remove_unused_initializers(graph)
    return count


def remove_unused_initializers(graph: Graph) -> int:
    """Remove unused initializers, except those that a caller may override; returns how many were removed."""
    unused = [n for n in graph.initializers if not graph.is_needed(n) and n not in graph.overridable]
    for name in unused:
        graph.remove_initializer(name)
    return len(unused)
