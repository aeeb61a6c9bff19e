"""Which groups are worth a stack: it must save more nodes than its operands and the lanes read by
themselves cost.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from xoptim.graph.edit import Edit
from xoptim.graph.node import Node
from xoptim.graph.walk import is_read_beyond
from xoptim.passes.repeated.cost import Costs, is_matmul, launches_and_times, slowest
from xoptim.passes.repeated.groups import Group, Sums, by_result, is_parameter
from xoptim.passes.repeated.writing import (
    JOINING,
    LARGEST,
    StackWriter,
    can_lay_out,
    is_joined,
    runs,
    stacked_bytes,
)

MARGIN: Final = 0.9
"""A region is stacked by default if it takes at most this part of its time, at every size."""

LEAST: Final = 5000.0
"""Nanoseconds that it must save besides, at every size: smaller differences are within the error of
the estimate.
"""


class Outlook(NamedTuple):
    """The effect of stacking a region."""

    nodes: tuple[int, int]  # number of nodes before and after
    # estimated nanoseconds before and after, where they count
    times: tuple[float, float] | None = None
    # another reason to leave the region alone unless that is forced; empty when there is none
    obstacle: str = ""

    @property
    def forced(self) -> Outlook:
        """The same where only the number of nodes counts."""
        return Outlook(self.nodes)

    @property
    def refusal(self) -> str:
        """The reason why the region is left alone; empty when it is stacked."""
        if self.nodes[1] >= self.nodes[0]:
            return f"its region saves no nodes: {self}"
        if self.obstacle:
            return self.obstacle
        apart, together = self.times or (math.inf, 0.0)
        is_faster = together <= min(MARGIN * apart, apart - LEAST) and math.isfinite(apart)
        return (
            "" if self.times is None or is_faster else f"its region does not become faster: {self}"
        )

    def __str__(self) -> str:
        apart, together = (time / 1e3 for time in self.times or (0.0, 0.0))
        times = (
            f", {together:.1f} us for {apart:.1f} us (estimated)" if self.times is not None else ""
        )
        return f"{self.nodes[1]} nodes for {self.nodes[0]}{times}"


class StackRegion:
    """Connected groups, lower levels first."""

    def __init__(self, sums: Sums, groups: Sequence[Group]) -> None:
        self.sums = sums
        self.graph = sums.graph
        self.groups = groups

    def rewrite(self, costs: Costs | None = None) -> bool:
        """Replace the nodes by stacks, with ``costs`` only if that seems to be faster.

        Returns whether they were replaced.
        """
        if costs is not None and (self._obstacle() or not self._may_be_faster(costs)):
            return False
        with Edit(self.graph) as edit:
            removed, added = self._written(edit)
            is_wanted = not self._outlook(removed, edit, added, costs).refusal
            if is_wanted:
                edit.commit(removed, edit.created)
        return is_wanted

    def outlook(self, costs: Costs | None) -> Outlook:
        """The effect of stacking the region, which is left unchanged, with the costs of the
        execution provider.
        """
        with Edit(self.graph) as edit:
            removed, added = self._written(edit)
            return self._outlook(removed, edit, added, costs)

    def _outlook(
        self, removed: Sequence[Node], edit: Edit, added: Sequence[Node], costs: Costs | None
    ) -> Outlook:
        if costs is None:
            return Outlook((len(removed), len(added)))
        graph, gone = self.graph, set(removed)
        around = (graph.producer(name) for node in removed for name in node.input)
        readers = (
            reader for node in removed for name in node.output for reader in graph.consumers(name)
        )
        near = [
            node for node in dict.fromkeys((*filter(None, around), *readers)) if node not in gone
        ]
        return Outlook(
            (len(removed), len(added)),
            slowest((graph, removed), (edit, added), near, costs),
            self._obstacle(),
        )

    def _obstacle(self) -> str:
        """The reason why stacked MatMuls may overflow where single ones do not, empty when they do
        not.

        onnxruntime multiplies a single row with a stack of matrices by another kernel, which rounds
        each product before it is added: the product of large numbers is infinite there, and a sum
        of two may be NaN.
        """
        for node in (group.first for group in self.groups):
            rows = (self.graph.info_of(node.output[0]).shape or ())[-2:-1]
            if is_matmul(node) and not (rows and isinstance(rows[0], int) and rows[0] > 1):
                return (
                    f"{node.output[0]!r} may have a single row, whose MatMul with a stack of "
                    "matrices overflows sooner"
                )
        return ""

    def _may_be_faster(self, costs: Costs) -> bool:
        """Whether launching the nodes takes enough of their time, at every size: a stack saves
        little else.
        """
        nodes = [
            part for group in self.groups for node in group.nodes for part in self.sums.parts(node)
        ]
        return all(
            launches >= (1 - MARGIN) * time
            for launches, time in launches_and_times(self.graph, nodes, costs)
        )

    def _written(self, edit: Edit) -> tuple[list[Node], list[Node]]:
        """The nodes to remove, and those that replace them, which the edit holds next to Identity
        nodes for names.
        """
        graph, sums, writer = self.graph, self.sums, StackWriter(self.graph, edit)
        stacked = {node: None for group in self.groups for node in group.nodes}
        joined = self._joined(stacked)
        removed = {part: None for node in (*stacked, *joined) for part in sums.parts(node)}
        for group in self.groups:
            # Groups of higher levels may read what is made of these lanes, so all of that comes
            # first.
            while joined and sums.levels[joined[-1]] < group.level:
                self._join(writer, joined.pop())
            writer.write(group)
            for reader in sums.readers(group.lane):
                if reader not in removed and writer.join(reader):
                    removed[reader] = None
            for name in group.lane:
                if is_read_beyond(graph, name, removed):
                    writer.alone(name)
        for reader in reversed(joined):
            self._join(writer, reader)
        return list(removed), [node for node in edit.created if node.op_type != "Identity"]

    def _join(self, writer: StackWriter, reader: Node) -> None:
        if self.sums.is_sum(reader):
            writer.add_up(reader, self.sums.terms(reader))
        else:
            writer.lay_out(reader)

    def _joined(self, stacked: Collection[Node]) -> list[Node]:
        """The sums with two terms or more that are lanes of one stack, and Concats with lanes in a
        row, highest level first.
        """
        source = {
            name: (group, place) for group in self.groups for name, (place, _) in group.lane.items()
        }
        found = []
        for reader in self.sums.readers(source):
            if reader in stacked:
                continue
            if self.sums.is_sum(reader):
                lanes = {name for name in self.sums.terms(reader) if name in source}
                found += [reader] * (len({source[name] for name in lanes}) < len(lanes))
            else:
                found += [reader] * can_lay_out(self.graph, reader, source.get)
        return sorted(found, key=lambda node: -self.sums.levels[node])


Source: TypeAlias = tuple[Group, int]
"""A group, and a place among the results of its nodes."""
_OWN: Final = {"Gemm": 2, "LayerNormalization": 3, "Gather": 2}
"""Nodes of a stack where there are several."""


class StackNodes:
    """The nodes of the stack of a group: itself, those that make its operands, and the lanes that
    are read by themselves.

    All questions take time in proportion to the size of this group or of the other one, whichever
    is smaller. ``group_of`` has the groups that are stacked, by result.
    """

    def __init__(self, sums: Sums, group: Group, group_of: Mapping[str, Group]) -> None:
        self.sums = sums
        self.group = group
        self._fixed = _OWN.get(group.first.op_type, 1) + max(len(group.columns) - 2, 0) * (
            group.first.op_type == "Add"
        )
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
        self._alone = {
            name for name in group.lane if graph.is_output(name) or graph.is_captured(name)
        }
        outside = (
            reader
            for reader in sums.readers(group.lane)
            if not reader.output or reader.output[0] not in group_of
        )
        self._alone |= self._read_alone((reader, sums.terms(reader)) for reader in outside)

    @property
    def count(self) -> int:
        """The number of nodes."""
        return self._fixed + sum(column.nodes() for column in self._columns) + len(self._alone)

    def count_without(self, other: Group) -> int:
        """The number of nodes if another group were given up."""
        alone = self._read_alone(self._readers_in(other)) - self._alone
        return (
            self._fixed
            + sum(column.nodes(other) for column in self._columns)
            + len(self._alone)
            + len(alone)
        )

    def give_up(self, other: Group) -> None:
        """Take account of another group that is given up."""
        self._alone |= self._read_alone(self._readers_in(other))
        for column in self._columns:
            column.give_up(other)

    def _readers_in(self, other: Group) -> Iterable[tuple[Node, Sequence[str]]]:
        """The nodes of another group with their operands, or only its nodes that read this one,
        whichever takes less time.
        """
        if len(other) <= len(self.group):
            return other.operands.items()
        return (
            (reader, other.operands[reader])
            for reader in self.sums.readers(self.group.lane)
            if reader in other.operands
        )

    def _read_alone(self, readers: Iterable[tuple[Node, Sequence[str]]]) -> set[str]:
        """The lanes that nodes outside of the stacks read by themselves."""
        lane, alone = self.group.lane, set[str]()
        for reader, names in readers:
            if reader.op_type == "Concat" and not reader.domain:
                in_row = runs(names, lambda name: name in lane and (lane[name][0],))
                alone.update(
                    name
                    for run in in_row
                    if not is_joined(run, names)
                    for name in run
                    if name in lane
                )
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
        self.inside: Counter[Source] = Counter(
            (group, group.lane[name][0]) for group, name in groups
        )
        self.outside = len(names) - len(groups)

    def nodes(self, lost: Group | None = None) -> int:
        """Nodes that make the operand, if another group is given up."""
        gone = self._of(lost)
        inside, outside = (
            len(self.inside) - len(gone),
            self.outside + sum(self.inside[source] for source in gone),
        )
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
        sources = (
            [] if group is None else [(group, place) for place in range(len(group.first.output))]
        )
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
                self.refused[group] = (
                    f"its weights have {size} bytes, more than the limit for stacking"
                )
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
            if single + sum(other.count_without(group) for other in others) <= own + sum(
                other.count for other in others
            ):
                self.refused[group] = (
                    f"it saves no nodes: {single} apart, {own} together with operands and single "
                    "results"
                )
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
        """Groups that are connected, lower levels first; each region is rewritten whole or not at
        all.
        """
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
        """The groups of the other operands of sums and Concats that a group is part of, unless
        these are in ``joined``.
        """
        for reader in self.sums.readers(group.lane):
            is_concat = reader.op_type == "Concat" and not reader.domain
            if (is_concat or self.sums.is_sum(reader)) and reader not in joined:
                joined.add(reader)
                yield from (
                    self.group_of[name] for name in self.sums.terms(reader) if name in self.group_of
                )
