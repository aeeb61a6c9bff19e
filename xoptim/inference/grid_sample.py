"""GridSample and AffineGrid."""

from __future__ import annotations

from xoptim.facts.info import Info
from xoptim.inference.arguments import dim_of, dtype_of, fresh_shape, known, shape_of, vector
from xoptim.inference.registry import NodeContext, Results, infers


@infers("GridSample")
@infers("GridSample", domain="com.microsoft")
def grid_sample(ctx: NodeContext) -> Results:
    """X (N, C, ...) sampled at grid (N, *sizes, axes) gives (N, C, *sizes)."""
    x, grid = shape_of(ctx.input(0)), shape_of(ctx.input(1))
    dtype = dtype_of(ctx.input(0))
    rank = len(x) if x is not None else len(grid) if grid is not None else 0
    if rank < 3 or (grid is not None and len(grid) != rank):
        return [Info(dtype)]
    batch = known(ctx, None if x is None else x[0], None if grid is None else grid[0])
    channels = ctx.fresh() if x is None else x[1]
    return [Info(dtype, (batch, channels, *(fresh_shape(ctx, rank - 2) if grid is None else grid[1:-1])))]


@infers("AffineGrid")
def affine_grid(ctx: NodeContext) -> Results:
    """Matrices theta (N, 2, 3) or (N, 3, 4) and size (N, C, *sizes) give (N, *sizes, 2 or 3)."""
    theta, size = ctx.input(0), vector(ctx, 1)
    length = len(size) if size is not None else dim_of(ctx.input(1), 0, 1)
    axes = dim_of(theta, 1, 3)
    if type(length) is int:
        axes = length - 2
    if type(axes) is not int or axes not in (2, 3):
        return [Info(dtype_of(theta))]
    sizes = tuple(known(ctx, dim) for dim in (size[2:] if size is not None else [None] * axes))
    batch = known(ctx, None if size is None else size[0], dim_of(theta, 0, 3))
    return [Info(dtype_of(theta), (batch, *sizes, axes))]
