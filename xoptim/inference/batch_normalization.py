"""BatchNormalization."""

from __future__ import annotations

from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dtype_of, integer, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


@infers("BatchNormalization")
def batch_normalization(ctx: NodeContext) -> Results:
    """Inputs X, scale, B, mean, var; the outputs after the first hold statistics, shaped and typed like ``mean``."""
    x, mean = ctx.input(0), ctx.input(3)
    shape = shape_of(x)
    statistics: Shape | None = shape_of(mean)
    per_channel = ctx.opset >= 9 or integer(ctx, "spatial", 1) == 1
    if statistics is None and shape is not None and len(shape) > 1 and per_channel:
        statistics = (shape[1],)
    dtype = dtype_of(mean) or (dtype_of(x) if ctx.opset < 14 else 0)
    return [Info(dtype_of(x), shape), *[Info(dtype, statistics)] * 4]
