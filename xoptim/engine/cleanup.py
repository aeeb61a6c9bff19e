"""Remove Identity nodes, unused nodes and unused initializers."""

from __future__ import annotations

from collections.abc import Iterable

from xoptim.facts.errors import RewriteError
from xoptim.facts.schema import optional_results
from xoptim.graph.edit import Edit
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
    """Remove all unused nodes and initializers; returns the number of both."""
    count = 0
    for node in reversed(graph.nodes):
        if node.output and not graph.is_node_needed(node):
            graph.remove(node)
            count += 1
    return count + remove_unused_initializers(graph)


def drop_unread_results(graph: Graph) -> int:
    """Leave out optional results that nothing reads; returns how many."""
    count = 0
    functions = graph.model.function_operators()
    for node in graph.nodes:
        if len(node.output) < 2 or node.bodies or not graph.is_node_needed(node) or (node.domain, node.op_type) in functions:
            continue
        optional = optional_results(node.op_type, node.domain, node.opset)
        kept = [
            name if place not in optional or graph.is_needed(name) or name in graph.pinned else ""
            for place, name in enumerate(node.output)
        ]
        left_out = sum(map(bool, node.output)) - sum(map(bool, kept))
        if left_out and _keep_results(graph, node, kept):
            count += left_out
    return count


def _keep_results(graph: Graph, node: Node, kept: list[str]) -> bool:
    """Replace a node by one that computes only these results, unless ONNX cannot express the node as it is."""
    while not kept[-1]:
        kept.pop()
    fewer = Node(node.op_type, node.input, kept, dict(node.attribute), domain=node.domain, name=node.name)
    fewer.doc_string, fewer.metadata = node.doc_string, node.metadata
    try:
        with Edit(graph) as edit:
            edit.commit([node], [fewer])
    except RewriteError:
        return False
    return True


def unused_inputs(graph: Graph) -> list[str]:
    """The inputs of the main graph that nothing reads; those with a default are left out, which need not be given."""
    source = graph.source
    stored = {*graph.initializers, *(() if source is None else (tensor.name for tensor in source.initializer))}
    return [name for name in graph.inputs if name not in stored and not graph.is_needed(name)]


def drop_unused_inputs(graph: Graph) -> list[str]:
    """Remove the inputs of the main graph that nothing reads; returns their names."""
    names = unused_inputs(graph)
    for name in names:
        graph.inputs.remove(name)
        del graph.declared_inputs[name]
    graph.drop_facts(names)
    return names


def remove_unused_initializers(graph: Graph) -> int:
    """Remove unused initializers, except those that a caller may override; returns how many were removed."""
    unused = [n for n in graph.initializers if not graph.is_needed(n) and n not in graph.overridable]
    for name in unused:
        graph.remove_initializer(name)
    return len(unused)
