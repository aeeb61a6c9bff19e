"""A block that repeats, and how it grows from one node of each copy along operands and readers."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xoptim.blocks.links import NONE, Links

Column = tuple[int, ...]
"""The nodes in one place of a block, one for each block."""
Row = tuple[int, ...]
"""The nodes of one copy, by place."""


class Columns:
    """Blocks that grow from seeds, one node of each block; ``taken`` are nodes of other blocks.

    Operands come first: they are in a known order, and which of the readers correspond to each other is then mostly decided. So
    the blocks begin as early as they can.
    """

    def __init__(self, links: Links, taken: Container[int], seeds: Sequence[int]) -> None:
        self.links = links
        self.taken = taken
        self.columns: list[Column] = []  # the places of the block; empty when the seeds are not alike
        self.place: dict[int, tuple[int, int]] = {}  # for each node its block and its place
        self._unexplored: list[int] = []
        self._add(tuple(seeds))
        self._explore_operands()
        for column in self.columns:  # grows
            self._explore_readers(column)

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
            for found in zip(*(operands[node] for node in self.columns[self._unexplored.pop()]), strict=True):
                producers, outputs = zip(*found, strict=True)
                if NONE not in producers and len(set(outputs)) == 1:
                    self._add(producers)

    def _explore_readers(self, column: Column) -> None:
        """Add readers of the results in one place that differ from all other readers of the same result."""
        first, *others = map(self._readers, column)
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


class Result(NamedTuple):
    """A result of a node of a block."""

    place: int  # place of the node
    output: int  # place of the result among the results of the node


@dataclass(frozen=True)
class Block:
    """A block that repeats."""

    rows: tuple[Row, ...]  # the copies; places are in an order in which the nodes can run
    # For each place and operand the result of the same copy that it is, ``None`` for any other value
    inside: tuple[tuple[Result | None, ...], ...]
    # For each place and operand the result of another copy that it is in some copies: the one before, as a rule
    handed: tuple[tuple[Result | None, ...], ...]

    @property
    def size(self) -> int:
        """Number of nodes of a copy."""
        return len(self.rows[0])

    @property
    def gain(self) -> int:
        """Number of nodes that the file no longer has when the block is written once, and called."""
        times = len(self.rows)
        return times * self.size - times - self.size


def block_of(links: Links, columns: Sequence[Column]) -> Block | None:
    """The block with these places, ``None`` when no place is left.

    A place whose operand is a result of its own copy, but not in all copies, cannot be part of it, nor can places that read its
    results.
    """
    place = {node: (copy, number) for number, column in enumerate(columns) for copy, node in enumerate(column)}
    inside: list[list[Result | None]] = []
    handed: list[list[Result | None]] = []
    bad: set[int] = set()
    order = _sorted(links, columns, place)
    for column in order:
        number = place[column[0]][1]
        inside.append([])
        handed.append([])
        for found in zip(*(links.operands[node] for node in column), strict=True):
            homes = [(*place.get(producer, (NONE, NONE)), output) for producer, output in found]
            own = {Result(*home[1:]) if home[0] == copy else None for copy, home in enumerate(homes)}
            others = {Result(*home[1:]) for copy, home in enumerate(homes) if home[0] not in (copy, NONE)}
            (source, *differing) = own
            inside[-1].append(source)
            handed[-1].append(others.pop() if source is None and len(others) == 1 else None)
            if differing or (source is not None and source.place in bad):
                bad.add(number)
    if bad:
        left = [column for number, column in enumerate(columns) if number not in bad]
        return block_of(links, left) if left else None
    moved = {place[column[0]][1]: number for number, column in enumerate(order)}

    def renumbered(table: list[list[Result | None]]) -> tuple[tuple[Result | None, ...], ...]:
        return tuple(tuple(r and Result(moved[r.place], r.output) for r in row) for row in table)

    return Block(tuple(zip(*order, strict=True)), renumbered(inside), renumbered(handed))


def _sorted(links: Links, columns: Sequence[Column], place: dict[int, tuple[int, int]]) -> list[Column]:
    """The places by the longest path to them inside of the copy, which does not depend on the order of the graph."""
    depth: dict[int, int] = {}
    for column in sorted(columns, key=lambda column: column[0]):
        before = (producer for producer, _ in links.operands[column[0]] if place.get(producer, (NONE, 0))[0] == 0)
        depth[column[0]] = 1 + max((depth[producer] for producer in before), default=0)
    return sorted(columns, key=lambda column: (depth[column[0]], column[0]))


def grown(links: Links, taken: set[int], seeds: Sequence[int]) -> Block | None:
    """The block that grows from one node of each copy, ``None`` when there is none."""
    columns = Columns(links, taken, seeds).columns
    return block_of(links, columns) if columns else None
