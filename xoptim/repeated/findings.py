"""Explanations: the groups, and the first setting in which nodes that are not in one group differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.rewrite import Finding
from xoptim.repeated.choice import Choice
from xoptim.repeated.groups import Group, arrange, find_groups
from xoptim.repeated.settings import Operand, is_parameter, settings


def findings(graph: Graph) -> Iterator[Finding]:
    """For each group whether it is stacked; and for each operator of a level, why its nodes are in several groups."""
    classes = find_groups(graph, fewest=1)
    groups = [group for group in classes if len(group) > 1]
    arrange(groups)
    choice = Choice(graph, groups)
    choice.prune()
    for group in groups:
        yield Finding(tuple(group.nodes), choice.refused.get(group, "") if group not in choice.groups else "")
    for _, alike in groupby(sorted(classes, key=_kind), key=_kind):
        most, *others = sorted(alike, key=lambda group: -len(group))
        for other in others:
            reason = f"not together with {most.first.output[0]!r}: {difference(graph, other.first, most.first)}"
            yield Finding((other.first, most.first), reason)


def _kind(group: Group) -> tuple[int, str]:
    return group.level, group.first.op_type


def difference(graph: Graph, one: Node, other: Node) -> str:
    """The first setting in which two stackable nodes of an operator differ."""
    first, second = settings(graph, one), settings(graph, other)
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
