"""ConvTranspose."""

from __future__ import annotations

from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dtype_of, fresh_shape, integers, known, natural, shape_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.windows import read_window, spatial_axes, unwindowed_shape


def _transposed_shape(ctx: NodeContext, x: Shape | None, w: Shape | None) -> Shape | None:
    spatial = spatial_axes(x, w)
    if spatial is None:
        return None
    batch = x[0] if x is not None else ctx.fresh()
    group = natural(ctx, "group", 1)
    channels = w[1] * group if w is not None and group is not None else ctx.fresh()
    if ctx.attribute("output_shape") is not None:
        sizes: Shape = tuple(known(ctx, size) for size in integers(ctx, "output_shape", spatial) or [-1] * spatial)
    elif x is None:
        sizes = fresh_shape(ctx, spatial)
    else:
        kernel = integers(ctx, "kernel_shape", spatial) or (None if w is None else w[2:])
        extra = [0] * spatial if ctx.attribute("output_padding") is None else integers(ctx, "output_padding", spatial)
        window = None if extra is None else read_window(ctx, spatial)
        sizes = unwindowed_shape(ctx, x[2:], kernel, window, extra or [0] * spatial)
    return (batch, channels, *sizes)


@infers("ConvTranspose")
def conv_transpose(ctx: NodeContext) -> Results:
    """Inputs X (N, C, ...), W (C, M/group, ...), B; attribute ``output_shape`` gives the spatial sizes directly."""
    x = ctx.input(0)
    return [Info(dtype_of(x), _transposed_shape(ctx, shape_of(x), shape_of(ctx.input(1))))]
