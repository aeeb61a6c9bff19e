"""Remove what computes nothing: Identity nodes, unused nodes, unused initializers."""

from __future__ import annotations

from collections.abc import Iterable

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node


def alias(graph: Graph, old: str, new: str) -> bool:
    """Make everything that reads ``old`` read ``new``, a result of the same value.

    Args:
        graph: the graph in which ``old`` is computed.
        old: a result that becomes superfluous.
        new: a result visible in the graph.

    Returns:
        Whether nothing refers to ``old`` any more. False, with nothing changed, when both names must stay.
    """
    if not graph.can_rename(old, new):
        return False
    if not graph.is_output(old):
        graph.rename(old, new)
        return True
    producer = graph.producer(new)
    if producer is None or graph.is_output(new) or not graph.can_rename(new, old):
        return False
    graph.rename(old, new)
    old_producer = graph.producer(old)
    if old_producer is not None:
        graph.remove(old_producer)
    graph.rename_output(producer, new, old)
    return True


def remove_identities(graph: Graph, nodes: Iterable[Node]) -> int:
    """Remove those of the nodes that are Identity and whose input can take the place of their output."""
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
    if not alias(graph, target, source):
        return False
    if node.graph is graph:
        graph.remove(node)
        graph.infos.pop(target, None)
    return True


def remove_unused(graph: Graph) -> int:
    """Remove all nodes and initializers that nothing reads; returns how many nodes went."""
    count = 0
    for node in reversed(graph.nodes):
        if node.output and not any(name and graph.is_needed(name) for name in node.output):
            graph.remove(node)
            for name in node.output:
                graph.infos.pop(name, None)
            count += 1
    remove_unused_initializers(graph)
    return count


def remove_unused_initializers(graph: Graph) -> int:
    """Remove initializers that nothing reads, except those that are inputs too; returns how many went."""
    unused = [n for n in graph.initializers if not graph.is_needed(n) and n not in graph.overridable]
    for name in unused:
        graph.remove_initializer(name)
    return len(unused)
