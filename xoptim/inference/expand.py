"""Expand and Tile."""

from __future__ import annotations

from xoptim.facts.dims import Dim, broadcast
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import broadcast_shapes
from xoptim.inference.arguments import dim_of, fresh_shape, vector
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import DATA_LIMIT, Values, dimension, valued


@infers("Expand")
def expand(ctx: NodeContext) -> Results:
    """The input broadcast against a shape, in both directions: a 1 in the shape keeps the dimension of the input."""
    x = ctx.input(0)
    if x is None or x.container:
        return ()
    target = vector(ctx, 1)
    if target is None:
        return (Info(x.dtype, _unknown_target(ctx, x.shape, dim_of(ctx.input(1), 0, 1))),)
    sizes = tuple([dimension(ctx, size) for size in target])
    shape = broadcast_shapes(x.shape, sizes)
    if shape is x.shape and x.data is None:
        return (x,)
    return (valued(x.dtype, shape, _repeated(x.data, shape)),)


def _unknown_target(ctx: NodeContext, shape: Shape | None, count: Dim | None) -> Shape | None:
    """Result for a shape of which only the length is known: it may stretch axes of size 1 only."""
    if shape is None or type(count) is not int:
        return None
    lead = len(shape) - count
    padded = (1,) * -lead + shape if lead < 0 else shape
    return tuple([dim if axis < lead else broadcast(dim, ctx.fresh()) for axis, dim in enumerate(padded)])


def _repeated(data: Values | None, shape: Shape | None) -> Values | None:
    if data is None or shape is None or len(data) != 1 or len(shape) != 1:
        return data
    size = shape[0]
    return data * size if type(size) is int and size <= DATA_LIMIT else None


@infers("Tile")
def tile(ctx: NodeContext) -> Results:
    """``repeats`` has one number per axis; before operator set 6 a count and an axis were given."""
    x = ctx.input(0)
    if x is None or x.container:
        return ()
    shape = x.shape
    if ctx.opset < 6:
        return (Info(x.dtype, None if shape is None else fresh_shape(ctx, len(shape))),)
    repeats = vector(ctx, 1)
    if repeats is None:
        count = dim_of(ctx.input(1), 0, 1) if shape is None else len(shape)
        return (Info(x.dtype, fresh_shape(ctx, count) if type(count) is int else None),)
    if shape is None:
        return (Info(x.dtype, fresh_shape(ctx, len(repeats))),)
    if len(shape) != len(repeats):
        return (Info(x.dtype),)
    tiled = tuple([dim if times == 1 else dimension(ctx, dim * times) for dim, times in zip(shape, repeats, strict=True)])
    return (valued(x.dtype, tiled, _tiled(x.data, tiled)),)


def _tiled(data: Values | None, shape: Shape) -> Values | None:
    size = shape[0] if len(shape) == 1 else len(data or ())
    if not data or type(size) is not int or size > DATA_LIMIT:
        return data if data == () else None
    return data * (size // len(data))
