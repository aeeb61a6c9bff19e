"""A block that repeats: the nodes in each place of each copy of it, and what each place reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xoptim.blocks.growth import Column, Growth
from xoptim.blocks.links import NONE, Links

Row = tuple[int, ...]
"""The nodes of one copy, by place."""


class Result(NamedTuple):
    """A result of a node of a block.

    Attributes:
        place: place of the node.
        output: place of the result among those of the node.
    """

    place: int
    output: int


@dataclass(frozen=True)
class Block:
    """A block that repeats.

    Attributes:
        rows: the copies; places are in an order in which the nodes can run.
        inside: for each place and operand the result of the same copy that it is, ``None`` for any other value.
        handed: for each place and operand the result of another copy that it is in some copies: the one before, as a rule.
    """

    rows: tuple[Row, ...]
    inside: tuple[tuple[Result | None, ...], ...]
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
    """The block with these places.

    A place whose operand is a result of its own copy, but not in all copies, cannot be part of it, nor can places that read its
    results.

    Returns:
        ``None`` when no place is left.
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
    columns = Growth(links, taken, seeds).columns
    return block_of(links, columns) if columns else None
