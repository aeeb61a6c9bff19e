"""The nodes of a graph as numbers, with the links between them, and classes of nodes that look alike."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

from onnx import GraphProto

from xoptim.facts.attributes import encode_attribute
from xoptim.facts.info import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import reads

NONE: Final = -1
"""No node: the producer of an operand that is given, stored or left out; the settings of a node that is never in a block."""
DISTANCES: Final = (0, 1, 2, 3, 5, 8)
"""At a larger distance fewer places of a block look alike, but more blocks differ, those near the ends of the row."""


def settings(graph: Graph, node: Node) -> Hashable | None:
    """Operator, attributes, and which operands and results are present, with their types; for results the number of axes too.

    A local function has no shapes, so that layers of other widths, or weights that are stored as rows, are equal. ``None``
    for a node that cannot be part of a block: one with subgraphs, which may read values of the block by name, and one with a
    result that is referred to outside of the nodes.
    """
    if _has_subgraphs(node) or any(name in graph.pinned or name in graph.annotations for name in node.output):
        return None
    operands = tuple(_kind(graph.info_of(name), is_ranked=False) if name else None for name in node.input)
    results = tuple(_kind(graph.info_of(name), is_ranked=True) if name else None for name in node.output)
    return node.op_type, node.domain, node.overload, operands, results, _attributes(graph, node)


def _has_subgraphs(node: Node) -> bool:
    lists = (value for value in node.attribute.values() if isinstance(value, list))
    return bool(node.bodies) or any(isinstance(value, GraphProto) for values in lists for value in values[:1])


def _attributes(graph: Graph, node: Node) -> Hashable:
    if node.op_type == "Constant" and not node.domain:
        tensor = graph.tensor(node.output[0])
        if tensor is not None:
            return tuple(node.attribute), tensor.key()  # a digest: constants may be large
    encoded = (encode_attribute(name, value).SerializeToString(deterministic=True) for name, value in node.attribute.items())
    return tuple(sorted(encoded))


def _kind(info: Info, *, is_ranked: bool) -> Hashable:
    """Type of a value, and the number of its axes if that counts."""
    rank = len(info.shape) if is_ranked and info.shape is not None else None
    element = None if info.element is None else _kind(info.element, is_ranked=is_ranked)
    return info.dtype, info.container, rank, element, info.type_proto


class Reader(NamedTuple):
    """A node that reads a result."""

    output: int  # place of the result among the results of its node
    node: int  # the reader
    slot: int  # place of the result among the operands of the reader


class Links:
    """The nodes of a graph, numbered in its order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = list(graph.nodes)
        kinds: dict[Hashable, int] = {}
        made: dict[str, tuple[int, int]] = {}
        self.settings: list[int] = []  # for each node the number of its settings, `NONE` if it cannot be in a block
        # For each node and each of its operands the producer, and the place among the results of that
        self.operands: list[list[tuple[int, int]]] = []
        # For each node the readers of its results in the same graph
        self.readers: list[list[Reader]] = [[] for _ in self.nodes]
        self.needs: list[list[int]] = []  # for each node all nodes whose results it needs, in its subgraphs too
        self.level: list[int] = []  # for each node the number of nodes on the longest path to it
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
        sorter = TopologicalSorter[int]()
        for node, needs in enumerate(self.needs):
            sorter.add(merged[node], *(merged[producer] for producer in needs if merged[producer] != merged[node]))
        try:
            sorter.prepare()
        except CycleError:
            return False
        return True


def classes(links: Links) -> Iterator[list[int]]:
    """Sets of nodes that look alike up to each of `DISTANCES`, in the order of the graph, the smallest distance first.

    The colours of producers and readers refine them, as in the test of graph isomorphism of Weisfeiler and Leman; they do
    not depend on the order of the nodes.
    """
    colours = list(links.settings)
    for distance in range(DISTANCES[-1] + 1):
        if distance:
            colours = _refined(links, colours)
        if distance in DISTANCES:
            alike: dict[int, list[int]] = {}
            for node, colour in enumerate(colours):
                if colour != NONE:
                    alike.setdefault(colour, []).append(node)
            yield from (members for members in alike.values() if len(members) > 1)


def _refined(links: Links, colours: list[int]) -> list[int]:
    found: dict[Hashable, int] = {}
    refined = []
    for node, colour in enumerate(colours):
        if colour == NONE:
            refined.append(NONE)
            continue
        operands = tuple((colours[producer] if producer != NONE else NONE, output) for producer, output in links.operands[node])
        readers = tuple(sorted((output, slot, colours[reader]) for output, reader, slot in links.readers[node]))
        refined.append(found.setdefault((colour, operands, readers), len(found)))
    return refined
