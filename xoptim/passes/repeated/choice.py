"""Choose the groups to stack: a stack must save more nodes than it needs for its operands and for
the lanes that are read separately.
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
"""By default, a region is stacked if that takes at most this fraction of the time of its single
nodes, at every size.
"""

LEAST: Final = 5000.0
"""Nanoseconds that a stacked region must save as well, at every size: smaller differences are
within the error of the estimate.
"""


class Outlook(NamedTuple):
    """The effect of stacking a region."""

    nodes: tuple[int, int]  # number of nodes before and after
    # estimated nanoseconds before and after, if they count
    times: tuple[float, float] | None = None
    # another reason not to stack the region unless that is forced, empty for none
    obstacle: str = ""

    @property
    def forced(self) -> Outlook:
        """The same effect if only the number of nodes counts."""
        return Outlook(self.nodes)

    @property
    def refusal(self) -> str:
        """The reason why the region is not stacked; empty when it is."""
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
        """Replace the nodes by stacks, with ``costs`` only if that is estimated to be faster.

        Returns whether they were replaced.
        """
        if costs is not None and (self._obstacle() or not self._may_be_faster(costs)):
            return False
        with Edit(self.graph) as edit:
            removed, added = self._write(edit)
            is_wanted = not self._outlook(removed, edit, added, costs).refusal
            if is_wanted:
                edit.commit(removed, edit.created)
        return is_wanted

    def outlook(self, costs: Costs | None) -> Outlook:
        """The effect of stacking the region, which is left unchanged; ``costs`` of the execution
        provider.
        """
        with Edit(self.graph) as edit:
            removed, added = self._write(edit)
            return self._outlook(removed, edit, added, costs)

    def _outlook(
        self, removed: Sequence[Node], edit: Edit, added: Sequence[Node], costs: Costs | None
    ) -> Outlook:
        if costs is None:
            return Outlook((len(removed), len(added)))
        graph, region = self.graph, set(removed)
        producers = (graph.producer(name) for node in removed for name in node.input)
        readers = (
            reader for node in removed for name in node.output for reader in graph.consumers(name)
        )
        near = [
            node
            for node in dict.fromkeys((*filter(None, producers), *readers))
            if node not in region
        ]
        return Outlook(
            (len(removed), len(added)),
            slowest((graph, removed), (edit, added), near, costs),
            self._obstacle(),
        )

    def _obstacle(self) -> str:
        """The reason why stacked MatMuls may overflow where single MatMuls do not; empty if none.

        onnxruntime multiplies a single row with a stack of matrices in another kernel, which rounds
        each product before adding it. A product of large numbers is then infinite, and the sum of
        two such products may be NaN.
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
        """Whether launches take enough of the time, at every size: a stack saves little else."""
        nodes = [
            part for group in self.groups for node in group.nodes for part in self.sums.parts(node)
        ]
        return all(
            launches >= (1 - MARGIN) * time
            for launches, time in launches_and_times(self.graph, nodes, costs)
        )

    def _write(self, edit: Edit) -> tuple[list[Node], list[Node]]:
        """Write the stacks; returns the nodes to remove, and the new nodes without Identity."""
        graph, sums, writer = self.graph, self.sums, StackWriter(self.graph, edit)
        members = {node: None for group in self.groups for node in group.nodes}
        joins = self._joins(members)
        removed = {part: None for node in (*members, *joins) for part in sums.parts(node)}
        for group in self.groups:
            # Groups of higher levels may read sums and Concats of lower ones.
            while joins and sums.levels[joins[-1]] < group.level:
                self._join(writer, joins.pop())
            writer.write(group)
            for reader in sums.readers(group.lane):
                if reader not in removed and writer.join(reader):
                    removed[reader] = None
            for name in group.lane:
                if is_read_beyond(graph, name, removed):
                    writer.alone(name)
        for reader in reversed(joins):
            self._join(writer, reader)
        return list(removed), [node for node in edit.created if node.op_type != "Identity"]

    def _join(self, writer: StackWriter, reader: Node) -> None:
        if self.sums.is_sum(reader):
            writer.add_up(reader, self.sums.terms(reader))
        else:
            writer.lay_out(reader)

    def _joins(self, members: Collection[Node]) -> list[Node]:
        """The sums of several lanes of one stack, and Concats of adjacent lanes, highest level
        first.
        """
        source = {
            name: (group, place) for group in self.groups for name, (place, _) in group.lane.items()
        }
        joins = []
        for reader in self.sums.readers(source):
            if reader in members:
                continue
            if self.sums.is_sum(reader):
                lanes = {name for name in self.sums.terms(reader) if name in source}
                joins += [reader] * (len({source[name] for name in lanes}) < len(lanes))
            else:
                joins += [reader] * can_lay_out(self.graph, reader, source.get)
        return sorted(joins, key=lambda node: -self.sums.levels[node])


