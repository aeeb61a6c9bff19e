"""Which groups are worth a stack: it must save more nodes than its operands and the lanes that are read by themselves cost."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from xoptim.graph.node import Node
from xoptim.repeated.groups import Group, by_result
from xoptim.repeated.settings import is_parameter
from xoptim.repeated.sums import Sums
from xoptim.repeated.writing import JOINING, LARGEST, is_joined, runs, stacked_bytes

Source: TypeAlias = tuple[Group, int]
"""A group, and a place among the results of its nodes."""
_OWN: Final = {"Gemm": 2, "LayerNormalization": 3, "Gather": 2}
"""Nodes of a stack where there are several."""


class StackNodes:
    """The nodes of the stack of a group: itself, those that make its operands, and the lanes that are read by themselves.

    All questions take time in proportion to the size of this group or of the other one, whichever is smaller. ``group_of``
    has the groups that are stacked, by result.
    """

    def __init__(self, sums: Sums, group: Group, group_of: Mapping[str, Group]) -> None:
        self.sums = sums
        self.group = group
        self._fixed = _OWN.get(group.first.op_type, 1) + max(len(group.columns) - 2, 0) * (group.first.op_type == "Add")
        self._columns: list[_Column] = []
        for place, names in enumerate(group.columns):
            different = set(names)
            if is_parameter(group.first, place) or len(different) == 1:
                continue
            if all(sums.graph.tensor(name) is not None for name in different):
                self._fixed += len(different) < len(names)
            else:
                self._columns.append(_Column(different, group_of))
        graph = sums.graph
        self._alone = {name for name in group.lane if graph.is_output(name) or graph.is_captured(name)}
        outside = (reader for reader in sums.readers(group.lane) if not reader.output or reader.output[0] not in group_of)
        self._alone |= self._read_alone((reader, sums.terms(reader)) for reader in outside)

    @property
    def count(self) -> int:
        """The number of nodes."""
        return self._fixed + sum(column.nodes() for column in self._columns) + len(self._alone)

    def count_without(self, other: Group) -> int:
        """The number of nodes if another group were given up."""
        alone = self._read_alone(self._readers_in(other)) - self._alone
        return self._fixed + sum(column.nodes(other) for column in self._columns) + len(self._alone) + len(alone)

    def give_up(self, other: Group) -> None:
        """Take account of another group that is given up."""
        self._alone |= self._read_alone(self._readers_in(other))
        for column in self._columns:
            column.give_up(other)

    def _readers_in(self, other: Group) -> Iterable[tuple[Node, Sequence[str]]]:
        """The nodes of another group with their operands, or only its nodes that read this one, whichever takes less time."""
        if len(other) <= len(self.group):
            return other.operands.items()
        return ((reader, other.operands[reader]) for reader in self.sums.readers(self.group.lane) if reader in other.operands)

    def _read_alone(self, readers: Iterable[tuple[Node, Sequence[str]]]) -> set[str]:
        """The lanes that nodes outside of the stacks read by themselves."""
        lane, alone = self.group.lane, set[str]()
        for reader, names in readers:
            if reader.op_type == "Concat" and not reader.domain:
                in_row = runs(names, lambda name: name in lane and (lane[name][0],))
                alone.update(name for run in in_row if not is_joined(run, names) for name in run if name in lane)
                continue
            read: dict[int, set[str]] = {}
            for name in names:
                if name in lane:
                    read.setdefault(lane[name][0], set()).add(name)
            for found in read.values():
                if not self._joins(reader, names, len(found)):
                    alone |= found
        return alone

    def _joins(self, node: Node, names: Collection[str], count: int) -> bool:
        """Whether a node joins lanes of the stack, if it reads this many."""
        if self.sums.is_sum(node):
            return count > 1
        return node.op_type in JOINING and not node.domain and count == len(set(names))


class _Column:
    """An operand of a stack: the values that the lanes read."""

    def __init__(self, names: Collection[str], group_of: Mapping[str, Group]) -> None:
        self.different = len(names)
        groups = [(group_of[name], name) for name in names if name in group_of]
        self.inside: Counter[Source] = Counter((group, group.lane[name][0]) for group, name in groups)
        self.outside = len(names) - len(groups)

    def nodes(self, lost: Group | None = None) -> int:
        """Nodes that make the operand, if another group is given up."""
        gone = self._of(lost)
        inside, outside = len(self.inside) - len(gone), self.outside + sum(self.inside[source] for source in gone)
        if not inside:
            return 1 + min(outside, 2)
        if inside + outside > 1:
            return outside + 2
        ((group, _),) = (source for source in self.inside if source not in gone)
        return int(self.different != len(group))

    def give_up(self, group: Group) -> None:
        for source in self._of(group):
            self.outside += self.inside.pop(source)

    def _of(self, group: Group | None) -> list[Source]:
        sources = [] if group is None else [(group, place) for place in range(len(group.first.output))]
        return [source for source in sources if source in self.inside]


class Choice:
    """The groups that are stacked."""

    def __init__(self, sums: Sums, groups: Iterable[Group]) -> None:
        self.sums = sums
        self.graph = graph = sums.graph
        left = LARGEST - stacked_bytes(graph.model)
        self.groups: dict[Group, None] = {}  # those that are stacked
        self.refused: dict[Group, str] = {}  # the reason why others are not
        for group in groups:
            # Where the lanes read the same operands, the nodes are equal, and merged elsewhere.
            differing = [names for names in map(set, group.columns) if len(names) > 1]
            if not differing:
                continue
            stored = (graph.tensor(name) for names in differing for name in names)
            size = sum(tensor.nbytes for tensor in stored if tensor is not None)
            if size <= left:
                left -= size
                self.groups[group] = None
            else:
                self.refused[group] = f"its weights have {size} bytes, more than are stacked"
        self.group_of = by_result(self.groups)

    def prune(self) -> None:
        """Give up groups until each that is left saves nodes."""
        nodes = {group: StackNodes(self.sums, group, self.group_of) for group in self.groups}
        line = deque(self.groups)
        pending = set(line)
        while line:
            group = line.popleft()
            pending.discard(group)
            near = self._near(group)
            own, others = nodes[group].count, [nodes[other] for other in near]
            single = sum(len(self.sums.parts(node)) for node in group.nodes)
            if single + sum(other.count_without(group) for other in others) <= own + sum(other.count for other in others):
                self.refused[group] = f"it saves no nodes: {single} apart, {own} together with operands and single results"
                self._drop(group)
                for other in others:
                    other.give_up(group)
                line += [other for other in near if other not in pending]
                pending.update(near)

    def _drop(self, group: Group) -> None:
        del self.groups[group]
        for name in group.lane:
            del self.group_of[name]

    def _near(self, group: Group) -> list[Group]:
        """The groups that read it, and those that it reads."""
        found: dict[Group, None] = {}
        around = [name for terms in group.operands.values() for name in terms]
        around += [reader.output[0] for reader in self.sums.readers(group.lane) if reader.output]
        found.update((self.group_of[name], None) for name in around if name in self.group_of)
        found.pop(group, None)
        return list(found)

    def regions(self) -> list[list[Group]]:
        """Groups that are connected, lower levels first; each region is rewritten whole or not at all."""
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
        """The groups of the other operands of sums and Concats that a group is part of, unless these are in ``joined``."""
        for reader in self.sums.readers(group.lane):
            is_concat = reader.op_type == "Concat" and not reader.domain
            if (is_concat or self.sums.is_sum(reader)) and reader not in joined:
                joined.add(reader)
                yield from (self.group_of[name] for name in self.sums.terms(reader) if name in self.group_of)
