"""Where a block begins: copies at the ends that the search missed, and the cut between one copy and the next."""

from collections import deque
from collections.abc import Container, Sequence
from itertools import accumulate

from xoptim.blocks.block import Block, Result, Row, block_of
from xoptim.blocks.links import NONE, Links
from xoptim.blocks.scopes import Scope, common, scopes_of


class Alignment:
    """A block, and the nodes around its copies that are like parts of it; ``taken`` are nodes of other blocks."""

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
        """The block with the copies before the first one and after the last one, where these are complete."""
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
        """A copy of nodes that are in no other one, if all places are found; these nodes are in a copy from then on."""
        row = tuple(found[place] for place in sorted(found))
        if len(row) < self.block.size or len(set(row)) < len(row) or any(node in self._place for node in row):
            return ()
        self._place.update((node, place) for place, node in enumerate(row))
        return row

    def aligned(self) -> Block:
        """The block with the best cut between one copy and the next.

        There is a choice if the nodes after each copy, also after the last one, are like those at its beginning. The cut is
        where the scopes of the nodes suggest it: where the copies have the innermost scopes of their own. Without scopes it is
        where the fewest values are handed on; and late, since the nodes before the first copy are then left out of it.
        """
        following = [self._after(row) for row in self.block.rows]
        movable = self._movable(following)
        if not movable:
            return self.block
        widths = self._widths(movable)
        depths = self._depths(movable, following)
        count = max(range(len(movable) + 1), key=lambda count: (depths[count], -widths[count], count))
        return self._moved(movable[:count], following)

    def late(self) -> Block:
        """The block with the last possible cut."""
        following = [self._after(row) for row in self.block.rows]
        return self._moved(self._movable(following), following)

    def early(self) -> Block:
        """The block with the first possible cut: the nodes at its end, where there are such before each copy, begin it."""
        previous = [self._before(row, is_part=True) for row in self.block.rows]
        kept: set[int] = set()
        for place in reversed(range(self.block.size)):
            readers = (reader for _, reader, _ in self._readers.get(place, ()))
            if kept.issuperset(readers) and all(place in before for before in previous):
                kept.add(place)
        return self._moved(sorted(kept), previous)

    def _moved(self, places: Sequence[int], others: Sequence[dict[int, int]]) -> Block:
        """The block with the nodes of the next or previous copies in these places, in place of its own."""
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
        """Matching nodes of the previous copy, by place; nodes like a part of it too, if asked for."""
        found: dict[int, int] = {}
        for place, sources in enumerate(self.block.handed):
            for slot, source in enumerate(sources):
                if source is not None:
                    self._add_producer(found, row[place], source, slot)
        self._complete(found)
        return found if is_part else self._consistent(found, None)

    def _add_reader(self, found: dict[int, int], node: int, source: Result, place: int, slot: int) -> bool:
        fitting = [reader for reader in self.links.reading(node, source.output, slot) if self._fits(place, reader)]
        if len(fitting) == 1:
            found[place] = fitting[0]
        return len(fitting) == 1

    def _add_producer(self, found: dict[int, int], node: int, source: Result, slot: int) -> bool:
        producer, output = self.links.operands[node][slot]
        if source.place in found or output != source.output or not self._fits(source.place, producer):
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
        """The nodes that read what they should: results of the same copy, and of the copy before it if that is given."""
        kept: dict[int, int] = {}
        for place in sorted(found):
            node = found[place]
            for slot, (own, other) in enumerate(zip(self.block.inside[place], self.block.handed[place], strict=True)):
                operand = self.links.operands[node][slot]
                if own is not None and operand != (kept.get(own.place), own.output):
                    break
                if own is None and other is not None and before is not None and operand != (before[other.place], other.output):
                    break
            else:
                kept[place] = node
        return kept

    # ---------------------------------------------------------------- the cut

    def _movable(self, following: Sequence[dict[int, int]]) -> list[int]:
        """The places at the beginning of a copy for which a node follows each copy."""
        kept: set[int] = set()
        for place, sources in enumerate(self.block.inside):
            if all(place in after for after in following) and all(r is None or r.place in kept for r in sources):
                kept.add(place)
        return sorted(kept)

    def _widths(self, movable: Sequence[int]) -> list[int]:
        """The number of values that are handed on when the first 0, 1, 2, ... movable places end a copy."""
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
        """How deep the scopes of the copies are, in all, for each number of movable places that end a copy."""
        nodes, rows, moving = self.links.nodes, self.block.rows, set(movable)
        begins = [scopes_of(nodes[row[place]] for row in rows) for place in range(self.block.size)]
        ends = [scopes_of(nodes[after[place]] for after in following) for place in movable]
        totals = [0] * (len(movable) + 1)
        for copy in range(len(rows)):
            still = common(scopes[copy] for place, scopes in enumerate(begins) if place not in moving)
            late = list(accumulate([None, *(scopes[copy] for scopes in ends)], _both))
            early = list(accumulate([still, *(begins[place][copy] for place in reversed(movable))], _both))[::-1]
            for count, (end, begin) in enumerate(zip(late, early, strict=True)):
                totals[count] += len(_both(end, begin) or ())
        return totals


def _both(one: Scope | None, other: Scope | None) -> Scope | None:
    return common((one, other))
