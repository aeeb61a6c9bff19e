"""The interface of the objects that are called after each change of a graph."""

from __future__ import annotations

from typing import Protocol

from xoptim.graph.node import Node


class Listener(Protocol):
    """Called after each change of a graph."""

    def inserted(self, node: Node) -> None:
        """A node was added."""

    def removed(self, node: Node) -> None:
        """A node was taken out; its ``graph`` is already ``None``."""

    def touched(self, node: Node) -> None:
        """The inputs of a node, or the readers of its results, have changed."""
