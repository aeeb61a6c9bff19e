"""The spans of Slices, axis by axis, and tensors that Slices cut into blocks."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from xoptim.facts.dims import Dim
from xoptim.facts.errors import Declined
from xoptim.facts.shapes import Shape, normalized
from xoptim.match import AT_RUN_TIME, GraphView, Node
from xoptim.operators.slicing import LAST_END

from .._nodes import is_op
from .._selections import Selection, far

Span: TypeAlias = tuple[int, int, int]
"""Start, end and step, as in the operands of a Slice."""

_MAX_SLICES: Final = 3
"""Maximum number of consecutive Slices that are followed."""


def spans_by_axis(
    shape: Shape | None,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> dict[int, Span] | None:
    """The span that a Slice takes along each axis, given the shape of its operand if known.

    ``None`` for a malformed Slice, and for a negative axis of a tensor of unknown rank.
    """
    listed = range(len(starts)) if axes is None else axes
    positions: list[int] = []
    for axis in listed:
        position = (
            normalized(axis, len(shape)) if shape is not None else axis if axis >= 0 else None
        )
        if position is None or position in positions:
            return None
        positions.append(position)
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(positions) == len(steps) or 0 in steps:
        return None
    return dict(zip(positions, zip(starts, ends, steps, strict=True), strict=True))


def spans_of(g: GraphView, node: Node) -> dict[int, Span] | None:
    """The span that a Slice takes along each axis, ``None`` if a bound or the rank is unknown."""
    bounds = [g.get_argument(node, key) for key in ("starts", "ends", "axes", "steps")]
    shape = g.try_infer_shape(node.input[0])
    if shape is None or not all(isinstance(bound, list) for bound in bounds[:2]):
        return None
    return None if AT_RUN_TIME in bounds[2:] else spans_by_axis(shape, *bounds)


def composed(size: Dim | None, first: Span, second: Span, end: int) -> Span | None:
    """The span that equals ``first`` followed by ``second``; ``None`` if it depends on the size.

    For a dynamic size, steps must be 1 and starts nonnegative. The ends must have the same sign, or
    one of them must be the end of the axis: ``end`` or larger.
    """
    (a, b, step), (c, d, second_step) = first, second
    if type(size) is int and step > 0 and second_step > 0:
        selected = range(size)[a:b:step][c:d:second_step]
        return (selected.start, selected.stop, selected.step) if selected else (0, 0, 1)
    if step != 1 or second_step != 1 or a < 0 or c < 0:
        return None
    if max(a, c) >= end or min(b, d) <= -end:
        return (0, 0, 1)
    start, shifted_end = min(a + c, LAST_END), min(a + d, LAST_END)
    if d >= end:
        return start, b, 1
    if b >= end:
        return start, d if d < 0 else shifted_end, 1
    if b < 0 and d < 0:
        return start, max(b + d, -LAST_END), 1
    return (start, min(b, shifted_end), 1) if b >= 0 and d >= 0 else None


class SliceSteps(NamedTuple):
    """Consecutive Slices with steps.

    Attributes:
        source: the operand of the first Slice.
        by_axis: the indices that they take, by axis.
        nodes: the Slices.
    """

    source: str
    by_axis: dict[int, Selection]
    nodes: tuple[Node, ...]


def steps_of(g: GraphView, name: str) -> SliceSteps | None:
    """The consecutive Slices that compute ``name``, or ``None``.

    Each slices other axes, from a start below the step to the end of the axis.
    """
    by_axis: dict[int, Selection] = {}
    nodes: list[Node] = []
    while is_op(node := g.node_before(name), "Slice") and len(nodes) < _MAX_SLICES:
        shape, spans = g.try_infer_shape(node.input[0]), spans_of(g, node)
        if shape is None or spans is None:
            return None
        for axis, (start, end, step) in spans.items():
            size = shape[axis]
            to_end = end >= far(g) or (isinstance(size, int) and end >= size)
            if axis in by_axis or not to_end or not 0 <= start < step:
                return None
            by_axis[axis] = Selection(start, size, step)
        nodes, name = [node, *nodes], node.input[0]
    return SliceSteps(name, by_axis, tuple(nodes)) if nodes else None


class Blocks(NamedTuple):
    """Slices of one tensor with equal steps along two adjacent axes.

    Blocks of step by step elements tile these axes. There is a slice for each position in a block.

    Attributes:
        source: the tensor.
        shape: its shape.
        row: the first of the two axes.
        step: the step along both axes.
        starts: the start of each slice along both axes.
        nodes: the Slices.
    """

    source: str
    shape: Shape
    row: int
    step: int
    starts: list[tuple[Dim, Dim]]
    nodes: list[Node]


def blocks_of(g: GraphView, node: Node) -> Blocks:
    """The blocks whose slices are the operands of a Concat.

    Raises:
        Declined: when the operands are not such slices, or a size is not known to be a multiple of
            the step. Also when a slice is missing, occurs twice, or has other consumers.
    """
    parts = [part for name in node.input if (part := steps_of(g, name)) is not None]
    if len(parts) < max(len(node.input), 4) or len({part.source for part in parts}) > 1:
        raise Declined("the operands are not slices of one tensor")
    source, axes = parts[0].source, sorted(parts[0].by_axis)
    shape = g.try_infer_shape(source)
    step = parts[0].by_axis[axes[0]].step if axes else 0
    is_block = len(axes) == 2 and axes[1] == axes[0] + 1 and step * step == len(parts)
    if shape is None or not is_block:
        raise Declined("the slices are not of two adjacent axes")
    if not all(
        sorted(part.by_axis) == axes
        and all(selection.step == step for selection in part.by_axis.values())
        for part in parts
    ):
        raise Declined("the slices differ in axes or steps")
    nodes = list(dict.fromkeys(link for part in parts for link in part.nodes))
    if not all(g.is_used_only_by(name, *nodes, node) for link in nodes for name in link.output):
        raise Declined("a slice has other consumers")
    starts = [(part.by_axis[axes[0]].start, part.by_axis[axes[1]].start) for part in parts]
    if len(set(starts)) < len(starts):
        raise Declined("a slice is missing")
    if not all(
        isinstance(size, int) and size > 0 and size % step == 0 for size in shape[axes[0] :][:2]
    ):
        raise Declined("the dimensions are not known to be multiples of the step")
    return Blocks(source, shape, axes[0], step, starts, nodes)
