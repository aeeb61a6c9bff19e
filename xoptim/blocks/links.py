"""The nodes of a graph as numbers, with the links between them: the search for blocks follows these."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from xoptim.blocks.settings import settings
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import reads

NONE: Final = -1
"""No node: the producer of an operand that is given, stored or left out; the settings of a node that is never in a block."""


class Reader(NamedTuple):
    """A node that reads a result.

    Attributes:
        output: place of the result among those of its node.
        node: the reader.
        slot: place of the result among the operands of the reader.
    """

    output: int
    node: int
    slot: int


class Links:
    """The nodes of a graph, numbered in its order.

    Args:
        graph: the graph.

    Attributes:
        nodes: the nodes.
        settings: for each node the number of its settings, `NONE` if it cannot be in a block.
        operands: for each node and each of its operands the producer, and the place among the results of that.
        readers: for each node the readers of its results in the same graph.
        needs: for each node all nodes of which it needs results, those that only its subgraphs read included.
        level: for each node the number of nodes on the longest path to it.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = list(graph.nodes)
        kinds: dict[Hashable, int] = {}
        made: dict[str, tuple[int, int]] = {}
        self.settings: list[int] = []
        self.operands: list[list[tuple[int, int]]] = []
        self.readers: list[list[Reader]] = [[] for _ in self.nodes]
        self.needs: list[list[int]] = []
        self.level: list[int] = []
        for index, node in enumerate(self.nodes):
            key = settings(graph, node)
            self.settings.append(NONE if key is None else kinds.setdefault(key, len(kinds)))
            self.operands.append([made.get(name, (NONE, 0)) for name in node.input])
            for slot, (producer, output) in enumerate(self.operands[-1]):
                if producer != NONE:
                    self.readers[producer].append(Reader(output, index, slot))
            found = [made[name][0] for name in (reads(node) if node.bodies else node.input) if name in made]
            self.needs.append(found)
            self.level.append(1 + max((self.level[producer] for producer in found), default=0))
            made.update((name, (index, place)) for place, name in enumerate(node.output) if name)

    def __len__(self) -> int:
        return len(self.nodes)

    def copies(self, rows: Iterable[Sequence[int]]) -> list[list[Node]]:
        """The nodes of each copy of a block."""
        return [[self.nodes[index] for index in row] for row in rows]

    def reading(self, node: int, output: int, slot: int) -> list[int]:
        """The readers of a result that have it as a certain operand."""
        return [reader.node for reader in self.readers[node] if reader.output == output and reader.slot == slot]

    def is_acyclic(self, groups: Iterable[Sequence[int]]) -> bool:
        """Whether the graph has no cycle when each of these disjoint groups of nodes is one node."""
        merged = list(range(len(self)))
        for group in groups:
            for node in group:
                merged[node] = group[0]
        followers: list[list[int]] = [[] for _ in merged]
        waiting = [0] * len(merged)
        for node, needs in enumerate(self.needs):
            here = merged[node]
            for producer in needs:
                if merged[producer] != here:
                    followers[merged[producer]].append(here)
                    waiting[here] += 1
        ready = [node for node, count in enumerate(waiting) if merged[node] == node and not count]
        left = sum(merged[node] == node for node in range(len(merged)))
        while ready:
            left -= 1
            for follower in followers[ready.pop()]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    ready.append(follower)
        return left == 0
