"""The readers of each result, and how often they read it."""

from __future__ import annotations

from collections.abc import Iterator

from xoptim.graph.node import Node


class Uses:
    """The readers of results, in the order in which they were added.

    Nearly all results have one reader that reads them once; it is stored as it is, without a table of its own, which saves a
    third of the memory of a large graph.
    """

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: dict[str, Node | dict[Node, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def readers(self, name: str) -> list[Node]:
        """The nodes that read a result, each once."""
        found = self._table.get(name)
        return [] if found is None else [found] if isinstance(found, Node) else list(found)

    def count(self, name: str) -> int:
        """How many times a result is read; a node that reads it twice counts twice."""
        found = self._table.get(name)
        return 0 if found is None else 1 if isinstance(found, Node) else sum(found.values())

    def reads(self, name: str, node: Node) -> bool:
        """Whether a node reads a result."""
        found = self._table.get(name)
        return found is node or (isinstance(found, dict) and node in found)

    def add(self, name: str, node: Node) -> None:
        """Record that a node reads a result, once more if it already does."""
        found = self._table.get(name)
        if found is None:
            self._table[name] = node
        elif isinstance(found, Node):
            self._table[name] = {node: 2} if found is node else {found: 1, node: 1}
        else:
            found[node] = found.get(node, 0) + 1

    def drop(self, name: str, node: Node) -> bool:
        """Record that a node reads a result once less; returns whether it no longer reads it."""
        found = self._table.get(name)
        if found is node:
            del self._table[name]
            return True
        if not isinstance(found, dict) or node not in found:
            return False
        if found[node] > 1:
            found[node] -= 1
            return False
        del found[node]
        if not found:
            del self._table[name]
        return True

    def clear(self) -> None:
        """Remove all uses."""
        self._table.clear()

    def counts(self) -> dict[str, dict[Node, int]]:
        """All readers and how often they read, by result."""
        return {name: {found: 1} if isinstance(found, Node) else dict(found) for name, found in self._table.items()}
