"""DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from xoptim.facts.dims import Dim, floor_div
from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, fresh_shape, integer, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


@infers("DepthToSpace")
def depth_to_space(ctx: NodeContext) -> Results:
    """(N, C, H, W) becomes (N, C / b^2, H * b, W * b)."""
    return (_moved(ctx, to_space=True),)


@infers("SpaceToDepth")
def space_to_depth(ctx: NodeContext) -> Results:
    """(N, C, H, W) becomes (N, C * b^2, H / b, W / b)."""
    return (_moved(ctx, to_space=False),)


def _moved(ctx: NodeContext, *, to_space: bool) -> Info:
    x = ctx.input(0)
    shape, block = shape_of(x, 4), integer(ctx, "blocksize")
    if shape is None or block is None or block < 1:
        return Info(dtype_of(x), None if shape_of(x) is None else fresh_shape(ctx, 4))
    batch, channels, height, width = shape
    if to_space:
        return Info(dtype_of(x), (batch, _part(ctx, channels, block * block), height * block, width * block))
    return Info(dtype_of(x), (batch, channels * (block * block), _part(ctx, height, block), _part(ctx, width, block)))


def _part(ctx: NodeContext, dim: Dim, count: int) -> Dim:
    """The quotient; a symbol for a number that is not divisible, since the model is invalid."""
    return ctx.fresh() if type(dim) is int and dim % count else floor_div(dim, count)
