"""Spans that Slices take, axis by axis."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from xoptim.facts.dims import Dim
from xoptim.facts.shapes import Shape, normalized
from xoptim.match import GraphView, Node

from .._nodes import is_op
from .._parts import far

Span: TypeAlias = tuple[int, int, int]
"""Start, end and step as written."""

_DEEPEST: Final = 3
"""Maximal number of Slices in a row that are followed."""


def spans_by_axis(
    shape: Shape | None,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> dict[int, Span] | None:
    """The span that a Slice takes along each axis of an operand whose shape may be known.

    ``None`` for a malformed Slice, and for a negative axis of a tensor of unknown rank next to
    another axis.
    """
    written = range(len(starts)) if axes is None else axes
    places: list[int] = []
    for axis in written:
        place = normalized(axis, len(shape)) if shape is not None else axis if axis >= 0 else None
        if place is None or place in places:
            return None
        places.append(place)
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(places) == len(steps) or 0 in steps:
        return None
    return dict(zip(places, zip(starts, ends, steps, strict=True), strict=True))


def composed(size: Dim | None, first: Span, second: Span, end: int) -> Span | None:
    """One span equal to ``first`` followed by ``second`` on its result.

    ``None`` where no span is equal for all sizes.

    An axis whose size is a number is counted out. Of any other, steps must be 1 and starts at least
    0, and the ends must be both counted from the front, both from the back, or one of them the end
    of the axis, which is ``end`` or beyond: then starts and ends add up.
    """
    (a, b, step), (c, d, other) = first, second
    if type(size) is int and step > 0 and other > 0:
        found = range(size)[a:b:step][c:d:other]
        return (found.start, found.stop, found.step) if found else (0, 0, 1)
    if step != 1 or other != 1 or a < 0 or c < 0:
        return None
    if max(a, c) >= end or min(b, d) <= -end:
        return (0, 0, 1)
    if d >= end:
        return a + c, b, 1
    if b >= end:
        return a + c, d if d < 0 else a + d, 1
    if b < 0 and d < 0:
        return a + c, b + d, 1
    return (a + c, min(b, a + d), 1) if b >= 0 and d >= 0 else None


class SliceSteps(NamedTuple):
    """The elements that Slices in a row take: for each axis that they cut, the first position and
    the step, to its end.
    """

    source: str
    taken: dict[int, tuple[int, int]]
    nodes: tuple[Node, ...]


def steps_of(g: GraphView, name: str) -> SliceSteps | None:
    """The elements of a tensor that a result has, by Slices with steps, each to the end of
    different axes.
    """
    taken: dict[int, tuple[int, int]] = {}
    nodes: list[Node] = []
    while is_op(node := g.node_before(name), "Slice") and len(nodes) < _DEEPEST:
        bounds = [g.get_argument(node, key) for key in ("starts", "ends", "axes", "steps")]
        shape = g.try_infer_shape(node.input[0])
        if shape is None or not all(isinstance(each, list) for each in bounds):
            return None
        for axis, (start, end, step) in (spans_by_axis(shape, *bounds) or {}).items():
            size = shape[axis]
            whole = end >= far(g) or (isinstance(size, int) and end >= size)
            if axis in taken or not whole or not 0 <= start < step:
                return None
            taken[axis] = start, step
        nodes, name = [node, *nodes], node.input[0]
    return SliceSteps(name, taken, tuple(nodes)) if nodes else None
