"""Slices of one axis between constant bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xoptim.facts.dims import Dim, is_nonnegative
from xoptim.match import AT_RUN_TIME, GraphView, Node

_FAR: Final = 2**31 - 1
"""Positions from here on stand for the end of the axis."""


@dataclass(frozen=True)
class Cut:
    """The part that a Slice takes: from ``start`` to before ``end``, both within the axis, by steps of 1.

    Attributes:
        node: the Slice.
        axis: counted from the front.
        start: first position.
        end: position behind the last one, larger than ``start``.
        size: length of the axis.
    """

    node: Node
    axis: int
    start: int
    end: int
    size: int


def cut_of(g: GraphView, node: Node) -> Cut | None:
    """Return the part that a Slice takes; ``None`` for an empty part, several axes, other steps, or unknown bounds."""
    shape = g.try_infer_shape(node.input[0]) if node.op_type == "Slice" and not node.domain else None
    if shape is None:
        return None
    starts, ends, axes = (g.get_argument(node, name) for name in ("starts", "ends", "axes"))
    if AT_RUN_TIME in (starts, ends, axes):
        return None
    axes = [0] if axes is None else axes
    steps = g.get_ints(node.input[4]) if len(node.input) > 4 and node.input[4] else [1]
    if starts is None or ends is None or axes is None or steps != [1] or not len(starts) == len(ends) == len(axes) == 1:
        return None
    axis = axes[0] % len(shape) if shape else 0
    size = shape[axis] if shape else None
    if not isinstance(size, int):
        return None
    start, end, _ = slice(starts[0], ends[0]).indices(size)
    return Cut(node, axis, start, end, size) if start < end else None


def span_of(g: GraphView, node: Node) -> tuple[int, Dim, Dim] | None:
    """Axis, start and end of a Slice along one axis by steps of 1, numbers or symbols, counted from the front.

    Returns:
        ``None`` when one of them is not known. The end may lie beyond the axis.
    """
    shape = g.try_infer_shape(node.input[0])
    axis = None if shape is None else _axis(g, node, len(shape))
    if shape is None or axis is None:
        return None
    bounds = [_bound(g, node, name, place) for name, place in (("starts", 1), ("ends", 2))]
    start, end = (_from_front(bound, shape[axis]) for bound in bounds)
    return None if start is None or end is None else (axis, start, end)


def _axis(g: GraphView, node: Node, rank: int) -> int | None:
    """The only axis that a Slice by steps of 1 cuts, ``None`` when there are others or it is not known."""
    absent = len(node.input) < 4 or not node.input[3] if node.opset >= 10 else node.attribute.get("axes") is None
    axes = [0] if absent else g.get_argument(node, "axes")
    steps = g.get_ints(node.input[4]) if len(node.input) > 4 and node.input[4] else [1]
    starts = node.get_attribute("starts") if node.opset < 10 else g.try_infer_shape(node.input[1])
    count = starts[0] if node.opset >= 10 and starts else len(starts or ())
    if not isinstance(axes, list) or len(axes) != 1 or steps != [1] or count != 1 or not -rank <= axes[0] < rank:
        return None
    return axes[0] % rank


def _bound(g: GraphView, node: Node, name: str, place: int) -> Dim | None:
    written = g.get_argument(node, name)
    if not isinstance(written, list):
        written = g.info(node.input[place]).data if node.opset >= 10 else None
    return written[0] if written is not None and len(written) == 1 else None


def _from_front(position: Dim | None, size: Dim) -> Dim | None:
    if isinstance(position, int):
        return size if position >= _FAR else position + size if position < 0 else position
    return position if position is not None and is_nonnegative(position) else None
