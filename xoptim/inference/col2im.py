"""Col2Im."""

from __future__ import annotations

from xoptim.facts.dims import Dim, exact_quotient, product
from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dim_of, dtype_of, fresh_shape, integers, known, shape_of, vector
from xoptim.inference.registry import NodeContext, Results, infers


@infers("Col2Im")
def col2im(ctx: NodeContext) -> Results:
    """Inputs (N, C * prod(block), L), image_shape, block_shape; result (N, C, *image_shape)."""
    x = ctx.input(0)
    image, block = vector(ctx, 1), vector(ctx, 2)
    spatial = _spatial_axes(ctx)
    if spatial is None:
        return [Info(dtype_of(x))]
    columns = shape_of(x, 3)
    channels: Dim | None = None
    if columns is not None and block is not None:
        channels = exact_quotient(columns[1], product(block))
    batch = columns[0] if columns is not None else ctx.fresh()
    sizes: Shape = tuple(known(ctx, size) for size in image) if image is not None else fresh_shape(ctx, spatial)
    return [Info(dtype_of(x), (batch, known(ctx, channels), *sizes))]


def _spatial_axes(ctx: NodeContext) -> int | None:
    """Number of axes of the image, from any operand or attribute that determines it."""
    for index in (1, 2):
        data = vector(ctx, index)
        length = len(data) if data is not None else dim_of(ctx.input(index), 0, 1)
        if type(length) is int:
            return length
    for name, per_axis in (("strides", 1), ("dilations", 1), ("pads", 2)):
        values = integers(ctx, name)
        if values is not None and len(values) % per_axis == 0:
            return len(values) // per_axis
    return None
