"""Elements that Slices in a row take, with steps, to the ends of axes."""

from typing import Final, NamedTuple

from xoptim.match import GraphView, Node

from .._nodes import is_op
from ._spans import spans_by_axis

_DEEPEST: Final = 3
_FAR: Final = 2**31 - 1


class Steps(NamedTuple):
    """The elements that Slices in a row take: for each axis that they cut, the first position and the step, to its end."""

    source: str
    taken: dict[int, tuple[int, int]]
    nodes: tuple[Node, ...]


def steps_of(g: GraphView, name: str) -> Steps | None:
    """The elements of a tensor that a result has, by Slices with steps, each to the end of different axes."""
    taken: dict[int, tuple[int, int]] = {}
    nodes: list[Node] = []
    while is_op(node := g.node_before(name), "Slice") and len(nodes) < _DEEPEST:
        bounds = [g.get_argument(node, key) for key in ("starts", "ends", "axes", "steps")]
        shape = g.try_infer_shape(node.input[0])
        if shape is None or not all(isinstance(each, list) for each in bounds):
            return None
        for axis, (start, end, step) in (spans_by_axis(shape, *bounds) or {}).items():
            size = shape[axis]
            whole = end >= _FAR or (isinstance(size, int) and end >= size)
            if axis in taken or not whole or not 0 <= start < step:
                return None
            taken[axis] = start, step
        nodes, name = [node, *nodes], node.input[0]
    return Steps(name, taken, tuple(nodes)) if nodes else None
