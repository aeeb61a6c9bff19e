"""Gather, GatherElements, GatherND."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import dtype_of, integer, shape_of, shapes, vector
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import valued


@infers("Gather")
def gather(ctx: NodeContext) -> Results:
    """The shape of the indices replaces one axis."""
    x = ctx.input(0)
    shape, indices = shape_of(x), shape_of(ctx.input(1))
    axis = None if shape is None else normalized(integer(ctx, "axis", 0), len(shape))
    if x is None or shape is None or indices is None or axis is None:
        return (Info(dtype_of(x)),)
    result = shape[:axis] + indices + shape[axis + 1 :]
    if x.data is None or len(result) > 1:
        return (Info(x.dtype, result),)
    return (valued(x.dtype, result, _picked(x.data, vector(ctx, 1))),)


def _picked(data: Sequence[Dim], indices: Sequence[Dim] | None) -> list[Dim | None] | None:
    if indices is None:
        return None
    size = len(data)
    return [data[i] if type(i) is int and -size <= i < size else None for i in indices]


@shapes("GatherElements", operands=(1,))
def gather_elements(_ctx: NodeContext, indices: Shape | None) -> Shape | None:
    """One element per index."""
    return indices


@shapes("GatherND", operands=(0, 1))
def gather_nd(ctx: NodeContext, shape: Shape | None, indices: Shape | None) -> Shape | None:
    """The last axis of the indices holds positions in the leading axes of the data, after ``batch_dims`` common ones."""
    batch = integer(ctx, "batch_dims", 0) if ctx.opset >= 12 else 0
    if shape is None or not indices or batch is None or not 0 <= batch < len(indices):
        return None
    depth = indices[-1]
    if type(depth) is not int or batch + depth > len(shape):
        return None
    return indices[:-1] + shape[batch + depth :]
