"""Which nodes to look at again: what changed, and what is near it."""

from __future__ import annotations

from collections.abc import Iterable

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

_CROWD = 32
"""A result with more readers than this does not wake them all: the last sweep looks at them."""


class Worklist:
    """Listens to the changes of a model and remembers the nodes concerned."""

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
        """What a node reads, or who reads its results, changed."""
        self._changed[node] = None

    def add(self, nodes: Iterable[Node]) -> None:
        """Look at these nodes again."""
        self._changed.update(dict.fromkeys(nodes))

    def clear(self) -> None:
        """Forget everything."""
        self._changed.clear()

    def take(self, graph: Graph, reach: int) -> dict[Node, int]:
        """The nodes of a graph that changed, and those up to ``reach`` steps away, with how far they are; then forget them."""
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
