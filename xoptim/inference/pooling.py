"""MaxPool, AveragePool, LpPool."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dtype_of, integers, shape_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.windows import read_window, windowed_shape


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


@infers("AveragePool")
def average_pool(ctx: NodeContext) -> Results:
    """Dilations exist since operator set 19."""
    x = ctx.input(0)
    return [Info(dtype_of(x), pooled_shape(ctx, shape_of(x), dilated=ctx.opset >= 19))]


@infers("LpPool")
def lp_pool(ctx: NodeContext) -> Results:
    """Dilations and ``ceil_mode`` exist since operator set 18."""
    x = ctx.input(0)
    return [Info(dtype_of(x), pooled_shape(ctx, shape_of(x), dilated=ctx.opset >= 18))]
