"""MaxUnpool."""

from __future__ import annotations

from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, fresh_shape, integers, known, shape_of, vector
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.windows import read_window, unwindowed_shape


@infers("MaxUnpool")
def max_unpool(ctx: NodeContext) -> Results:
    """Inputs X, I and, since operator set 9, the whole shape of the result."""
    x = ctx.input(0)
    shape = shape_of(x)
    if ctx.input(2) is not None:
        sizes = vector(ctx, 2)
        if sizes is not None:
            return [Info(dtype_of(x), tuple(known(ctx, size) for size in sizes))]
        return [Info(dtype_of(x), None if shape is None else fresh_shape(ctx, len(shape)))]
    if shape is None or len(shape) < 3:
        return [Info(dtype_of(x))]
    spatial = len(shape) - 2
    window = read_window(ctx, spatial, dilated=False, auto_pad=False)
    kernel = integers(ctx, "kernel_shape", spatial)
    return [Info(dtype_of(x), (*shape[:2], *unwindowed_shape(ctx, shape[2:], kernel, window, [0] * spatial)))]
