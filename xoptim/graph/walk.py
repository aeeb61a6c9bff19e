"""Traverse a graph: what a node reads, which nodes read a result; move nodes in the order."""

from collections.abc import Collection, Container, Iterable, Iterator

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node


def reads(node: Node) -> Iterator[str]:
    """Everything that a node reads: its operands, and what its subgraphs read from outside.

    Names may repeat.
    """
    yield from filter(None, node.input)
    for body in node.bodies.values():
        for inner in body.nodes:
            yield from (name for name in reads(inner) if not body.defines(name))
        yield from (name for name in body.outputs if not body.defines(name))


def all_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, each followed by the nodes of its subgraphs."""
    for node in nodes:
        yield node
        for body in node.bodies.values():
            yield from all_nodes(body.nodes)


def around(graph: Graph) -> Iterator[Graph]:
    """The graphs around a graph, the innermost one first."""
    while graph.parent is not None:
        graph = graph.parent
        yield graph


def defined_inside(node: Node) -> Iterator[str]:
    """Names that the subgraphs of a node define, at any depth."""
    for body in node.bodies.values():
        for graph in body.all_graphs():
            yield from graph.inputs
            yield from graph.initializers
            yield from (name for inner in graph.nodes for name in inner.output if name)


def owner_in(graph: Graph, node: Node) -> Node:
    """The node of ``graph`` whose subgraph, at some depth, contains ``node``.

    The node itself when it is in ``graph``.
    """
    while node.graph is not graph:
        assert node.graph is not None
        assert node.graph.owner is not None
        node = node.graph.owner
    return node


def readers(graph: Graph, name: str) -> Iterator[Node]:
    """Nodes of a graph that read one of its results, directly or in one of their subgraphs.

    Nodes may repeat.
    """
    yield from graph.consumers(name)
    for node in graph.captures(name):
        yield owner_in(graph, node)


def is_read_beyond(graph: Graph, name: str, nodes: Container[Node]) -> bool:
    """Whether anything but these nodes reads a result: another node, a subgraph, or the caller."""
    return (
        graph.is_output(name)
        or graph.is_captured(name)
        or any(node not in nodes for node in graph.consumers(name))
    )


def is_visible(graph: Graph, name: str) -> bool:
    """Whether a name is defined in a graph, or in an enclosing one before the node that contains
    the graph.
    """
    scope = graph.scope(name)
    if scope is None or scope is graph:
        return scope is graph
    producer = scope.producer(name)
    assert graph.owner is not None
    return producer is None or producer.label < owner_in(scope, graph.owner).label


def move_after(graph: Graph, place: Node | None, nodes: Collection[Node]) -> None:
    """Move nodes right after another one (to the beginning for ``None``), in their present
    order.
    """
    for node in sorted(nodes, key=lambda node: node.label):
        graph.nodes.unlink(node)
        graph.nodes.insert_after(place, node)
        place = node
