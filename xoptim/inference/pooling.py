"""Pools, and their inverse MaxUnpool."""

from onnx import TensorProto

from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dtype_of, fresh_shape, integer, integers, known, shape_of, shapes, vector
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.windows import read_window, unwindowed_shape, windowed_shape


def pooled_shape(ctx: NodeContext, x: Shape | None, *, dilated: bool, channels_last: bool = False) -> Shape | None:
    """Shape of a pool over ``x``, (N, C, ...) or (N, ..., C) with ``channels_last``."""
    if x is None or len(x) < 3:
        return None
    spatial = len(x) - 2
    window = read_window(ctx, spatial, dilated=dilated)
    kernel = integers(ctx, "kernel_shape", spatial)
    sizes = windowed_shape(ctx, x[1:-1] if channels_last else x[2:], kernel, window)
    return (x[0], *sizes, x[-1]) if channels_last else (x[0], x[1], *sizes)


@infers("MaxPool")
def max_pool(ctx: NodeContext) -> Results:
    """Values and, if it is an output, their positions in the flattened input."""
    x = ctx.input(0)
    shape = pooled_shape(ctx, shape_of(x), dilated=ctx.opset >= 10)
    return [Info(dtype_of(x), shape), Info(TensorProto.INT64, shape)]


@shapes("AveragePool")
def average_pool(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """Dilations exist since operator set 19."""
    return pooled_shape(ctx, x, dilated=ctx.opset >= 19)


@shapes("LpPool")
def lp_pool(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """Dilations and ``ceil_mode`` exist since operator set 18."""
    return pooled_shape(ctx, x, dilated=ctx.opset >= 18)


@shapes("NhwcMaxPool", domain="com.microsoft")
def nhwc_max_pool(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """X is (N, ..., C)."""
    return pooled_shape(ctx, x, dilated=True, channels_last=True)


@shapes("QLinearAveragePool", domain="com.microsoft")
def qlinear_average_pool(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """Either layout, no dilation."""
    last = integer(ctx, "channels_last", 0)
    return None if last is None else pooled_shape(ctx, x, dilated=False, channels_last=bool(last))


@shapes("QLinearGlobalAveragePool", domain="com.microsoft")
def qlinear_global_average_pool(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """Spatial axes become 1, in either layout."""
    last = integer(ctx, "channels_last", 0)
    if x is None or len(x) < 3 or last is None:
        return None
    ones = (1,) * (len(x) - 2)
    return (x[0], *ones, x[-1]) if last else (*x[:2], *ones)


@shapes("MaxUnpool")
def max_unpool(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """Inputs X, I and, since operator set 9, the whole shape of the result."""
    if ctx.input(2) is not None:
        sizes = vector(ctx, 2)
        if sizes is not None:
            return tuple(known(ctx, size) for size in sizes)
        return None if x is None else fresh_shape(ctx, len(x))
    if x is None or len(x) < 3:
        return None
    spatial = len(x) - 2
    window = read_window(ctx, spatial, dilated=False, auto_pad=False)
    kernel = integers(ctx, "kernel_shape", spatial)
    return (*x[:2], *unwindowed_shape(ctx, x[2:], kernel, window, [0] * spatial))
