"""Find the blocks that repeat in a graph: the blocks that leave the fewest nodes when they are written once."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from xoptim.blocks.alignment import Alignment
from xoptim.blocks.block import Block, grown
from xoptim.blocks.links import Links, classes
from xoptim.blocks.scopes import BlockNames
from xoptim.graph.graph import Graph

Form: TypeAlias = Literal["nodes", "function"]
"""How the copies of a block are written."""
LEAST_NODES: Final = 3
"""Number of nodes of the smallest block."""
_EFFORT: Final = 64
"""Times that each node is visited, on average, before the search ends."""
_ATTEMPTS: Final = 3
"""Times that a block is grown again from the same seeds when others have taken some of its nodes."""
_TRIALS: Final = 2
"""Times that a block is grown from some of the nodes in one place of another one: fewer copies may have more in common."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A block that repeats."""

    name: str  # the scope that its copies have in common, as the exporter named it, else its operators
    times: int  # number of copies
    nodes: int  # number of nodes in each
    form: Form = "nodes"  # how the copies are written: as their nodes, or as calls of a local function

    def __str__(self) -> str:
        how = ", one function" if self.form == "function" else ""
        return f"{self.times} times {self.name}, {self.nodes} nodes{how}"

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return asdict(self)


def repetitions(graph: Graph) -> list[Repetition]:
    """The blocks that repeat in a graph, those that save the most nodes first."""
    links = Links(graph)
    return [Repetition(BlockNames(links.copies(b.rows)).title, len(b.rows), b.size) for b in find_blocks(links)]


def find_blocks(links: Links) -> list[Block]:
    """The blocks of a graph that repeat, those that save the most nodes first. Their copies have no nodes in common.

    Blocks grow from nodes that look alike, in all copies at once. A block may contain smaller ones that repeat; of overlapping
    blocks, that which leaves the fewest nodes is taken. The result does not depend on the order of the nodes, up to the choice
    between blocks that are equally good. Growing visits each node a limited number of times; each block that is taken costs one
    more sweep over the graph.
    """
    search = _Search(links)
    search.grow()
    return search.choose()


class _Search:
    """The blocks found so far."""

    def __init__(self, links: Links) -> None:
        self.links = links
        # Blocks as a heap: minus the gain, a number, the number of attempts, the block, and the seeds
        self._found: list[tuple[int, int, int, Block, list[int]]] = []
        self._homes: dict[int, set[tuple[int, int]]] = {}  # for each node the numbers of its blocks, and its places in them
        self._times: dict[int, int] = {}  # for each block the number of its copies
        self._trials: Counter[int] = Counter()  # for each block how often others were grown from some of its copies
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
                fit = next((each for each in (aligned, block) if self.links.is_acyclic([*rows, *each.rows])), None)
                if fit is not None:
                    chosen.append(fit)
                    self._taken.update(node for row in fit.rows for node in row)
        return chosen

    def _is_covered(self, members: Sequence[int]) -> bool:
        """Whether these nodes are in one place of a block that was found, so that they would become the same block."""
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
        """The block from some seeds, or from those between the ends: the first and the last copy may differ from the others."""
        between = [seeds[1:-1]] if len(seeds) > 3 else [seeds[1:], seeds[:-1]] if len(seeds) == 3 else []
        found = [block for block in map(self._shaped, (seeds, *between)) if block is not None]
        return max(found, key=lambda block: block.gain, default=None)

    def _shaped(self, seeds: list[int]) -> Block | None:
        """The block that grows from some seeds, and from seeds of further copies that are found at the ends."""
        block = self._grown(seeds)
        if block is None or block.size < LEAST_NODES:
            return block
        more = Alignment(self.links, self._taken, block).extended()
        more = Alignment(self.links, self._taken, Alignment(self.links, self._taken, more).late()).extended()
        if len(more.rows) == len(block.rows):
            return block
        column = next(column for column in zip(*more.rows, strict=True) if not set(column).isdisjoint(seeds))
        return max((each for each in (block, more, self._grown(column)) if each is not None), key=lambda each: each.gain)

    def _grown(self, seeds: Sequence[int]) -> Block | None:
        block = grown(self.links, self._taken, seeds)
        self._left -= len(seeds) if block is None else len(block.rows) * block.size
        return block
