"""Growing blocks: from one node of each block along operands and readers, in all blocks at once, as long as they are alike."""

from __future__ import annotations

from collections.abc import Container, Sequence

from xoptim.blocks.links import NONE, Links

Column = tuple[int, ...]
"""The nodes in one place of a block, one for each block."""


class Growth:
    """Blocks that grow from seeds.

    Operands come first: they are in a known order, and which of the readers correspond to each other is then mostly decided. So
    the blocks begin as early as they can.

    Args:
        links: the graph.
        taken: nodes that are in other blocks.
        seeds: one node of each block.

    Attributes:
        columns: the places of the block; empty when the seeds are not alike.
        place: for each node its block and its place.
    """

    def __init__(self, links: Links, taken: Container[int], seeds: Sequence[int]) -> None:
        self.links = links
        self.taken = taken
        self.columns: list[Column] = []
        self.place: dict[int, tuple[int, int]] = {}
        self._unexplored: list[int] = []
        self._add(tuple(seeds))
        self._explore_operands()
        for place, column in enumerate(self.columns):  # grows
            self._explore_readers(place, column)

    def _add(self, column: Column) -> None:
        """Add a place, if its nodes are alike and free."""
        kinds = {self.links.settings[node] for node in column}
        if len(kinds) > 1 or NONE in kinds or len(set(column)) < len(column):
            return
        if any(node in self.place or node in self.taken for node in column):
            return
        place = len(self.columns)
        self.columns.append(column)
        self.place.update((node, (block, place)) for block, node in enumerate(column))
        self._unexplored.append(place)

    def _explore_operands(self) -> None:
        operands = self.links.operands
        while self._unexplored:
            column = self.columns[self._unexplored.pop()]
            for found in zip(*(operands[node] for node in column), strict=True):
                producers, outputs = zip(*found, strict=True)
                if NONE not in producers and len(set(outputs)) == 1:
                    self._add(producers)

    def _explore_readers(self, place: int, column: Column) -> None:
        """Add readers of the results in one place that differ from all other readers of the same result."""
        first, *others = (self._readers(node) for node in column)
        for role, nodes in first.items():
            each: list[Sequence[int]] = [nodes, *(readers.get(role, ()) for readers in others)]
            if all(len(found) == 1 for found in each):
                self._add(tuple(found[0] for found in each))
                self._explore_operands()

    def _readers(self, node: int) -> dict[tuple[object, ...], list[int]]:
        """The readers of a node that are free, by settings and by what they read where."""
        reading: dict[int, list[tuple[int, int]]] = {}
        for output, reader, slot in self.links.readers[node]:
            if reader not in self.place and reader not in self.taken:
                reading.setdefault(reader, []).append((output, slot))
        found: dict[tuple[object, ...], list[int]] = {}
        for reader, places in reading.items():
            found.setdefault((self.links.settings[reader], *places), []).append(reader)
        return found
