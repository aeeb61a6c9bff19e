"""The changes between two models of which only the results are known: regions between values that both have."""

from __future__ import annotations

from collections.abc import Iterator

from xoptim.graph.node import Node
from xoptim.reporting.drawing import Drawing
from xoptim.reporting.journal import Step


def twins_of(before: Drawing, after: Drawing) -> dict[int, int]:
    """The nodes that are in both models: the same operator, attributes and constants, and results of one name."""
    keys = {_key(after, number): number for number in range(len(after.nodes))}
    found = {number: keys.get(_key(before, number), -1) for number in range(len(before.nodes))}
    return {number: twin for number, twin in found.items() if twin >= 0}


def _key(drawing: Drawing, number: int) -> tuple[object, ...]:
    """A key that is equal for twins; an operand that became a constant makes a node another one."""
    node = drawing.nodes[number]
    names = tuple(drawing.values[value][0] for value in node.outputs)
    constants = tuple(kind if _is_constant(kind) else "" for _, kind in (drawing.values[value] for value in node.inputs))
    return node.op_type, node.attributes, constants, names


def _is_constant(kind: str) -> bool:
    return kind.endswith(" constant") or " = " in kind


def steps_between(before: Drawing, after: Drawing, twins: dict[int, int]) -> list[Step]:
    """A step for each region that changed, in the order of the result; the metadata of its nodes name the patterns."""
    sides = (before, set(twins)), (after, set(twins.values()))
    nodes = [[node for node, number in side.index.items() if number not in stayed] for side, stayed in sides]
    groups = _Groups()
    for (side, _), changed in zip(sides, nodes, strict=True):
        other = {name for name, _ in (after if side is before else before).values}
        for node in changed:
            for name in _names(side, node, of_results=True):
                groups.join(id(node), name)
            for name in _names(side, node, of_results=False):
                if name not in other:
                    groups.join(id(node), name)
    steps: dict[object, tuple[list[Node], list[Node]]] = {}
    for place, changed in enumerate(nodes):
        for node in changed:
            steps.setdefault(groups.root(id(node)), ([], []))[place].append(node)
    found = []
    for removed, added in steps.values():
        if not added:  # its readers tell why it is gone
            continue
        tags = dict.fromkeys(after.nodes[after.index[node]].tag for node in added)
        found.append(Step(" + ".join(filter(None, tags)), removed, added))
    return found


def _names(side: Drawing, node: Node, *, of_results: bool) -> Iterator[str]:
    drawn = side.nodes[side.index[node]]
    yield from (side.values[value][0] for value in (drawn.outputs if of_results else drawn.inputs))


class _Groups:
    """Sets that are joined (Tarjan, *Efficiency of a Good But Not Linear Set Union Algorithm*, 1975)."""

    def __init__(self) -> None:
        self._parents: dict[object, object] = {}

    def root(self, item: object) -> object:
        """The representative of the set of an item."""
        while (parent := self._parents.setdefault(item, item)) != item:
            self._parents[item] = item = self._parents[parent]
        return item

    def join(self, item: object, other: object) -> None:
        """Join the sets of two items."""
        self._parents[self.root(item)] = self.root(other)
