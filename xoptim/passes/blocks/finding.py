"""Find the blocks that repeat in a graph: the blocks that leave the fewest nodes when they are
written once.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from xoptim.graph.graph import Graph
from xoptim.passes.blocks.block import NONE, Block, Links, Result, Row, block_of, classes, grown
from xoptim.passes.blocks.scopes import BlockNames, Scope, common, scopes_of

if TYPE_CHECKING:
    from xoptim.passes.json_types import RepetitionJson


class Alignment:
    """A block, and the nodes around its copies that are like parts of it.

    ``taken`` are nodes of other blocks.
    """

    def __init__(self, links: Links, taken: Container[int], block: Block) -> None:
        self.links = links
        self.taken = taken
        self.block = block
        self._place = {node: place for row in block.rows for place, node in enumerate(row)}
        self._readers: dict[int, list[tuple[Result, int, int]]] = {}
        for place, sources in enumerate(block.inside):
            for slot, source in enumerate(sources):
                if source is not None:
                    self._readers.setdefault(source.place, []).append((source, place, slot))

    def extended(self) -> Block:
        """The block with the copies before the first one and after the last one, where these are
        complete.
        """
        rows = deque(self.block.rows)
        while row := self._whole(self._before(rows[0])):
            rows.appendleft(row)
        while row := self._whole(self._after(rows[-1])):
            rows.append(row)
        if len(rows) == len(self.block.rows):
            return self.block
        block = block_of(self.links, list(zip(*rows, strict=True)))
        return block if block is not None and block.size == self.block.size else self.block

    def _whole(self, found: dict[int, int]) -> Row:
        """A copy of nodes that are in no other one, if all places are found.

        These nodes are in a copy from then on.
        """
        row = tuple(found[place] for place in sorted(found))
        if (
            len(row) < self.block.size
            or len(set(row)) < len(row)
            or any(node in self._place for node in row)
        ):
            return ()
        self._place.update((node, place) for place, node in enumerate(row))
        return row

    def aligned(self) -> Block:
        """The block with the best cut between one copy and the next.

        There is a choice if the nodes after each copy, also after the last one, are like those at
        its beginning. The cut is where the scopes of the nodes suggest it: where the copies have
        the innermost scopes of their own. Without scopes it is where the fewest values are handed
        on; and late, since the nodes before the first copy are then not part of it.
        """
        following = [self._after(row) for row in self.block.rows]
        movable = self._movable(following)
        if not movable:
            return self.block
        widths = self._widths(movable)
        depths = self._depths(movable, following)
        count = max(
            range(len(movable) + 1), key=lambda count: (depths[count], -widths[count], count)
        )
        return self._moved(movable[:count], following)

    def late(self) -> Block:
        """The block with the last possible cut."""
        following = [self._after(row) for row in self.block.rows]
        return self._moved(self._movable(following), following)

    def early(self) -> Block:
        """The block with the first possible cut: the nodes at its end, where there are such before
        each copy, begin it.
        """
        previous = [self._before(row, is_part=True) for row in self.block.rows]
        kept: set[int] = set()
        for place in reversed(range(self.block.size)):
            readers = (reader for _, reader, _ in self._readers.get(place, ()))
            if kept.issuperset(readers) and all(place in before for before in previous):
                kept.add(place)
        return self._moved(sorted(kept), previous)

    def _moved(self, places: Sequence[int], others: Sequence[dict[int, int]]) -> Block:
        """The block with the nodes of the next or previous copies in these places, in place of its
        own.
        """
        moving = set(places)
        rows = [
            tuple(other[place] if place in moving else node for place, node in enumerate(row))
            for row, other in zip(self.block.rows, others, strict=True)
        ]
        if not places or len({node for row in rows for node in row}) < len(rows) * self.block.size:
            return self.block
        moved = block_of(self.links, list(zip(*rows, strict=True)))
        return moved if moved is not None and moved.size == self.block.size else self.block

    # ---------------------------------------------------------------- copies in part

    def _fits(self, place: int, node: int) -> bool:
        """Whether a node may take a place in another copy."""
        if node == NONE or node in self.taken or self._place.get(node, place) != place:
            return False
        return self.links.settings[node] == self.links.settings[self.block.rows[0][place]]

    def _after(self, row: Row) -> dict[int, int]:
        """Matching nodes of the next copy, by place."""
        found: dict[int, int] = {}
        for place, sources in enumerate(self.block.handed):
            for slot, source in enumerate(sources):
                if source is not None and place not in found:
                    self._add_reader(found, row[source.place], source, place, slot)
        self._complete(found)
        return self._consistent(found, row)

    def _before(self, row: Row, *, is_part: bool = False) -> dict[int, int]:
        """Matching nodes of the previous copy, by place.

        Nodes like a part of it too, if asked for.
        """
        found: dict[int, int] = {}
        for place, sources in enumerate(self.block.handed):
            for slot, source in enumerate(sources):
                if source is not None:
                    self._add_producer(found, row[place], source, slot)
        self._complete(found)
        return found if is_part else self._consistent(found, None)

    def _add_reader(
        self, found: dict[int, int], node: int, source: Result, place: int, slot: int
    ) -> bool:
        fitting = [
            reader
            for reader in self.links.reading(node, source.output, slot)
            if self._fits(place, reader)
        ]
        if len(fitting) == 1:
            found[place] = fitting[0]
        return len(fitting) == 1

    def _add_producer(self, found: dict[int, int], node: int, source: Result, slot: int) -> bool:
        producer, output = self.links.operands[node][slot]
        if (
            source.place in found
            or output != source.output
            or not self._fits(source.place, producer)
        ):
            return False
        found[source.place] = producer
        return True

    def _complete(self, found: dict[int, int]) -> None:
        """Follow the links inside of a copy from the nodes that are found."""
        pending = list(found)
        while pending:
            place = pending.pop()
            node = found[place]
            for slot, source in enumerate(self.block.inside[place]):
                if source is not None and self._add_producer(found, node, source, slot):
                    pending.append(source.place)
            for source, reader, slot in self._readers.get(place, ()):
                if reader not in found and self._add_reader(found, node, source, reader, slot):
                    pending.append(reader)

    def _consistent(self, found: dict[int, int], before: Row | None) -> dict[int, int]:
        """The nodes that read what they should: results of the same copy, and of the copy before it
        if that is given.
        """
        kept: dict[int, int] = {}
        for place in sorted(found):
            node = found[place]
            for slot, (own, other) in enumerate(
                zip(self.block.inside[place], self.block.handed[place], strict=True)
            ):
                operand = self.links.operands[node][slot]
                if own is not None and operand != (kept.get(own.place), own.output):
                    break
                if (
                    own is None
                    and other is not None
                    and before is not None
                    and operand != (before[other.place], other.output)
                ):
                    break
            else:
                kept[place] = node
        return kept

    # ---------------------------------------------------------------- the cut

    def _movable(self, following: Sequence[dict[int, int]]) -> list[int]:
        """The places at the beginning of a copy for which a node follows each copy."""
        kept: set[int] = set()
        for place, sources in enumerate(self.block.inside):
            if all(place in after for after in following) and all(
                r is None or r.place in kept for r in sources
            ):
                kept.add(place)
        return sorted(kept)

    def _widths(self, movable: Sequence[int]) -> list[int]:
        """The number of values that are handed on when the first 0, 1, 2, ... movable places end a
        copy.
        """
        waiting: dict[tuple[bool, Result], int] = {}
        for own, table in ((False, self.block.handed), (True, self.block.inside)):
            for sources in table:
                for source in filter(None, sources):
                    waiting[own, source] = waiting.get((own, source), 0) + 1
        width = len({source for own, source in waiting if not own})
        widths = [width]
        for place in movable:
            for own, table in ((False, self.block.handed), (True, self.block.inside)):
                for source in filter(None, table[place]):
                    waiting[own, source] -= 1
                    width -= not waiting[own, source]
            width += len({source for source, _, _ in self._readers.get(place, ())})
            widths.append(width)
        return widths

    def _depths(self, movable: Sequence[int], following: Sequence[dict[int, int]]) -> list[int]:
        """How deep the scopes of the copies are, in all, for each number of movable places that end
        a copy.
        """
        nodes, rows, moving = self.links.nodes, self.block.rows, set(movable)
        begins = [scopes_of(nodes[row[place]] for row in rows) for place in range(self.block.size)]
        ends = [scopes_of(nodes[after[place]] for after in following) for place in movable]
        totals = [0] * (len(movable) + 1)
        for copy in range(len(rows)):
            still = common(
                scopes[copy] for place, scopes in enumerate(begins) if place not in moving
            )
            late = list(accumulate([None, *(scopes[copy] for scopes in ends)], _both))
            early = list(
                accumulate([still, *(begins[place][copy] for place in reversed(movable))], _both)
            )[::-1]
            for count, (end, begin) in enumerate(zip(late, early, strict=True)):
                totals[count] += len(_both(end, begin) or ())
        return totals


def _both(one: Scope | None, other: Scope | None) -> Scope | None:
    return common((one, other))


Form: TypeAlias = Literal["nodes", "function"]
"""How the copies of a block are written."""
LEAST_NODES: Final = 3
"""Number of nodes of the smallest block."""
_EFFORT: Final = 64
"""Times that each node is visited, on average, before the search ends."""
_ATTEMPTS: Final = 3
"""Times that a block is grown again from the same seeds when others have taken some of its
nodes.
"""
_TRIALS: Final = 2
"""Times that a block is grown from some of the nodes in one place of another one: fewer copies may
have more in common.
"""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A block that repeats."""

    # the scope that its copies have in common, as the exporter named it, else its operators
    name: str
    times: int  # number of copies
    nodes: int  # number of nodes in each
    # how the copies are written: as their nodes, or as calls of a local function
    form: Form = "nodes"

    def __str__(self) -> str:
        how = ", one function" if self.form == "function" else ""
        return f"{self.times} times {self.name}, {self.nodes} nodes{how}"

    def to_json(self) -> RepetitionJson:
        """All fields as JSON values."""
        return {"name": self.name, "times": self.times, "nodes": self.nodes, "form": self.form}