Source: TypeAlias = tuple[Group, int]
"""A group, and an index among the results of its nodes."""
_NODE_COUNTS: Final = {"Gemm": 2, "LayerNormalization": 3, "Gather": 2}
"""Number of nodes of a stack; 1 for other operators."""


class StackNodes:
    """Counts the nodes of a stack: its own nodes, the nodes of its operands, and a node for each
    lane that is read separately.

    Each method takes time in proportion to the size of this group or of the argument, whichever is
    smaller. ``group_of`` has the groups that are stacked, by result.
    """

    def __init__(self, sums: Sums, group: Group, group_of: Mapping[str, Group]) -> None:
        self.sums = sums
        self.group = group
        self._fixed = _NODE_COUNTS.get(group.first.op_type, 1) + max(len(group.columns) - 2, 0) * (
            group.first.op_type == "Add"
        )
        self._columns: list[_Column] = []
        for place, column in enumerate(group.columns):
            names = set(column)
            if is_parameter(group.first, place) or len(names) == 1:
                continue
            if all(sums.graph.tensor(name) is not None for name in names):
                self._fixed += len(names) < len(column)
            else:
                self._columns.append(_Column(names, group_of))
        graph = sums.graph
        self._alone = {
            name for name in group.lane if graph.is_output(name) or graph.is_captured(name)
        }
        readers = (
            reader
            for reader in sums.readers(group.lane)
            if not reader.output or reader.output[0] not in group_of
        )
        self._alone |= self._read_alone((reader, sums.terms(reader)) for reader in readers)

    @property
    def count(self) -> int:
        """The number of nodes."""
        return self._fixed + sum(column.nodes() for column in self._columns) + len(self._alone)

    def count_without(self, lost: Group) -> int:
        """The number of nodes if another group were not stacked."""
        alone = self._read_alone(self._readers_in(lost)) - self._alone
        return (
            self._fixed
            + sum(column.nodes(lost) for column in self._columns)
            + len(self._alone)
            + len(alone)
        )

    def give_up(self, lost: Group) -> None:
        """Take into account that another group is not stacked."""
        self._alone |= self._read_alone(self._readers_in(lost))
        for column in self._columns:
            column.give_up(lost)

    def _readers_in(self, lost: Group) -> Iterable[tuple[Node, Sequence[str]]]:
        """The nodes of another group with their operands; if that is faster, only the nodes that
        read this group.
        """
        if len(lost) <= len(self.group):
            return lost.operands.items()
        return (
            (reader, lost.operands[reader])
            for reader in self.sums.readers(self.group.lane)
            if reader in lost.operands
        )

    def _read_alone(self, readers: Iterable[tuple[Node, Sequence[str]]]) -> set[str]:
        """The lanes that nodes outside of the stacks read separately."""
        lane, alone = self.group.lane, set[str]()
        for reader, names in readers:
            if reader.op_type == "Concat" and not reader.domain:
                adjacent = runs(names, lambda name: name in lane and (lane[name][0],))
                alone.update(
                    name
                    for run in adjacent
                    if not is_joined(run, names)
                    for name in run
                    if name in lane
                )
                continue
            lanes: dict[int, set[str]] = {}
            for name in names:
                if name in lane:
                    lanes.setdefault(lane[name][0], set()).add(name)
            for lane_names in lanes.values():
                if not self._joins(reader, names, len(lane_names)):
                    alone |= lane_names
        return alone

    def _joins(self, node: Node, names: Collection[str], count: int) -> bool:
        """Whether a node that reads ``count`` lanes of the stack joins them."""
        if self.sums.is_sum(node):
            return count > 1
        return node.op_type in JOINING and not node.domain and count == len(set(names))


