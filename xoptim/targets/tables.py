"""Tables of operators that targets support, as documentation lists them or as a provider answered:
not verified.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from xoptim.facts.advice import Advice
from xoptim.facts.schema import schema
from xoptim.targets.listing import ListedNode, partitions
from xoptim.targets.placement import PlacedNode, Placement
from xoptim.targets.target import Target

_FILE: Final = "tables.toml"
_NO_END: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Table:
    """The operators of a target.

    Attributes:
        origin: source of the table, with the version.
        date: date of the table, as ``2026-11-29``.
        operators: ranges of versions of the operator set, first and last, by label; empty for any
            version.
    """

    origin: str
    date: str
    operators: Mapping[str, tuple[tuple[int, int], ...]]

    def __str__(self) -> str:
        return f"{self.origin}, {self.date}"

    def objection(self, node: ListedNode) -> str:
        """The reason why the table does not have the operator of a node, empty when it does."""
        ranges = self.operators.get(node.label)
        if ranges is None:
            return f"{node.label} is not in its table of operators"
        if ranges and not any(first <= node.opset <= last for first, last in ranges):
            return f"{node.label} of operator set {node.since} is not in its table of operators"
        return ""


def not_fixed() -> tuple[str, str]:
    """The reason why a node without fixed shapes is not taken, and advice."""
    return "its shapes are not fixed", str(Advice("fix", "NAME=SIZE"))


@cache
def table_of(target: str) -> Table | None:
    """The table of a target, ``None`` where there is none."""
    table = _read().get(target)
    if table is None:
        return None
    operators = {name: tuple(map(_range, texts)) for name, texts in table["operators"].items()}
    return Table(table["origin"], table["date"], operators)


def limits_of(target: str, op_type: str, domain: str) -> int | None:
    """The newest operator set in which a table has a standard operator; ``None`` for no limit."""
    table = table_of(target)
    ranges = () if table is None or domain else table.operators.get(op_type, ())
    last = max((last for _, last in ranges), default=_NO_END)
    return None if last == _NO_END else last


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads((resources.files("xoptim.targets") / _FILE).read_text(encoding="utf-8"))


def _range(text: str) -> tuple[int, int]:
    """The range of versions that ``7``, ``7-12`` or ``13+`` writes."""
    first, _, last = text.partition("-")
    if first.endswith("+"):
        return int(first[:-1]), _NO_END
    return int(first), int(last or first)


def by_table(nodes: Sequence[ListedNode], target: Target) -> Placement:
    """The placement by the table of the operators of a target; nothing was asked."""
    table = table_of(target.name)
    assert table is not None or target.is_standard, f"{_FILE} has no table of {target.name}"
    reasons: dict[int, tuple[str, str]] = {}
    for number, node in enumerate(nodes):
        reason = table.objection(node) if table is not None else _beyond_the_standard(node)
        if reason:
            reasons[number] = (reason, "")
        elif target.needs.static_shapes and not node.is_static:
            reasons[number] = not_fixed()
    constants = {number for number, node in enumerate(nodes) if node.is_constant}
    taken = {number for number in range(len(nodes)) if number not in reasons} - constants
    parts = partitions(nodes, taken, reasons)
    placed: list[PlacedNode] = []
    for number, node in enumerate(nodes):
        provider = "" if number in constants else target.name if number in taken else "cpu"
        reason, advice = reasons.get(number, ("", "")) if number not in constants else ("", "")
        placed.append(
            PlacedNode(
                node.name,
                node.op_type,
                node.domain,
                provider,
                parts.get(number, -1),
                reason,
                advice,
                node.is_shape_arithmetic,
            )
        )
    return Placement(target.name, tuple(placed), source="table")


def _beyond_the_standard(node: ListedNode) -> str:
    """The reason why the operator of a node is not a standard one, empty when it is."""
    is_known = schema(node.op_type, node.domain, node.opset) is not None
    if is_known and not node.domain.startswith("com."):
        return ""
    return f"{node.label} is not a standard operator"
