"""Pools, and their inverse MaxUnpool."""

from onnx import TensorProto

from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dtype_of, fresh_shape, integers, known, shape_of, shapes, vector
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.windows import is_channels_last, read_window, unwindowed_shape, windowed_shape

_DILATED_SINCE = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18, "NhwcMaxPool": 1}
"""Operator sets from which pools can have dilations; QLinearAveragePool has none."""


@shapes("AveragePool", "LpPool")
@shapes("NhwcMaxPool", "QLinearAveragePool", domain="com.microsoft")
def pool(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """X is (N, C, ...) or (N, ..., C)."""
    channels_last = is_channels_last(ctx)
    if x is None or len(x) < 3 or channels_last is None:
        return None
    spatial, since = len(x) - 2, _DILATED_SINCE.get(ctx.op_type)
    window = read_window(ctx, spatial, dilated=since is not None and ctx.opset >= since)
    sizes = windowed_shape(ctx, x[1:-1] if channels_last else x[2:], integers(ctx, "kernel_shape", spatial), window)
    return (x[0], *sizes, x[-1]) if channels_last else (x[0], x[1], *sizes)


@infers("MaxPool")
def max_pool(ctx: NodeContext) -> Results:
    """Values and, if it is an output, their positions in the flattened input."""
    x = ctx.input(0)
    shape = pool(ctx, shape_of(x))
    return [Info(dtype_of(x), shape), Info(TensorProto.INT64, shape)]


@shapes("QLinearGlobalAveragePool", domain="com.microsoft")
def qlinear_global_average_pool(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """Spatial axes become 1, in either layout."""
    last = is_channels_last(ctx)
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
    window = read_window(ctx, spatial, dilated=False)
    return (*x[:2], *unwindowed_shape(ctx, x[2:], integers(ctx, "kernel_shape", spatial), window, [0] * spatial))
