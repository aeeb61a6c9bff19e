"""Squeeze and Unsqueeze."""

from __future__ import annotations

from xoptim.facts.dims import is_never_one
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import dim_of, fresh_shape, integers
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import valued


def _axes(ctx: NodeContext) -> tuple[list[int] | None, int | None]:
    """The axes and their number, each ``None`` when unknown: an input since operator set 13, an attribute before."""
    axes = integers(ctx, "axes") if ctx.opset < 13 else ctx.ints(1)
    if axes is not None:
        return axes, len(axes)
    count = dim_of(ctx.input(1), 0, 1) if ctx.opset >= 13 else None
    return None, count if type(count) is int else None


@infers("Squeeze")
def squeeze(ctx: NodeContext) -> Results:
    """Drops the axes named or, where none is (an empty list counts as none), all of size 1: unknown where a symbol may be 1."""
    x = ctx.input(0)
    if x is None or x.container:
        return ()
    absent = ctx.input(1) is None if ctx.opset >= 13 else ctx.attribute("axes") is None
    axes, count = ([], 0) if absent else _axes(ctx)
    return (valued(x.dtype, _squeezed(ctx, x.shape, axes, count), x.data),)


def _squeezed(ctx: NodeContext, shape: Shape | None, axes: list[int] | None, count: int | None) -> Shape | None:
    if shape is None or count is None:
        return None
    rank = len(shape)
    if count == 0:
        kept = tuple(dim for dim in shape if dim != 1)
        return kept if all(is_never_one(dim) for dim in kept) else None  # even the rank depends on a symbol that may be 1
    if axes is None:
        return fresh_shape(ctx, rank - count) if count <= rank else None
    dropped = {normalized(axis, rank) for axis in axes}
    if None in dropped:
        return None
    return tuple(dim for axis, dim in enumerate(shape) if axis not in dropped)


@infers("Unsqueeze")
def unsqueeze(ctx: NodeContext) -> Results:
    """Axes are places in the result."""
    x = ctx.input(0)
    if x is None or x.container:
        return ()
    axes, count = _axes(ctx)
    if x.shape is None or count is None:
        return (Info(x.dtype),)
    rank = len(x.shape) + count
    if axes is None:
        return (valued(x.dtype, fresh_shape(ctx, rank), x.data),)
    places = {normalized(axis, rank) for axis in axes}
    if None in places or len(places) < count:  # out of range, or listed twice
        return (Info(x.dtype),)
    rest = iter(x.shape)
    return (valued(x.dtype, tuple([1 if axis in places else next(rest) for axis in range(rank)]), x.data),)
