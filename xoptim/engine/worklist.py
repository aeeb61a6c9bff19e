"""The nodes to match again: those that changed, and those near a change."""

from collections.abc import Iterable

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

_CROWD = 32
"""The readers of a result with more readers than this are not near its producer: only the last sweep offers them."""


class Worklist:
    """Listens to the changes of a model and records the nodes concerned."""

    def __init__(self) -> None:
        self._changed: dict[Node, None] = {}
        self.identities: list[Node] = []

    def inserted(self, node: Node) -> None:
        """A node was added."""
        self._changed[node] = None
        if node.op_type == "Identity":
            self.identities.append(node)

    def removed(self, node: Node) -> None:
        """A node was taken out."""
        self._changed.pop(node, None)

    def touched(self, node: Node) -> None:
        """The inputs of a node, or the readers of its results, changed."""
        self._changed[node] = None

    def add(self, nodes: Iterable[Node]) -> None:
        """Add nodes to match again."""
        self._changed.update(dict.fromkeys(nodes))

    def graphs(self) -> list[Graph]:
        """The graphs of the model with changed nodes, subgraphs before the graph that contains them."""
        depths = {graph: _depth(graph) for graph in dict.fromkeys(node.graph for node in self._changed) if graph is not None}
        return sorted((graph for graph, depth in depths.items() if depth >= 0), key=lambda graph: -depths[graph])

    def clear(self) -> None:
        """Remove all nodes."""
        self._changed.clear()

    def take(self, graph: Graph, reach: int) -> dict[Node, int]:
        """Remove and return the changed nodes of a graph, with those up to ``reach`` steps away, and their distances."""
        mine = [node for node in self._changed if node.graph is graph]
        for node in mine:
            del self._changed[node]
        found = dict.fromkeys(mine, 0)
        edge = mine
        for distance in range(1, reach + 1):
            following: list[Node] = []
            for node in edge:
                for neighbour in _neighbours(graph, node):
                    if neighbour not in found:
                        found[neighbour] = distance
                        following.append(neighbour)
            if not following:
                break
            edge = following
        return dict(sorted(found.items(), key=lambda item: item[0].label))


def _neighbours(graph: Graph, node: Node) -> list[Node]:
    near = list(filter(None, map(graph.producer, node.input)))
    for name in node.output:
        readers = graph.consumers(name)
        if len(readers) <= _CROWD:
            near += readers
    return near


def _depth(graph: Graph) -> int:
    """The number of nodes around a graph; -1 when one of these is no longer in the model."""
    depth = 0
    while graph.owner is not None:
        if graph.owner.graph is None:
            return -1
        graph, depth = graph.owner.graph, depth + 1
    return depth
