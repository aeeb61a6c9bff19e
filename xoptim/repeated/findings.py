"""Explanations: the groups, and the first setting in which nodes that are not in one group differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.rewrite import Finding
from xoptim.repeated.choice import Choice
from xoptim.repeated.cost import Costs
from xoptim.repeated.groups import Group, arrange, find_groups
from xoptim.repeated.regions import Region
from xoptim.repeated.settings import Operand, is_parameter, settings
from xoptim.repeated.sums import Sums


def findings(graph: Graph, costs: Costs, fewest: int, *, is_forced: bool) -> Iterator[Finding]:
    """For each group whether it is stacked, and what that changes; and the reason why nodes of one operator and level differ.

    Args:
        graph: the graph.
        costs: those of the execution provider.
        fewest: number of nodes that a group has at least.
        is_forced: whether groups are stacked that do not become faster.
    """
    sums = Sums(graph)
    classes = find_groups(sums, fewest=1)
    groups = [group for group in classes if len(group) >= fewest]
    arrange(groups)
    choice = Choice(sums, groups)
    choice.prune()
    reasons = {group: f"{len(group)} nodes are too few" for group in classes if 1 < len(group) < fewest}
    for group, reason in {**reasons, **choice.refused}.items():
        yield Finding(tuple(group.nodes), reason)
    for region in choice.regions():
        outlook = Region(sums, region).outlook(costs)
        reason = (outlook.forced if is_forced else outlook).refusal
        for group in region:
            yield Finding(tuple(group.nodes), reason, "" if reason else f"{outlook} in its region")
    yield from _differences(sums, classes) if is_forced else ()


def _differences(sums: Sums, classes: Sequence[Group]) -> Iterator[Finding]:
    for _, alike in groupby(sorted(classes, key=_kind), key=_kind):
        most, *others = sorted(alike, key=lambda group: -len(group))
        for other in others:
            reason = f"not together with {most.first.output[0]!r}: {difference(sums, other.first, most.first)}"
            yield Finding((other.first, most.first), reason)


def _kind(group: Group) -> tuple[int, str]:
    return group.level, group.first.op_type


def difference(sums: Sums, one: Node, other: Node) -> str:
    """The first setting in which two stackable nodes of an operator differ."""
    first, second = (settings(sums.graph, node, sums.terms(node)) for node in (one, other))
    assert first is not None
    assert second is not None
    names = ("operator", "attributes", *("type and shape of a result" for _ in one.output))
    for name, a, b in zip(names, first.own, second.own, strict=False):
        if a != b:
            return f"{name}: {_text(a)} and {_text(b)}"
    for place, (a, b) in enumerate(zip(first.operands, second.operands, strict=False)):
        if a != b:
            return f"operand {place}: " + ("another value" if is_parameter(one, place) else f"{_text(a)} and {_text(b)}")
    return "their operands are computed by nodes that differ"


def _text(setting: object) -> str:
    if isinstance(setting, Operand):
        return f"({', '.join(map(str, setting.shape))}){' stored' if setting.is_constant else ''}"
    assert isinstance(setting, tuple)
    if setting and all(isinstance(each, tuple) for each in setting):
        return ", ".join(f"{name} = {value}" for name, value in setting)
    return f"({', '.join(map(str, setting[1]))})" if setting else "none"
