"""Explanations: the groups, and the first setting in which nodes that are not in one group differ."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from xoptim.graph.constants import is_constant
from xoptim.graph.graph import Graph
from xoptim.match.rewrite import Finding
from xoptim.repeated.choice import Choice
from xoptim.repeated.cost import Costs
from xoptim.repeated.groups import Group, arrange, by_result, find_groups, part_of
from xoptim.repeated.regions import Region
from xoptim.repeated.settings import Operand, is_parameter, settings
from xoptim.repeated.sums import Sums


def findings(graph: Graph, costs: Costs, fewest: int, *, is_forced: bool) -> Iterator[Finding]:
    """For each group whether it is stacked, and what that changes; and the reason why nodes of one operator and level differ.

    A group has at least ``fewest`` nodes; ``is_forced`` says whether groups are stacked that do not become faster.
    """
    sums = Sums(graph)
    # Folding computes constants before.
    classes = [group for group in find_groups(sums, fewest=1) if not is_constant(graph, group.first.output[0])]
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
    class_of = by_result(classes)
    for _, alike in groupby(sorted(classes, key=_kind), key=_kind):
        most, *others = sorted(alike, key=lambda group: -len(group))
        for other in others:
            if not _are_parts(sums.graph, other.first.output[0], most.first.output[0]):
                reason = f"not together with {most.first.output[0]!r}: {_difference(sums, class_of, other, most)}"
                yield Finding((other.first, most.first), reason)


def _kind(group: Group) -> tuple[int, str]:
    return group.level, group.first.op_type


def _are_parts(graph: Graph, name: str, other: str) -> bool:
    """Whether two results are parts of one value, whose readers may be computed together although they are not."""
    return part_of(graph, name) == part_of(graph, other) is not None


def _difference(sums: Sums, class_of: Mapping[str, Group], one: Group, other: Group) -> str:
    """The first difference of two classes of an operator: in their settings, or in settings of nodes that they depend on."""
    where = ""
    while True:
        found = _own_difference(sums, one, other)
        if found:
            return where + found
        # Operands of commutative operators are in the order in which they are alike.
        pairs = zip(one.operands[one.first], other.operands[other.first], strict=True)
        differing = (pair for pair in pairs if class_of.get(pair[0]) is not class_of.get(pair[1]))
        a, b = next((pair for pair in differing if not _are_parts(sums.graph, *pair)), ("", ""))
        if not a or not b:
            return f"{where}their operands are other results of nodes that are alike"
        where = f"their operands are computed by nodes that differ, {a!r} and {b!r}: "
        if a not in class_of or b not in class_of:
            return f"{where}only one of them can be stacked"
        one, other = class_of[a], class_of[b]
        if one.first.op_type != other.first.op_type:
            return f"{where}operator: {one.first.op_type} and {other.first.op_type}"
        if one.level != other.level:
            return f"{where}number of nodes in front: {one.level - 1} and {other.level - 1}"


def _own_difference(sums: Sums, group: Group, than: Group) -> str:
    """The first setting in which two classes of an operator differ, "" if there is none."""
    one, other = group.first, than.first
    first, second = (settings(sums.graph, node, sums.terms(node)) for node in (one, other))
    assert first is not None
    assert second is not None
    if len(first.operands) != len(second.operands):
        return f"number of operands: {len(first.operands)} and {len(second.operands)}"
    names = ("operator", "attributes", *("type and shape of a result" for _ in one.output))
    for name, a, b in zip(names, first.own, second.own, strict=False):
        if a != b:
            return f"{name}: {_text(a)} and {_text(b)}"
    for place, (a, b) in enumerate(zip(first.operands, second.operands, strict=False)):
        if a != b:
            return f"operand {place}: " + ("another value" if is_parameter(one, place) else f"{_text(a)} and {_text(b)}")
    return ""


def _text(setting: object) -> str:
    if isinstance(setting, Operand):
        return f"({', '.join(map(str, setting.shape))}){' stored' if setting.is_constant else ''}"
    assert isinstance(setting, tuple)
    if setting and all(isinstance(each, tuple) for each in setting):
        return ", ".join(f"{name} = {value}" for name, value in setting)
    return f"({', '.join(map(str, setting[1]))})" if setting else "none"
