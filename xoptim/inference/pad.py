"""Pad."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import fresh_shape, integers, is_given, listed, listed_count, listed_dims
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import dimension


@infers("Pad")
def pad(ctx: NodeContext) -> Results:
    """Amounts are all begins, then all ends; negative ones crop."""
    x = ctx.input(0)
    if x is None or x.container:
        return ()
    pads = listed_dims(ctx, "pads") if ctx.opset >= 2 else integers(ctx, "paddings")
    some_axes = is_given(ctx, "axes")
    if x.shape is None:
        return (Info(x.dtype, None if some_axes else _of_unknown(ctx, pads)),)
    rank = len(x.shape)
    axes = _axes(listed(ctx, "axes"), rank) if some_axes else list(range(rank))
    if axes is None or (pads is not None and len(pads) != 2 * len(axes)):
        return (Info(x.dtype, fresh_shape(ctx, rank)),)
    dims = list(x.shape)
    for index, axis in enumerate(axes):
        size = None if pads is None else dims[axis] + pads[index] + pads[index + len(axes)]
        dims[axis] = dimension(ctx, size)
    return (Info(x.dtype, tuple(dims)),)


def _of_unknown(ctx: NodeContext, pads: Sequence[Dim] | None) -> tuple[Dim, ...] | None:
    """There are two amounts per axis, which determines the rank."""
    count = len(pads) if pads is not None else listed_count(ctx, "pads")
    return None if count is None else fresh_shape(ctx, count // 2)


def _axes(written: list[int] | None, rank: int) -> list[int] | None:
    if written is None:
        return None
    axes = [axis for axis in (normalized(axis, rank) for axis in written) if axis is not None]
    return axes if len(set(axes)) == len(written) else None
