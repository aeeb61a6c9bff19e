"""Positions of an axis that Gathers take one by one."""

from typing import NamedTuple

from xoptim.match import GraphView, Node

from .._axes import axis_of, size_along
from .._nodes import is_op


class Position(NamedTuple):
    """One position of an axis.

    Attributes:
        axis: counted from the front.
        place: counted from the front.
        size: length of the axis.
        drops: whether the result is without the axis; otherwise it has size 1 there.
    """

    axis: int
    place: int
    size: int
    drops: bool


def position_of(g: GraphView, node: Node) -> Position | None:
    """The position that a Gather takes, ``None`` for another node, and where one of the numbers is not known."""
    rank = g.info(node.input[1]).rank if is_op(node, "Gather") else None
    axis = axis_of(g, node) if rank in (0, 1) else None
    index = None if axis is None else g.get_constant_scalar(node.input[1])
    size = None if axis is None else size_along(g, node.input[0], axis)
    if axis is None or index is None or not isinstance(size, int) or not -size <= index < size:
        return None
    return Position(axis, int(index) % size, size, rank == 0)


def all_positions(g: GraphView, node: Node) -> list[Node] | None:
    """The Gathers of all positions of an axis, in order, at least two; ``None`` when one is missing.

    Args:
        g: the graph.
        node: a Gather of one of them; the others drop the axis as it does, or leave it.
    """
    found = position_of(g, node)
    if found is None or found.size < 2:
        return None
    pieces: dict[int, Node] = {}
    for other in g.next_nodes(node.input[0]):
        position = position_of(g, other)
        if position is not None and position._replace(place=found.place) == found:
            pieces.setdefault(position.place, other)
    return [pieces[place] for place in range(found.size)] if len(pieces) == found.size else None
