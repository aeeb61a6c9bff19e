"""RoiAlign, MaxRoiPool, NonMaxSuppression."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info
from xoptim.inference.arguments import dim_of, dtype_of, integer, integers, known
from xoptim.inference.registry import NodeContext, Results, infers


@infers("RoiAlign")
def roi_align(ctx: NodeContext) -> Results:
    """X (N, C, H, W), rois (R, 4), batch_indices (R) give (R, C, output_height, output_width)."""
    x, height, width = ctx.input(0), integer(ctx, "output_height", 1), integer(ctx, "output_width", 1)
    regions = known(ctx, dim_of(ctx.input(1), 0, 2), dim_of(ctx.input(2), 0, 1))
    return [Info(dtype_of(x), (regions, known(ctx, dim_of(x, 1, 4)), known(ctx, height), known(ctx, width)))]


@infers("MaxRoiPool")
def max_roi_pool(ctx: NodeContext) -> Results:
    """X (N, C, H, W) and rois (R, 5) give (R, C, *pooled_shape)."""
    x = ctx.input(0)
    pooled = tuple(known(ctx, size) for size in integers(ctx, "pooled_shape", 2) or (None, None))
    return [Info(dtype_of(x), (known(ctx, dim_of(ctx.input(1), 0, 2)), known(ctx, dim_of(x, 1, 4)), *pooled))]


@infers("NonMaxSuppression")
def non_max_suppression(ctx: NodeContext) -> Results:
    """Rows (batch, class, box), whose number depends on the values of the inputs."""
    return [Info(TensorProto.INT64, (ctx.fresh(), 3))]
