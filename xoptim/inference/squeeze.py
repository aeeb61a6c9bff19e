"""Squeeze and Unsqueeze."""

from __future__ import annotations

from xoptim.facts.dims import is_never_one
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import fresh_shape, is_given, listed, listed_count
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import valued


@infers("Squeeze")
def squeeze(ctx: NodeContext) -> Results:
    """Drops the axes named or, where none is (an empty list counts as none), all of size 1: unknown where a symbol may be 1."""
    x = ctx.input(0)
    if x is None or x.container:
        return ()
    axes, count = (listed(ctx, "axes"), listed_count(ctx, "axes")) if is_given(ctx, "axes") else ([], 0)
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
    axes, count = listed(ctx, "axes"), listed_count(ctx, "axes")
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
