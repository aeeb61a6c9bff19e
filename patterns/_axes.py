"""Axes counted from the front."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.facts.dims import Dim
from xoptim.match import GraphView, Node


def axis_of(g: GraphView, node: Node) -> int | None:
    """The attribute ``axis`` of a node, its schema default included, counted from the front of its first operand.

    Returns:
        ``None`` when it is negative and the rank is unknown.
    """
    axis = node.get_attribute("axis")
    rank = g.info(node.input[0]).rank
    if not isinstance(axis, int) or (axis < 0 and rank is None):
        return None
    return axis if axis >= 0 or rank is None else axis + rank


def permutation(g: GraphView, node: Node) -> list[int] | None:
    """The permutation of a Transpose, the default included; ``None`` for another node or an unknown rank."""
    if node.op_type != "Transpose":
        return None
    rank = g.info(node.input[0]).rank
    perm = node.get_attribute("perm")
    return list(range(rank))[::-1] if perm is None and rank is not None else perm


def size_along(g: GraphView, name: str, axis: int) -> Dim | None:
    """The dimension of a result along an axis, ``None`` when unknown."""
    shape = g.try_infer_shape(name)
    return shape[axis] if shape is not None and axis < len(shape) else None


def agree_elsewhere(g: GraphView, names: Sequence[str], axis: int) -> bool:
    """Whether tensors are known to have equal shapes but for one axis, as Concat requires.

    onnxruntime concatenates empty tensors of any shape, so a run without an error does not prove that these shapes agree.
    """
    shapes = [g.try_infer_shape(name) for name in names]
    first = shapes[0]
    if first is None:
        return False
    return all(s is not None and s[:axis] == first[:axis] and s[axis + 1 :] == first[axis + 1 :] for s in shapes)