class _Column:
    """An operand of a stack: the values that the lanes read."""

    def __init__(self, names: Collection[str], group_of: Mapping[str, Group]) -> None:
        self.size = len(names)
        groups = [(group_of[name], name) for name in names if name in group_of]
        self.sources: Counter[Source] = Counter(
            (group, group.lane[name][0]) for group, name in groups
        )
        self.singles = len(names) - len(groups)  # number of values that are in no stack

    def nodes(self, lost: Group | None = None) -> int:
        """Number of nodes of the operand, if the group ``lost`` is not stacked."""
        lost_sources = self._of(lost)
        inner, outer = (
            len(self.sources) - len(lost_sources),
            self.singles + sum(self.sources[source] for source in lost_sources),
        )
        if not inner:
            return 1 + min(outer, 2)
        if inner + outer > 1:
            return outer + 2
        ((group, _),) = (source for source in self.sources if source not in lost_sources)
        return int(self.size != len(group))

    def give_up(self, group: Group) -> None:
        for source in self._of(group):
            self.singles += self.sources.pop(source)

    def _of(self, group: Group | None) -> list[Source]:
        sources = (
            [] if group is None else [(group, place) for place in range(len(group.first.output))]
        )
        return [source for source in sources if source in self.sources]


class Choice:
    """The groups that are stacked."""

    def __init__(self, sums: Sums, groups: Iterable[Group]) -> None:
        self.sums = sums
        self.graph = graph = sums.graph
        budget = LARGEST - stacked_bytes(graph.model)
        self.groups: dict[Group, None] = {}  # the groups that are stacked
        self.refused: dict[Group, str] = {}  # the reason why a group is not stacked
        for group in groups:
            # `MergeNodes` merges nodes that read the same operands.
            columns = [names for names in map(set, group.columns) if len(names) > 1]
            if not columns:
                continue
            weights = (graph.tensor(name) for names in columns for name in names)
            size = sum(tensor.nbytes for tensor in weights if tensor is not None)
            if size <= budget:
                budget -= size
                self.groups[group] = None
            else:
                self.refused[group] = (
                    f"its weights have {size} bytes, more than the limit for stacking"
                )
        self.group_of = by_result(self.groups)

    def prune(self) -> None:
        """Drop groups until each remaining one saves nodes."""
        nodes = {group: StackNodes(self.sums, group, self.group_of) for group in self.groups}
        queue = deque(self.groups)
        pending = set(queue)
        while queue:
            group = queue.popleft()
            pending.discard(group)
            near = self._near(group)
            count, stacks = nodes[group].count, [nodes[neighbour] for neighbour in near]
            single = sum(len(self.sums.parts(node)) for node in group.nodes)
            if single + sum(stack.count_without(group) for stack in stacks) <= count + sum(
                stack.count for stack in stacks
            ):
                self.refused[group] = (
                    f"it saves no nodes: {single} apart, {count} together with operands and single "
                    "results"
                )
                self._drop(group)
                for stack in stacks:
                    stack.give_up(group)
                queue += [neighbour for neighbour in near if neighbour not in pending]
                pending.update(near)

    def _drop(self, group: Group) -> None:
        del self.groups[group]
        for name in group.lane:
            del self.group_of[name]

    def _near(self, group: Group) -> list[Group]:
        """The groups that read a group, and the groups that it reads."""
        groups: dict[Group, None] = {}
        names = [name for terms in group.operands.values() for name in terms]
        names += [reader.output[0] for reader in self.sums.readers(group.lane) if reader.output]
        groups.update((self.group_of[name], None) for name in names if name in self.group_of)
        groups.pop(group, None)
        return list(groups)

    def regions(self) -> list[list[Group]]:
        """Connected groups, lower levels first; a region is rewritten completely or not at all."""
        remaining = set(self.groups)
        joins: set[Node] = set()
        regions = []
        for first in self.groups:
            region = [first] if first in remaining else []
            remaining.discard(first)
            for group in region:
                for neighbour in (*self._near(group), *self._added(group, joins)):
                    if neighbour in remaining:
                        remaining.remove(neighbour)
                        region.append(neighbour)
            if region:
                regions.append(sorted(region, key=lambda group: group.level))
        return regions

    def _added(self, group: Group, joins: set[Node]) -> Iterator[Group]:
        """The groups of the other operands of sums and Concats that read a group, except those in
        ``joins``.
        """
        for reader in self.sums.readers(group.lane):
            is_concat = reader.op_type == "Concat" and not reader.domain
            if (is_concat or self.sums.is_sum(reader)) and reader not in joins:
                joins.add(reader)
                yield from (
                    self.group_of[name] for name in self.sums.terms(reader) if name in self.group_of
                )
