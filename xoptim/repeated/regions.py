"""A region of groups that are all stacked, or all left alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from xoptim.graph.edit import Edit
from xoptim.graph.node import Node
from xoptim.graph.walk import is_read_beyond
from xoptim.repeated.cost import Costs, is_product, launches_and_times, slowest
from xoptim.repeated.groups import Group
from xoptim.repeated.sums import Sums
from xoptim.repeated.writing import StackWriter, can_lay_out

MARGIN: Final = 0.9
"""A region is stacked by default if it takes at most this part of its time, at every size."""

LEAST: Final = 5000.0
"""Nanoseconds that it must save besides, at every size: smaller differences are within the error of the estimate."""


class Outlook(NamedTuple):
    """The effect of stacking a region."""

    nodes: tuple[int, int]  # number of nodes before and after
    times: tuple[float, float] | None = None  # estimated nanoseconds before and after, where they count
    obstacle: str = ""  # another reason to leave the region alone unless that is forced; empty when there is none

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
        return "" if self.times is None or is_faster else f"its region does not become faster: {self}"

    def __str__(self) -> str:
        apart, together = (time / 1e3 for time in self.times or (0.0, 0.0))
        times = f", {together:.1f} us for {apart:.1f} us (estimated)" if self.times is not None else ""
        return f"{self.nodes[1]} nodes for {self.nodes[0]}{times}"


class Region:
    """Connected groups, lower levels first."""

    def __init__(self, sums: Sums, groups: Sequence[Group]) -> None:
        self.sums = sums
        self.graph = sums.graph
        self.groups = groups

    def rewrite(self, costs: Costs | None = None) -> bool:
        """Replace the nodes by stacks, with ``costs`` only if that seems to be faster; returns whether they were replaced."""
        if costs is not None and (self._obstacle() or not self._may_be_faster(costs)):
            return False
        with Edit(self.graph) as edit:
            removed, added = self._written(edit)
            is_wanted = not self._outlook(removed, edit, added, costs).refusal
            if is_wanted:
                edit.commit(removed, edit.created)
        return is_wanted

    def outlook(self, costs: Costs | None) -> Outlook:
        """The effect of stacking the region, which is left unchanged, with the costs of the execution provider."""
        with Edit(self.graph) as edit:
            removed, added = self._written(edit)
            return self._outlook(removed, edit, added, costs)

    def _outlook(self, removed: Sequence[Node], edit: Edit, added: Sequence[Node], costs: Costs | None) -> Outlook:
        if costs is None:
            return Outlook((len(removed), len(added)))
        graph, gone = self.graph, set(removed)
        around = (graph.producer(name) for node in removed for name in node.input)
        readers = (reader for node in removed for name in node.output for reader in graph.consumers(name))
        near = [node for node in dict.fromkeys((*filter(None, around), *readers)) if node not in gone]
        return Outlook((len(removed), len(added)), slowest((graph, removed), (edit, added), near, costs), self._obstacle())

    def _obstacle(self) -> str:
        """The reason why stacked products may overflow where single ones do not, empty when they do not.

        onnxruntime multiplies a single row with a stack of matrices by another kernel, which rounds each product before it is
        added: the product of large numbers is infinite there, and a sum of two may be NaN.
        """
        for node in (group.first for group in self.groups):
            rows = (self.graph.info_of(node.output[0]).shape or ())[-2:-1]
            if is_product(node) and not (rows and isinstance(rows[0], int) and rows[0] > 1):
                return f"{node.output[0]!r} may have a single row, whose product with a stack of matrices overflows sooner"
        return ""

    def _may_be_faster(self, costs: Costs) -> bool:
        """Whether launching the nodes takes enough of their time, at every size: a stack saves little else."""
        nodes = [part for group in self.groups for node in group.nodes for part in self.sums.parts(node)]
        return all(launches >= (1 - MARGIN) * time for launches, time in launches_and_times(self.graph, nodes, costs))

    def _written(self, edit: Edit) -> tuple[list[Node], list[Node]]:
        """The nodes to remove, and those that replace them, which the edit holds beside Identity nodes for names."""
        graph, sums, writer = self.graph, self.sums, StackWriter(self.graph, edit)
        stacked = {node: None for group in self.groups for node in group.nodes}
        joined = self._joined(stacked)
        removed = {part: None for node in (*stacked, *joined) for part in sums.parts(node)}
        for group in self.groups:
            # Groups of higher levels may read what is made of these lanes, so all of that comes first.
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
        """The sums with two terms or more that are lanes of one stack, and Concats with lanes in a row, highest level first."""
        source = {name: (group, place) for group in self.groups for name, (place, _) in group.lane.items()}
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
