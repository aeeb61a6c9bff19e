"""Groups of nodes of one level with equal settings, and the order of their lanes."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from xoptim.facts.schema import is_commutative
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.repeated.settings import STACKABLE, Sums, settings

_NONE: Final = None
"""The class of values that no stackable node computes."""


@dataclass(eq=False)
class Group:
    """Nodes that are computed together."""

    level: int  # number of nodes on the longest path to each of them; equal for all, so that none depends on another
    # For each node, in the order of the lanes, its operands; if the operator is commutative, in the order in which they are
    # alike. The last Add of a sum has all terms of it
    operands: dict[Node, tuple[str, ...]] = field(default_factory=dict)
    # For each result its place among the results of its node, and its lane
    lane: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes in the order of the lanes."""
        return self.operands

    def __len__(self) -> int:
        return len(self.operands)

    def arrange(self, order: Iterable[Node]) -> None:
        """Fix the order of the lanes: the given ones first, then the others as they are."""
        self.operands = {node: self.operands[node] for node in dict.fromkeys((*order, *self.nodes))}
        self.lane = {name: (place, lane) for lane, node in enumerate(self.nodes) for place, name in enumerate(node.output)}

    @property
    def first(self) -> Node:
        """One of the nodes, for what they have in common."""
        return next(iter(self.operands))

    @property
    def columns(self) -> list[tuple[str, ...]]:
        """For each operand the names that the lanes read."""
        return list(zip(*self.operands.values(), strict=True))


def find_groups(sums: Sums, fewest: int = 2) -> list[Group]:
    """The groups of a graph, lower levels first: ``fewest`` nodes of one level or more with equal settings and operands alike.

    The colour of a node is the number of its class: equal settings, level, and colours of the operands. One sweep from the
    lowest level up finds all colours, in time proportional to the number of operands. Settings take much longer to find than
    levels: only nodes with a peer of their operator and level are compared.
    """
    graph, found = sums.graph, dict[Hashable, Group]()
    colours = _Colours(graph)
    for level, nodes in _side_by_side(sums, fewest):
        for node in nodes:
            terms = sums.terms(node)
            alike = settings(graph, node, terms)
            if alike is None:
                colours.learn(node, _NONE)
                continue
            operands = [(colours.of(name), operand, name) for name, operand in zip(terms, alike.operands, strict=True)]
            if is_commutative(node.op_type, node.domain):
                operands.sort(key=lambda operand: (operand[0], repr(operand[1])))  # (hashes differ between processes)
            key = (alike.own, level, *(operand[:2] for operand in operands))
            colours.learn(node, key)
            found.setdefault(key, Group(level)).operands[node] = tuple(name for *_, name in operands)
    return [group for group in found.values() if len(group) >= fewest]


def _side_by_side(sums: Sums, fewest: int) -> list[tuple[int, list[Node]]]:
    """Nodes of one operator and level, where there are several, with their level; lower levels first."""
    found: dict[tuple[int, str], list[Node]] = {}
    for node, level in sums.levels.items():
        if node.op_type in STACKABLE:
            found.setdefault((level, node.op_type), []).append(node)
    return sorted(((level, nodes) for (level, _), nodes in found.items() if len(nodes) >= fewest), key=itemgetter(0))


class _Colours:
    """The colours of results: the class of the node, and the place among its results.

    Results of one node without a peer are alike, whatever their places are: towers read the parts of one Split. So
    are parts of one value that a Slice each takes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._classes: dict[Hashable, int] = {_NONE: 0}
        self._parts: dict[int, int] = {}  # the colour of each Slice without a peer, as a part of its value
        self._found: dict[str, tuple[int, int]] = {}
        self._members: Counter[int] = Counter()

    def learn(self, node: Node, key: Hashable) -> None:
        """Give a node the class of a key."""
        colour = self._classes.setdefault(key, len(self._classes))
        self._members[colour] += 1
        self._found.update((name, (colour, place)) for place, name in enumerate(node.output))

    def of(self, name: str) -> tuple[int, int]:
        """The colour of a value, whose class is complete. A stackable node without a peer is a class of its own."""
        if name not in self._found:
            producer = self.graph.producer(name)
            if producer is None:
                return 0, 0
            self.learn(producer, _NONE if settings(self.graph, producer) is None else producer)
        colour, place = self._found[name]
        if not colour or self._members[colour] > 1:
            return colour, place if colour else 0
        return self._part(name, colour), 0

    def _part(self, name: str, colour: int) -> int:
        """The colour of a result that is alone in its class: all parts of a value have one colour if it is a Slice."""
        if colour not in self._parts:
            key = part_of(self.graph, name)
            self._parts[colour] = colour if key is None else self._classes.setdefault(key, len(self._classes))
        return self._parts[colour]


def part_of(graph: Graph, name: str) -> Hashable | None:
    """The value that a Slice takes a part of, and the type and shape of the part; ``None`` for results of other operators."""
    producer = graph.producer(name)
    if producer is None or producer.op_type != "Slice" or producer.domain:
        return None
    info = graph.info_of(name)
    return producer.input[0], info.dtype, info.shape


def by_result(groups: Iterable[Group]) -> dict[str, Group]:
    """The group of each result."""
    return {name: group for group in groups for node in group.nodes for name in node.output}


def arrange(groups: list[Group]) -> None:
    """Order the lanes of all groups from the last level up, so that the readers of a group find their operands side by side."""
    group_of = by_result(groups)
    wanted: dict[Group, list[Node]] = {}
    producers = {name: node for group in groups for node in group.nodes for name in node.output}
    for group in sorted(groups, key=lambda group: -group.level):
        group.arrange(wanted.get(group, ()))
        for column in group.columns:
            for name in column:
                if name in group_of:
                    wanted.setdefault(group_of[name], []).append(producers[name])
