"""Operators that reduce axes."""

from __future__ import annotations

from typing import Final

from xoptim.facts.families import REDUCTIONS
from xoptim.match import GraphView, Node

from .._axes import axis_of

REDUCING: Final = (*REDUCTIONS, "ArgMax", "ArgMin")


def reduced_axes(g: GraphView, node: Node) -> set[int] | None:
    """The axes that a reduction reduces, counted from the front; ``None`` when they or the rank are not known."""
    rank = g.info(node.input[0]).rank
    if rank is None:
        return None
    if node.op_type in ("ArgMax", "ArgMin"):
        axis = axis_of(g, node)
        return None if axis is None else {axis}
    axes = g.get_argument(node, "axes")
    if axes is None or axes == []:
        return set() if node.attribute.get("noop_with_empty_axes") else set(range(rank))
    if not isinstance(axes, list) or not all(-rank <= axis < rank for axis in axes):
        return None
    return {axis % rank for axis in axes}
