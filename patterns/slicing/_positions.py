"""Positions of an axis that Gathers take one by one."""

from __future__ import annotations

from xoptim.match import GraphView, Node

from .._axes import axis_of, size_along
from .._nodes import is_op


def position_of(g: GraphView, node: Node) -> tuple[int, int, int] | None:
    """Axis, position and size of the axis of a Gather of one position that drops the axis.

    Returns:
        ``None`` for another node, and where one of the three is not known.
    """
    if not is_op(node, "Gather") or g.info(node.input[1]).rank != 0:
        return None
    axis, index = axis_of(g, node), g.get_constant_scalar(node.input[1])
    size = None if axis is None else size_along(g, node.input[0], axis)
    if axis is None or index is None or not isinstance(size, int) or not -size <= index < size:
        return None
    return axis, int(index) % size, size


def all_positions(g: GraphView, node: Node) -> list[Node] | None:
    """The Gathers of all positions of an axis, in order, at least two; ``None`` when one is missing.

    Args:
        g: the graph.
        node: a Gather of one of them.
    """
    found = position_of(g, node)
    if found is None or found[2] < 2:
        return None
    axis, _, size = found
    pieces: dict[int, Node] = {}
    for other in g.next_nodes(node.input[0]):
        place = position_of(g, other)
        if place is not None and place[0] == axis:
            pieces.setdefault(place[1], other)
    return [pieces[position] for position in range(size)] if len(pieces) == size else None
