"""The two halves of the heads that a rotary embedding turns."""

from typing import NamedTuple

from xoptim.match import GraphView, Node

from .._axes import axis_of, size_along
from .._parts import part_of

_FAR = 2**31 - 1


class Heads(NamedTuple):
    """A part of the last axis of a tensor with four axes.

    Attributes:
        name: the tensor.
        start: the first position.
        end: the position after the last one.
    """

    name: str
    start: int
    end: int


def heads_of(g: GraphView, first: str, second: str, interleaved: bool) -> Heads | None:
    """The heads that two tensors with four axes are the halves of, ``None`` when they are not.

    The size of the first half is a number. Where the halves are interleaved, they are the even and the odd elements, and the
    first one may have a fifth axis of size 1.
    """
    shape = g.try_infer_shape(first)
    if shape is None or g.try_infer_shape(second) != shape or not isinstance(shape[3], int):
        return None
    if interleaved:
        whole = _every_second(g, first, 0)
        dims = None if whole is None else g.try_infer_shape(whole)
        is_whole = dims == (*shape[:3], 2 * shape[3]) and _every_second(g, second, 1) == whole
        return Heads(*part_of(g, whole, 3)) if whole is not None and is_whole else None
    root, start, middle = part_of(g, first, 3)
    end = middle + shape[3]
    return Heads(root, start, end) if part_of(g, second, 3) == (root, middle, end) else None


def _every_second(g: GraphView, name: str, start: int) -> str | None:
    """The tensor that a result holds every second element of along the last axis, from ``start`` on."""
    if g.info(name).rank == 5:
        return _column(g, name, start)
    node = g.node_before(name)
    if node is None or node.domain:
        return None
    if node.op_type == "Slice":
        starts, ends, axes, steps = (g.get_argument(node, key) for key in ("starts", "ends", "axes", "steps"))
        size = (g.try_infer_shape(node.input[0]) or (0,))[-1]
        is_all = isinstance(size, int) and isinstance(ends, list) and len(ends) == 1 and ends[0] >= min(size, _FAR)
        return node.input[0] if is_all and starts == [start] and axes in ([3], [-1]) and steps == [2] else None
    pairs = node.input[0]
    if node.op_type == "Gather":
        if axis_of(g, node) != 4 or g.get_constant_scalar(node.input[1]) != start or g.info(node.input[1]).rank != 0:
            return None
    elif node.op_type == "Squeeze" and g.get_argument(node, "axes") in ([4], [-1]) and g.info(pairs).rank == 5:
        return _column(g, pairs, start)
    else:
        return None
    return _paired(g, g.node_before(pairs))


def _column(g: GraphView, name: str, start: int) -> str | None:
    """The tensor that a result holds one element of each pair of."""
    size = size_along(g, name, 4)
    pairs, place, _ = part_of(g, name, 4) if size == 1 else ("", None, None)
    return _paired(g, g.node_before(pairs)) if place == start else None


def _paired(g: GraphView, node: Node | None) -> str | None:
    """The tensor of shape (..., 2n) that a Reshape makes (..., n, 2) of."""
    if node is None or node.op_type != "Reshape" or node.domain:
        return None
    whole, pairs = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if whole is None or pairs is None or len(pairs) != 5 or pairs[4] != 2 or not isinstance(pairs[3], int):
        return None
    return node.input[0] if whole == (*pairs[:3], 2 * pairs[3]) else None
