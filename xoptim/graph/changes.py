"""Record the changes to a model while some code runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from xoptim.graph.model import Model
from xoptim.graph.node import Node


class Changes:
    """Listens to a model and records the changes to it: their number, the node that changed first, and nodes added and removed.

    Some of the ``inserted_nodes`` may have been removed since.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: Node | None = None
        self.inserted_nodes: dict[Node, None] = {}
        self.removed_nodes: list[Node] = []

    def inserted(self, node: Node) -> None:
        """A node was added."""
        self._count(node)
        self.inserted_nodes[node] = None

    def removed(self, node: Node) -> None:
        """A node was taken out."""
        self._count(node)
        if node not in self.inserted_nodes:
            self.removed_nodes.append(node)

    def touched(self, node: Node) -> None:
        """The inputs of a node, or the readers of its results, changed."""
        self._count(node)

    def _count(self, node: Node) -> None:
        self.count += 1
        if self.first is None:
            self.first = node

    @property
    def added_nodes(self) -> list[Node]:
        """Nodes that were added and are still in the model."""
        return [node for node in self.inserted_nodes if node.graph is not None]


@contextmanager
def watching(model: Model) -> Iterator[Changes]:
    """Record the changes to a model while the block runs."""
    changes = Changes()
    model.listeners.append(changes)
    try:
        yield changes
    finally:
        model.listeners.remove(changes)
