"""Which groups are worth a stack: it must save more nodes than its operands and the lanes that are read by themselves cost."""

from collections import deque
from collections.abc import Iterable, Iterator

from xoptim.graph.node import Node
from xoptim.repeated.groups import Group, by_result
from xoptim.repeated.savings import StackNodes
from xoptim.repeated.sums import Sums
from xoptim.repeated.weights import LARGEST, stacked_bytes


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
