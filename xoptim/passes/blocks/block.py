"""The numbered nodes of a graph and their links, and blocks that grow from one node of each copy.

The *place* of a node in a block is its index within a copy.
"""

from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

from onnx import GraphProto

from xoptim.facts.attributes import encode_attribute
from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import reads

NONE: Final = -1
"""The producer of an operand that no node computes; the settings of a node that cannot be in a
block.
"""
DISTANCES: Final = (0, 1, 2, 3, 5, 8)
"""Distances up to which nodes are compared.

A larger distance separates more places of a block, but also the first and last copies from the
other copies.
"""


def settings(graph: Graph, node: Node) -> Hashable | None:
    """Operator, attributes, types of the operands, and types and ranks of the results.

    A local function has no shapes, so layers of different widths have equal settings. ``None`` for
    a node that cannot be part of a block: its subgraphs may read values of the block by name, or
    something other than a node refers to one of its results.
    """
    if _has_subgraphs(node) or any(
        name in graph.pinned or name in graph.annotations for name in node.output
    ):
        return None
    operands = tuple(
        _kind(graph.info_of(name), is_ranked=False) if name else None for name in node.input
    )
    results = tuple(
        _kind(graph.info_of(name), is_ranked=True) if name else None for name in node.output
    )
    return node.op_type, node.domain, node.overload, operands, results, _attributes(graph, node)


def _has_subgraphs(node: Node) -> bool:
    lists = (value for value in node.attribute.values() if isinstance(value, list))
    return bool(node.bodies) or any(
        isinstance(value, GraphProto) for values in lists for value in values[:1]
    )


def _attributes(graph: Graph, node: Node) -> Hashable:
    if node.op_type == "Constant" and not node.domain:
        tensor = graph.tensor(node.output[0])
        if tensor is not None:
            return tuple(node.attribute), tensor.key()  # a digest: constants may be large
    encoded = (
        encode_attribute(name, value).SerializeToString(deterministic=True)
        for name, value in node.attribute.items()
    )
    return tuple(sorted(encoded))


def _kind(info: Info, *, is_ranked: bool) -> Hashable:
    """Type of a value, and its rank if ``is_ranked``."""
    rank = len(info.shape) if is_ranked and info.shape is not None else None
    element = None if info.element is None else _kind(info.element, is_ranked=is_ranked)
    return info.dtype, info.container, rank, element, info.type_proto


class Reader(NamedTuple):
    """A node that reads a result."""

    output: int  # index of the result among the results of its node
    node: int  # the reader
    slot: int  # index of the result among the operands of the reader


