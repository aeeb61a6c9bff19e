"""Find the blocks that repeat in a graph, preferring those that save the most nodes."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, TypeAlias

from xoptim.facts.json_results import JsonResult
from xoptim.graph.graph import Graph
from xoptim.passes.blocks.block import NONE, Block, Links, Result, Row, block_of, classes, grown
from xoptim.passes.blocks.scopes import BlockNames, Scope, common, scopes_of


class Alignment:
    """A block, and the nodes around its copies that match parts of it.

    ``used`` are nodes of other blocks.
    """

    def __init__(self, links: Links, used: Container[int], block: Block) -> None:
        self.links = links
        self.used = used
        self.block = block
        self._place = {node: place for row in block.rows for place, node in enumerate(row)}
        self._readers: dict[int, list[tuple[Result, int, int]]] = {}
        for place, sources in enumerate(block.inside):
            for slot, source in enumerate(sources):
                if source is not None:
                    self._readers.setdefault(source.place, []).append((source, place, slot))

    def extended(self) -> Block:
        """The block with further complete copies before the first one and after the last one."""
        rows = deque(self.block.rows)
        while row := self._new_row(self._before(rows[0])):
            rows.appendleft(row)
        while row := self._new_row(self._after(rows[-1])):
            rows.append(row)
        if len(rows) == len(self.block.rows):
            return self.block
        block = block_of(self.links, list(zip(*rows, strict=True)))
        return block if block is not None and block.size == self.block.size else self.block

    def _new_row(self, nodes: dict[int, int]) -> Row:
        """Register a further copy with these nodes, by place, and return its row.

        The row is empty unless the copy is complete, and disjoint from all other copies.
        """
        row = tuple(nodes[place] for place in sorted(nodes))
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

        The cut can move if the nodes after each copy, the last copy included, match the nodes at
        its beginning. The best cut is where the copies have the innermost scopes of their own.
        Among equal cuts, it is the one at which the fewest values pass to the next copy, and then
        the latest one.
        """
        next_nodes = [self._after(row) for row in self.block.rows]
        movable = self._movable(next_nodes)
        if not movable:
            return self.block
        widths = self._widths(movable)
        depths = self._depths(movable, next_nodes)
        count = max(
            range(len(movable) + 1), key=lambda count: (depths[count], -widths[count], count)
        )
        return self._moved(movable[:count], next_nodes)

    def late(self) -> Block:
        """The block with the last possible cut."""
        next_nodes = [self._after(row) for row in self.block.rows]
        return self._moved(self._movable(next_nodes), next_nodes)

    def early(self) -> Block:
        """The block with the first possible cut: its last nodes become its first ones, as far as
        matching nodes precede each copy.
        """
        previous = [self._before(row, keeps_inconsistent=True) for row in self.block.rows]
        places: set[int] = set()
        for place in reversed(range(self.block.size)):
            readers = (reader for _, reader, _ in self._readers.get(place, ()))
            if places.issuperset(readers) and all(place in nodes for nodes in previous):
                places.add(place)
        return self._moved(sorted(places), previous)

    def _moved(self, places: Sequence[int], adjacent: Sequence[dict[int, int]]) -> Block:
        """The block whose copies have nodes of the next or the previous copy at these places."""
        moving = set(places)
        rows = [
            tuple(nodes[place] if place in moving else node for place, node in enumerate(row))
            for row, nodes in zip(self.block.rows, adjacent, strict=True)
        ]
        if not places or len({node for row in rows for node in row}) < len(rows) * self.block.size:
            return self.block
        block = block_of(self.links, list(zip(*rows, strict=True)))
        return block if block is not None and block.size == self.block.size else self.block

    # ---------------------------------------------------------------- partial copies

    def _fits(self, place: int, node: int) -> bool:
        """Whether a node may take a place in another copy."""
        if node == NONE or node in self.used or self._place.get(node, place) != place:
            return False
        return self.links.settings[node] == self.links.settings[self.block.rows[0][place]]

    def _after(self, row: Row) -> dict[int, int]:
        """Matching nodes of the next copy, by place."""
        nodes: dict[int, int] = {}
        for place, sources in enumerate(self.block.handed):
            for slot, source in enumerate(sources):
                if source is not None and place not in nodes:
                    self._add_reader(nodes, row[source.place], source, place, slot)
        self._complete(nodes)
        return self._consistent(nodes, row)

    def _before(self, row: Row, *, keeps_inconsistent: bool = False) -> dict[int, int]:
        """Matching nodes of the previous copy, by place."""
        nodes: dict[int, int] = {}
        for place, sources in enumerate(self.block.handed):
            for slot, source in enumerate(sources):
                if source is not None:
                    self._add_producer(nodes, row[place], source, slot)
        self._complete(nodes)
        return nodes if keeps_inconsistent else self._consistent(nodes, None)

    def _add_reader(
        self, nodes: dict[int, int], node: int, source: Result, place: int, slot: int
    ) -> bool:
        readers = [
            reader
            for reader in self.links.reading(node, source.output, slot)
            if self._fits(place, reader)
        ]
        if len(readers) == 1:
            nodes[place] = readers[0]
        return len(readers) == 1

    def _add_producer(self, nodes: dict[int, int], node: int, source: Result, slot: int) -> bool:
        producer, output = self.links.operands[node][slot]
        if (
            source.place in nodes
            or output != source.output
            or not self._fits(source.place, producer)
        ):
            return False
        nodes[source.place] = producer
        return True

    def _complete(self, nodes: dict[int, int]) -> None:
        """Add the nodes of a copy that are linked to nodes in ``nodes``."""
        pending = list(nodes)
        while pending:
            place = pending.pop()
            node = nodes[place]
            for slot, source in enumerate(self.block.inside[place]):
                if source is not None and self._add_producer(nodes, node, source, slot):
                    pending.append(source.place)
            for source, reader, slot in self._readers.get(place, ()):
                if reader not in nodes and self._add_reader(nodes, node, source, reader, slot):
                    pending.append(reader)

    def _consistent(self, nodes: dict[int, int], previous: Row | None) -> dict[int, int]:
        """The nodes that read the right results of the same copy, and of the ``previous`` copy if
        there is one.
        """
        result: dict[int, int] = {}
        for place in sorted(nodes):
            node = nodes[place]
            for slot, (inner, outer) in enumerate(
                zip(self.block.inside[place], self.block.handed[place], strict=True)
            ):
                operand = self.links.operands[node][slot]
                if inner is not None and operand != (result.get(inner.place), inner.output):
                    break
                if (
                    inner is None
                    and outer is not None
                    and previous is not None
                    and operand != (previous[outer.place], outer.output)
                ):
                    break
            else:
                result[place] = node
        return result

    # ---------------------------------------------------------------- the cut

    def _movable(self, next_nodes: Sequence[dict[int, int]]) -> list[int]:
        """The places at the beginning of a copy that have a matching node after each copy."""
        places: set[int] = set()
        for place, sources in enumerate(self.block.inside):
            if all(place in nodes for nodes in next_nodes) and all(
                r is None or r.place in places for r in sources
            ):
                places.add(place)
        return sorted(places)

    def _widths(self, movable: Sequence[int]) -> list[int]:
        """The number of values that pass to the next copy when the first 0, 1, 2, ... movable
        places end a copy.
        """
        uses: dict[tuple[bool, Result], int] = {}
        for is_inner, table in ((False, self.block.handed), (True, self.block.inside)):
            for sources in table:
                for source in filter(None, sources):
                    uses[is_inner, source] = uses.get((is_inner, source), 0) + 1
        width = len({source for is_inner, source in uses if not is_inner})
        widths = [width]
        for place in movable:
            for is_inner, table in ((False, self.block.handed), (True, self.block.inside)):
                for source in filter(None, table[place]):
                    uses[is_inner, source] -= 1
                    width -= not uses[is_inner, source]
            width += len({source for source, _, _ in self._readers.get(place, ())})
            widths.append(width)
        return widths

    def _depths(self, movable: Sequence[int], next_nodes: Sequence[dict[int, int]]) -> list[int]:
        """The total depth of the scopes of the copies, for each number of movable places that end
        a copy.
        """
        nodes, rows, moving = self.links.nodes, self.block.rows, set(movable)
        begins = [scopes_of(nodes[row[place]] for row in rows) for place in range(self.block.size)]
        ends = [scopes_of(nodes[after[place]] for after in next_nodes) for place in movable]
        totals = [0] * (len(movable) + 1)
        for copy in range(len(rows)):
            scope = common(
                scopes[copy] for place, scopes in enumerate(begins) if place not in moving
            )
            late = list(accumulate([None, *(scopes[copy] for scopes in ends)], _both))
            early = list(
                accumulate([scope, *(begins[place][copy] for place in reversed(movable))], _both)
            )[::-1]
            for count, (end, begin) in enumerate(zip(late, early, strict=True)):
                totals[count] += len(_both(end, begin) or ())
        return totals


