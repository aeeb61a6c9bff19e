"""The reasons why a target does not take a node, with advice: from the log of its provider, and
from the needs of the target.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from xoptim.facts.advice import Advice
from xoptim.facts.dtypes import type_name
from xoptim.targets.listing import ListedNode, number_in
from xoptim.targets.tables import limits_of, not_fixed
from xoptim.targets.target import Target

_NO_KERNEL: Final = re.compile(r"kernel not found in registries for Op type: \S+ node name: (\S+)")
_REFUSED: Final = re.compile(r"failed for node `(\S+)` of type `(\S+)` with error code (\d+)")
_TO_CPU: Final = re.compile(r"Force fallback to CPU execution for node: (\S+)")


def explained(node: ListedNode, refusal: str, target: Target) -> tuple[str, str]:
    """The reason why a target does not take a node, and advice; each is empty if not known."""
    needs = target.needs
    dtypes = [
        type_name(dtype) for dtype in dict.fromkeys(node.types) if dtype in needs.missing_types
    ]
    if needs.static_shapes and not node.is_static:
        return not_fixed()
    if needs.standard_operators and node.domain:
        return (
            f"{node.domain} is not a standard domain",
            f"{Advice('patterns', 'default')}, which writes standard operators only",
        )
    last = limits_of(target.name, node.op_type, node.domain)
    if last is not None and node.since > last:
        return (
            refusal or f"{node.label} of operator set {node.since}",
            f"operator set {last} or older",
        )
    if dtypes:
        return f"it has operands of type {', '.join(dtypes)}", "int32 and float32"
    if node.border and not refusal:
        return f"it converts {node.border}, which stays in float32", ""
    if needs.prefers_float16 and refusal and "float" in node.types_text().split(", "):
        return refusal, f"{Advice('precision', 'float16')} {Advice('compute', 'float16')}"
    return refusal, ""


def refusals(nodes: Sequence[ListedNode], log: Sequence[str]) -> dict[int, str]:
    """The reasons that a provider's log gives, by the number of the node."""
    reasons: dict[int, str] = {}
    for line in log:
        if match := _NO_KERNEL.search(line):
            number = number_in(match[1])
            if number is not None and number < len(nodes):
                node = nodes[number]
                types = node.types_text()
                suffix = f" for {types}" if types else ""
                reasons[number] = f"there is no kernel of operator set {node.since}{suffix}"
        elif match := _REFUSED.search(line):
            number = number_in(match[1])
            if number is not None:
                reasons[number] = f"its compiler refuses {match[2]} (error {match[3]})"
    return reasons


def moved_by_onnxruntime(log: Sequence[str]) -> set[int]:
    """The numbers of the nodes that onnxruntime moved to the CPU, where their operands are."""
    numbers = {number_in(match[1]) for line in log if (match := _TO_CPU.search(line))}
    return {number for number in numbers if number is not None}