def repetitions(graph: Graph) -> list[Repetition]:
    """The blocks that repeat in a graph, those that save the most nodes first."""
    links = Links(graph)
    return [
        Repetition(BlockNames(links.copies(b.rows)).title, len(b.rows), b.size)
        for b in find_blocks(links)
    ]


def find_blocks(links: Links) -> list[Block]:
    """The blocks of a graph that repeat, those that save the most nodes first.

    Their copies have no nodes in common.

    Blocks grow from nodes that look alike, in all copies at once. A block may contain smaller ones
    that repeat; of overlapping blocks, that which leaves the fewest nodes is taken. The result does
    not depend on the order of the nodes, up to the choice between blocks that are equally good.
    Growing visits each node a limited number of times; each block that is taken costs one more
    sweep over the graph.
    """
    search = _BlockSearch(links)
    search.grow()
    return search.choose()


class _BlockSearch:
    """The blocks found so far."""

    def __init__(self, links: Links) -> None:
        self.links = links
        # Blocks as a heap: minus the gain, a number, the number of attempts, the block, and the
        # seeds
        self._found: list[tuple[int, int, int, Block, list[int]]] = []
        # for each node the numbers of its blocks, and its places in them
        self._homes: dict[int, set[tuple[int, int]]] = {}
        self._times: dict[int, int] = {}  # for each block the number of its copies
        # for each block how often others were grown from some of its copies
        self._trials: Counter[int] = Counter()
        self._taken: set[int] = set()
        self._number = 0
        self._left = _EFFORT * len(links)

    def grow(self) -> None:
        """Grow blocks from all classes of nodes that look alike."""
        for members in classes(self.links):
            if self._left < 0:
                break
            if not self._is_covered(members):
                self._grow(sorted(members, key=lambda node: (self.links.level[node], node)))

    def choose(self) -> list[Block]:
        """The best blocks that do not overlap, and whose copies can each run in one piece."""
        chosen: list[Block] = []
        while self._found:
            _, _, attempt, block, seeds = heapq.heappop(self._found)
            if any(node in self._taken for row in block.rows for node in row):
                free = [node for node in seeds if node not in self._taken]
                if attempt < _ATTEMPTS and len(free) > 1:
                    self._grow(free, attempt + 1)
            else:
                early = Alignment(self.links, self._taken, block).early()
                aligned = Alignment(self.links, self._taken, early).aligned()
                rows = [row for each in chosen for row in each.rows]
                fit = next(
                    (
                        each
                        for each in (aligned, block)
                        if self.links.is_acyclic([*rows, *each.rows])
                    ),
                    None,
                )
                if fit is not None:
                    chosen.append(fit)
                    self._taken.update(node for row in fit.rows for node in row)
        return chosen

    def _is_covered(self, members: Sequence[int]) -> bool:
        """Whether these nodes are in one place of a block that was found, so that they would become
        the same block.
        """
        homes = self._homes.get(members[0], set())
        for node in members:
            homes = homes & self._homes.get(node, set())
            if not homes:
                return False
        numbers = {number for number, _ in homes}
        if any(self._times[number] == len(members) for number in numbers):
            return True
        self._trials.update(numbers)
        return any(self._trials[number] > _TRIALS for number in numbers)

    def _grow(self, seeds: list[int], attempt: int = 1) -> None:
        block = self._best(seeds)
        if block is None or block.size < LEAST_NODES or block.gain <= 0:
            return
        self._number += 1
        self._times[self._number] = len(block.rows)
        heapq.heappush(self._found, (-block.gain, self._number, attempt, block, seeds))
        for row in block.rows:
            for place, node in enumerate(row):
                self._homes.setdefault(node, set()).add((self._number, place))

    def _best(self, seeds: list[int]) -> Block | None:
        """The block from some seeds, or from those between the ends: the first and the last copy
        may differ from the others.
        """
        between = (
            [seeds[1:-1]] if len(seeds) > 3 else [seeds[1:], seeds[:-1]] if len(seeds) == 3 else []
        )
        found = [block for block in map(self._shaped, (seeds, *between)) if block is not None]
        return max(found, key=lambda block: block.gain, default=None)

    def _shaped(self, seeds: list[int]) -> Block | None:
        """The block that grows from some seeds, and from seeds of further copies that are found at
        the ends.
        """
        block = self._grown(seeds)
        if block is None or block.size < LEAST_NODES:
            return block
        more = Alignment(self.links, self._taken, block).extended()
        more = Alignment(
            self.links, self._taken, Alignment(self.links, self._taken, more).late()
        ).extended()
        if len(more.rows) == len(block.rows):
            return block
        column = next(
            column for column in zip(*more.rows, strict=True) if not set(column).isdisjoint(seeds)
        )
        return max(
            (each for each in (block, more, self._grown(column)) if each is not None),
            key=lambda each: each.gain,
        )

    def _grown(self, seeds: Sequence[int]) -> Block | None:
        block = grown(self.links, self._taken, seeds)
        self._left -= len(seeds) if block is None else len(block.rows) * block.size
        return block