class Links:
    """The nodes of a graph, numbered in its order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = list(graph.nodes)
        kinds: dict[Hashable, int] = {}
        producers: dict[str, tuple[int, int]] = {}
        # for each node the number of its settings, `NONE` if it cannot be in a block
        self.settings: list[int] = []
        # for each operand of each node, its producer and its index among the producer's results
        self.operands: list[list[tuple[int, int]]] = []
        # for each node the readers of its results in the same graph
        self.readers: list[list[Reader]] = [[] for _ in self.nodes]
        # for each node all nodes whose results it or its subgraphs read
        self.needs: list[list[int]] = []
        self.level: list[int] = []  # for each node the number of nodes on the longest path to it
        for index, node in enumerate(self.nodes):
            key = settings(graph, node)
            self.settings.append(NONE if key is None else kinds.setdefault(key, len(kinds)))
            self.operands.append([producers.get(name, (NONE, 0)) for name in node.input])
            for slot, (producer, output) in enumerate(self.operands[-1]):
                if producer != NONE:
                    self.readers[producer].append(Reader(output, index, slot))
            needs = [
                producers[name][0]
                for name in (reads(node) if node.bodies else node.input)
                if name in producers
            ]
            self.needs.append(needs)
            self.level.append(1 + max((self.level[producer] for producer in needs), default=0))
            producers.update(
                (name, (index, output)) for output, name in enumerate(node.output) if name
            )

    def __len__(self) -> int:
        return len(self.nodes)

    def copies(self, rows: Iterable[Sequence[int]]) -> list[list[Node]]:
        """The nodes of each copy of a block."""
        return [[self.nodes[index] for index in row] for row in rows]

    def reading(self, node: int, output: int, slot: int) -> list[int]:
        """The nodes that read a result as the operand of index ``slot``."""
        return [
            reader.node
            for reader in self.readers[node]
            if reader.output == output and reader.slot == slot
        ]

    def is_acyclic(self, groups: Iterable[Sequence[int]]) -> bool:
        """Whether the graph stays acyclic when each of these disjoint groups becomes one node."""
        leader = list(range(len(self)))
        for group in groups:
            for node in group:
                leader[node] = group[0]
        sorter = TopologicalSorter[int]()
        for node, needs in enumerate(self.needs):
            sorter.add(
                leader[node],
                *(leader[producer] for producer in needs if leader[producer] != leader[node]),
            )
        try:
            sorter.prepare()
        except CycleError:
            return False
        return True


def classes(links: Links) -> Iterator[list[int]]:
    """Sets of nodes that look alike up to each of `DISTANCES`, the smallest distance first.

    The colour of a node is refined by the colours of its producers and readers, as in the
    Weisfeiler-Leman test of graph isomorphism. Colours do not depend on the order of the nodes.
    """
    colours = list(links.settings)
    for distance in range(DISTANCES[-1] + 1):
        if distance:
            colours = _refined(links, colours)
        if distance in DISTANCES:
            groups: dict[int, list[int]] = {}
            for node, colour in enumerate(colours):
                if colour != NONE:
                    groups.setdefault(colour, []).append(node)
            yield from (members for members in groups.values() if len(members) > 1)


def _refined(links: Links, colours: list[int]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    new_colours = []
    for node, colour in enumerate(colours):
        if colour == NONE:
            new_colours.append(NONE)
            continue
        operands = tuple(
            (colours[producer] if producer != NONE else NONE, output)
            for producer, output in links.operands[node]
        )
        readers = tuple(
            sorted((output, slot, colours[reader]) for output, reader, slot in links.readers[node])
        )
        new_colours.append(numbers.setdefault((colour, operands, readers), len(numbers)))
    return new_colours


Column = tuple[int, ...]
"""The nodes at one place of a block, one of each copy."""
Row = tuple[int, ...]
"""The nodes of one copy, by place."""


class Columns:
    """A block that grows from seeds, one node of each copy; ``used`` are nodes of other blocks.

    Operands are explored before readers: operands have an order, and mostly decide which readers
    correspond to each other. So the copies begin as early as they can.
    """

    def __init__(self, links: Links, used: Container[int], seeds: Sequence[int]) -> None:
        self.links = links
        self.used = used
        self.columns: list[Column] = []  # empty when the seeds have different settings
        self.place: dict[int, tuple[int, int]] = {}  # for each node its copy and its place
        self._unexplored: list[int] = []
        self._add(tuple(seeds))
        self._explore_operands()
        for column in self.columns:  # grows meanwhile
            self._explore_readers(column)

    def _add(self, column: Column) -> None:
        """Add a place, if its nodes have equal settings and are in no block."""
        kinds = {self.links.settings[node] for node in column}
        if len(kinds) > 1 or NONE in kinds or len(set(column)) < len(column):
            return
        if any(node in self.place or node in self.used for node in column):
            return
        place = len(self.columns)
        self.columns.append(column)
        self.place.update((node, (copy, place)) for copy, node in enumerate(column))
        self._unexplored.append(place)

    def _explore_operands(self) -> None:
        operands = self.links.operands
        while self._unexplored:
            for pairs in zip(
                *(operands[node] for node in self.columns[self._unexplored.pop()]), strict=True
            ):
                producers, outputs = zip(*pairs, strict=True)
                if NONE not in producers and len(set(outputs)) == 1:
                    self._add(producers)

    def _explore_readers(self, column: Column) -> None:
        """Add the readers of one place that differ from all other readers of the same result."""
        first, *later = map(self._readers, column)
        for role, nodes in first.items():
            candidates: list[Sequence[int]] = [nodes, *(readers.get(role, ()) for readers in later)]
            if all(len(group) == 1 for group in candidates):
                self._add(tuple(group[0] for group in candidates))
                self._explore_operands()

    def _readers(self, node: int) -> dict[tuple[object, ...], list[int]]:
        """The readers of a node that are in no block, by their settings and by the results that
        they read at each operand.
        """
        slots: dict[int, list[tuple[int, int]]] = {}
        for output, reader, slot in self.links.readers[node]:
            if reader not in self.place and reader not in self.used:
                slots.setdefault(reader, []).append((output, slot))
        groups: dict[tuple[object, ...], list[int]] = {}
        for reader, pairs in slots.items():
            groups.setdefault((self.links.settings[reader], *pairs), []).append(reader)
        return groups


class Result(NamedTuple):
    """A result of a node of a block."""

    place: int  # place of the node
    output: int  # index of the result among the results of the node


@dataclass(frozen=True)
class Block:
    """A block that repeats."""

    rows: tuple[Row, ...]  # the copies; places are in topological order
    # for each operand of each place, the result of the same copy that is read there, else ``None``
    inside: tuple[tuple[Result | None, ...], ...]
    # for each operand of each place, the result of another copy, mostly the previous one, that some
    # copies read there, else ``None``
    handed: tuple[tuple[Result | None, ...], ...]

    @property
    def size(self) -> int:
        """Number of nodes of a copy."""
        return len(self.rows[0])

    @property
    def gain(self) -> int:
        """Number of nodes saved when the block is written once, as a function that is called."""
        times = len(self.rows)
        return times * self.size - times - self.size


def block_of(links: Links, columns: Sequence[Column]) -> Block | None:
    """The block with these places, ``None`` when no place remains.

    A place is skipped if one of its operands comes from the same copy in some copies only, or from
    a skipped place.
    """
    place = {
        node: (copy, number)
        for number, column in enumerate(columns)
        for copy, node in enumerate(column)
    }
    inside: list[list[Result | None]] = []
    handed: list[list[Result | None]] = []
    bad: set[int] = set()
    order = _sorted(links, columns, place)
    for column in order:
        number = place[column[0]][1]
        inside.append([])
        handed.append([])
        for pairs in zip(*(links.operands[node] for node in column), strict=True):
            homes = [(*place.get(producer, (NONE, NONE)), output) for producer, output in pairs]
            own_results = {
                Result(*home[1:]) if home[0] == copy else None for copy, home in enumerate(homes)
            }
            other_results = {
                Result(*home[1:]) for copy, home in enumerate(homes) if home[0] not in (copy, NONE)
            }
            source, *more_sources = own_results
            inside[-1].append(source)
            handed[-1].append(
                other_results.pop() if source is None and len(other_results) == 1 else None
            )
            if more_sources or (source is not None and source.place in bad):
                bad.add(number)
    if bad:
        good = [column for number, column in enumerate(columns) if number not in bad]
        return block_of(links, good) if good else None
    new_place = {place[column[0]][1]: number for number, column in enumerate(order)}

    def renumbered(table: list[list[Result | None]]) -> tuple[tuple[Result | None, ...], ...]:
        return tuple(
            tuple(r and Result(new_place[r.place], r.output) for r in row) for row in table
        )

    return Block(tuple(zip(*order, strict=True)), renumbered(inside), renumbered(handed))


def _sorted(
    links: Links, columns: Sequence[Column], place: dict[int, tuple[int, int]]
) -> list[Column]:
    """The columns by the longest path to them within a copy: the graph may have another order."""
    depth: dict[int, int] = {}
    for column in sorted(columns, key=lambda column: column[0]):
        producers = (
            producer
            for producer, _ in links.operands[column[0]]
            if place.get(producer, (NONE, 0))[0] == 0
        )
        depth[column[0]] = 1 + max((depth[producer] for producer in producers), default=0)
    return sorted(columns, key=lambda column: (depth[column[0]], column[0]))


def grown(links: Links, used: set[int], seeds: Sequence[int]) -> Block | None:
    """The block that grows from one node of each copy, ``None`` when there is none."""
    columns = Columns(links, used, seeds).columns
    return block_of(links, columns) if columns else None
