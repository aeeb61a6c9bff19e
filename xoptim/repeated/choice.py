"""Which groups are worth a stack: it must save more nodes than its operands and the lanes that are read by themselves cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.repeated.groups import Group, by_result
from xoptim.repeated.settings import is_parameter
from xoptim.repeated.sums import Sums
from xoptim.repeated.weights import LARGEST, stacked_bytes
from xoptim.repeated.writing import JOINING

_OWN = {"Gemm": 2, "LayerNormalization": 3, "Gather": 2}
"""Nodes of a stack where there are several."""


class Choice:
    """The groups that are stacked.

    Args:
        sums: the sums of the graph.
        groups: all groups.

    Attributes:
        groups: those that are stacked.
        refused: the reason why others are not.
    """

    def __init__(self, sums: Sums, groups: Iterable[Group]) -> None:
        self.sums = sums
        self.graph = graph = sums.graph
        left = LARGEST - stacked_bytes(graph.model)
        self.groups: dict[Group, None] = {}
        self.refused: dict[Group, str] = {}
        for group in filter(_differs, groups):
            size = _stored_bytes(graph, group)
            if size <= left:
                left -= size
                self.groups[group] = None
            else:
                self.refused[group] = f"its weights have {size} bytes, more than are stacked"
        self.group_of = by_result(self.groups)
        self._costs: dict[Group, int] = {}
        self._distinct: dict[Node, int] = {}
        """Number of different operands of nodes that join lanes."""

    def prune(self) -> None:
        """Give up groups until each that is left saves nodes."""
        line = deque(self.groups)
        pending = set(line)
        while line:
            group = line.popleft()
            pending.discard(group)
            if group not in self.groups:
                continue
            near = self._near(group)
            own = self._cost(group)
            stacked = own + sum(map(self._cost, near))
            self._drop(group)
            single = sum(len(self.sums.parts(node)) for node in group.nodes)
            apart = single + sum(map(self._computed_cost, near))
            if apart <= stacked:
                self.refused[group] = f"it saves no nodes: {single} apart, {own} together with operands and single results"
                line += [other for other in near if other not in pending]
                pending.update(near)
                for other in near:
                    self._costs.pop(other, None)
            else:
                self._restore(group)

    def _drop(self, group: Group) -> None:
        del self.groups[group]
        for name in group.lane:
            del self.group_of[name]

    def _restore(self, group: Group) -> None:
        self.groups[group] = None
        self.group_of.update(dict.fromkeys(group.lane, group))

    def _near(self, group: Group) -> list[Group]:
        """The groups that read it, and those that it reads."""
        found: dict[Group, None] = {}
        around = [name for terms in group.operands.values() for name in terms]
        around += [reader.output[0] for reader in self.sums.readers(group.lane) if reader.output]
        found.update((self.group_of[name], None) for name in around if name in self.group_of)
        found.pop(group, None)
        return list(found)

    def _cost(self, group: Group) -> int:
        """Nodes of a stack: itself, its operands, and the lanes that are read by themselves."""
        if group not in self._costs:
            self._costs[group] = self._computed_cost(group)
        return self._costs[group]

    def _computed_cost(self, group: Group) -> int:
        own = _OWN.get(group.first.op_type, 1) + max(len(group.columns) - 2, 0) * (group.first.op_type == "Add")
        operands = sum(self._column(names) for place, names in enumerate(group.columns) if not is_parameter(group.first, place))
        return own + operands + self._alone(group)

    def _column(self, names: Sequence[str]) -> int:
        different = len(set(names))
        if different == 1:
            return 0
        if all(self.graph.tensor(name) is not None for name in names):
            return int(different < len(names))
        sources = {self._source(name) for name in names}
        outside = sum(isinstance(source, str) for source in sources)
        if outside == len(sources):
            return 1 + min(outside, 2)
        if len(sources) > 1:
            return outside + 2
        (source,) = sources
        assert not isinstance(source, str)
        return int(different != len(source[0]))

    def _source(self, name: str) -> tuple[Group, int] | str:
        """The group of a result and its place among those of a node; the name of a value outside of the groups."""
        group = self.group_of.get(name)
        return name if group is None else (group, group.lane[name][0])

    def _alone(self, group: Group) -> int:
        """Number of lanes that something outside of the stacks reads by themselves."""
        alone = {name for name in group.lane if self.graph.is_output(name) or self.graph.is_captured(name)}
        read: dict[tuple[Node, int], list[str]] = {}
        for name, (place, _) in group.lane.items():
            for reader in self.sums.readers((name,)):
                if not self._is_stacked(reader):
                    read.setdefault((reader, place), []).append(name)
        for (reader, _), names in read.items():
            if not self._joins(reader, len(names)):
                alone.update(names)
        return len(alone)

    def _is_stacked(self, node: Node) -> bool:
        return bool(node.output) and node.output[0] in self.group_of

    def _joins(self, node: Node, count: int) -> bool:
        """Whether a node joins lanes of a stack, if it reads so many."""
        if self.sums.is_sum(node):
            return count > 1
        if node.op_type not in JOINING or node.domain:
            return False
        if node not in self._distinct:
            self._distinct[node] = len(set(node.input))
        return count == self._distinct[node]

    def regions(self) -> list[list[Group]]:
        """Groups that are connected, lower levels first; each region is rewritten as a whole."""
        left = set(self.groups)
        joined: set[Node] = set()
        found = []
        for first in self.groups:
            line = [first] if first in left else []
            left.discard(first)
            for group in line:
                for other in (*self._near(group), *self._added(group, joined)):
                    if other in left:
                        left.remove(other)
                        line.append(other)
            if line:
                found.append(sorted(line, key=lambda group: group.level))
        return found

    def _added(self, group: Group, joined: set[Node]) -> Iterator[Group]:
        """The groups of the other terms of sums that a group is added in, unless the sums are among those that are joined."""
        for reader in self.sums.readers(group.lane):
            if self.sums.is_sum(reader) and reader not in joined:
                joined.add(reader)
                yield from (self.group_of[name] for name in self.sums.terms(reader) if name in self.group_of)


def _differs(group: Group) -> bool:
    """Whether the lanes read different operands: nodes that read the same ones are equal, and merged elsewhere."""
    return any(len(set(names)) > 1 for names in group.columns)


def _stored_bytes(graph: Graph, group: Group) -> int:
    tensors = [graph.tensor(name) for names in map(set, group.columns) if len(names) > 1 for name in names]
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)
