"""Groups of nodes of one level with equal settings, and the order of their lanes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from xoptim.facts.schema import is_commutative
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import reads
from xoptim.repeated.settings import settings

_NONE = (-1, 0)
"""The colour of a value that no stackable node computes."""


@dataclass(eq=False)
class Group:
    """Nodes that are computed together.

    Attributes:
        level: number of nodes on the longest path to each of them; equal for all, so that none depends on another.
        operands: for each node, in the order of the lanes, its operands; those of a commutative operator in the order in which
            they are alike.
        lane: for each result its place among those of its node, and its lane.
    """

    level: int
    operands: dict[Node, tuple[str, ...]] = field(default_factory=dict)
    lane: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes in the order of the lanes."""
        return self.operands

    def __len__(self) -> int:
        return len(self.operands)

    def arrange(self, order: Iterable[Node]) -> None:
        """Fix the order of the lanes: those given first, the others behind them as they are."""
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


def find_groups(graph: Graph, fewest: int = 2) -> list[Group]:
    """The groups of a graph, lower levels first: nodes of one level with equal settings, whose operands are alike too.

    The colour of a node is the number of its class: equal settings, level, and colours of the operands. One sweep in the order
    of the graph finds all colours, in time proportional to the number of operands.

    Args:
        graph: the graph.
        fewest: number of nodes that a group has at least.
    """
    colours: dict[str, tuple[int, int]] = {}
    levels: dict[str, int] = {}
    classes: dict[Hashable, int] = {}
    found: dict[int, Group] = {}
    for node in graph.nodes:
        level = 1 + max((levels.get(name, 0) for name in reads(node)), default=0)
        levels.update(dict.fromkeys(node.output, level))
        alike = settings(graph, node)
        if alike is None:
            continue
        operands = [(colours.get(name, _NONE), operand, name) for name, operand in zip(node.input, alike.operands, strict=True)]
        if is_commutative(node.op_type, node.domain):
            operands.sort(key=lambda operand: (operand[0], repr(operand[1])))  # (hashes differ between processes)
        key = (alike.own, level, *(operand[:2] for operand in operands))
        colour = classes.setdefault(key, len(classes))
        colours.update((name, (colour, place)) for place, name in enumerate(node.output))
        found.setdefault(colour, Group(level)).operands[node] = tuple(name for *_, name in operands)
    groups = [group for group in found.values() if len(group) >= fewest]
    return sorted(groups, key=lambda group: group.level)


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