def _both(first: Scope | None, second: Scope | None) -> Scope | None:
    return common((first, second))


Form: TypeAlias = Literal["nodes", "function"]
"""The form in which the copies of a block are written."""
LEAST_NODES: Final = 3
"""Number of nodes of the smallest block."""
_MAX_VISITS: Final = 64
"""Average number of visits of a node after which the search ends."""
_MAX_ATTEMPTS: Final = 3
"""Maximal number of times that a block is grown from the same seeds: again when other blocks took
some of its nodes.
"""
_MAX_TRIALS: Final = 2
"""Maximal number of times that a block is grown from some of the nodes at one place of another
block: fewer copies may have more in common.
"""


@dataclass(frozen=True, slots=True)
class Repetition(JsonResult):
    """A block that repeats.

    Attributes:
        name: the scope that its copies share, or its operators.
        times: number of copies.
        nodes: number of nodes of each copy.
        form: whether copies are written as nodes, or as calls of a local function.
    """

    name: str
    times: int
    nodes: int
    form: Form = "nodes"

    def __str__(self) -> str:
        suffix = ", one function" if self.form == "function" else ""
        return f"{self.times} times {self.name}, {self.nodes} nodes{suffix}"


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
    that repeat; of overlapping blocks, the one that saves the most nodes is chosen. The result does
    not depend on the order of the nodes, except for the choice between equally good blocks. Growing
    visits each node a limited number of times; each chosen block costs one more sweep over the
    graph.
    """
    search = _BlockSearch(links)
    search.grow()
    return search.choose()


class _BlockSearch:
    """The blocks found so far."""

    def __init__(self, links: Links) -> None:
        self.links = links
        # negative gain, number of the block, number of attempts, block, seeds
        self._heap: list[tuple[int, int, int, Block, list[int]]] = []
        # for each node the numbers of its blocks, and its places in them
        self._homes: dict[int, set[tuple[int, int]]] = {}
        self._times: dict[int, int] = {}  # for each block the number of its copies
        # for each block how often other blocks were grown from some of its copies
        self._trials: Counter[int] = Counter()
        self._used: set[int] = set()  # nodes of chosen blocks
        self._number = 0
        self._visits_left = _MAX_VISITS * len(links)

    def grow(self) -> None:
        """Grow blocks from all classes of nodes that look alike."""
        for members in classes(self.links):
            if self._visits_left < 0:
                break
            if not self._is_covered(members):
                self._grow(sorted(members, key=lambda node: (self.links.level[node], node)))

    def choose(self) -> list[Block]:
        """The best disjoint blocks; the graph has no cycle when each copy becomes one node."""
        blocks: list[Block] = []
        while self._heap:
            _, _, attempt, block, seeds = heapq.heappop(self._heap)
            if any(node in self._used for row in block.rows for node in row):
                free = [node for node in seeds if node not in self._used]
                if attempt < _MAX_ATTEMPTS and len(free) > 1:
                    self._grow(free, attempt + 1)
            else:
                early = Alignment(self.links, self._used, block).early()
                aligned = Alignment(self.links, self._used, early).aligned()
                rows = [row for b in blocks for row in b.rows]
                choice = next(
                    (b for b in (aligned, block) if self.links.is_acyclic([*rows, *b.rows])),
                    None,
                )
                if choice is not None:
                    blocks.append(choice)
                    self._used.update(node for row in choice.rows for node in row)
        return blocks

    def _is_covered(self, members: Sequence[int]) -> bool:
        """Whether these nodes are at one place of a block, from which the same block would grow."""
        homes = self._homes.get(members[0], set())
        for node in members:
            homes = homes & self._homes.get(node, set())
            if not homes:
                return False
        numbers = {number for number, _ in homes}
        if any(self._times[number] == len(members) for number in numbers):
            return True
        self._trials.update(numbers)
        return any(self._trials[number] > _MAX_TRIALS for number in numbers)

    def _grow(self, seeds: list[int], attempt: int = 1) -> None:
        block = self._best(seeds)
        if block is None or block.size < LEAST_NODES or block.gain <= 0:
            return
        self._number += 1
        self._times[self._number] = len(block.rows)
        heapq.heappush(self._heap, (-block.gain, self._number, attempt, block, seeds))
        for row in block.rows:
            for place, node in enumerate(row):
                self._homes.setdefault(node, set()).add((self._number, place))

    def _best(self, seeds: list[int]) -> Block | None:
        """The best block from all seeds, or without the seeds of the first and the last copy, which
        may differ from the other copies.
        """
        inner = (
            [seeds[1:-1]] if len(seeds) > 3 else [seeds[1:], seeds[:-1]] if len(seeds) == 3 else []
        )
        blocks = [block for block in map(self._extended, (seeds, *inner)) if block is not None]
        return max(blocks, key=lambda block: block.gain, default=None)

    def _extended(self, seeds: list[int]) -> Block | None:
        """The block that grows from some seeds, or from seeds of further copies at both ends."""
        block = self._from_seeds(seeds)
        if block is None or block.size < LEAST_NODES:
            return block
        longer = Alignment(self.links, self._used, block).extended()
        longer = Alignment(
            self.links, self._used, Alignment(self.links, self._used, longer).late()
        ).extended()
        if len(longer.rows) == len(block.rows):
            return block
        column = next(
            column for column in zip(*longer.rows, strict=True) if not set(column).isdisjoint(seeds)
        )
        return max(
            (b for b in (block, longer, self._from_seeds(column)) if b is not None),
            key=lambda b: b.gain,
        )

    def _from_seeds(self, seeds: Sequence[int]) -> Block | None:
        block = grown(self.links, self._used, seeds)
        self._visits_left -= len(seeds) if block is None else len(block.rows) * block.size
        return block
