"""Normalization over the last axes: LayerNormalization, RMSNormalization and their relatives in onnxruntime."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import dtype_of, integer, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


def _statistics(ctx: NodeContext, shape: Shape | None) -> Info:
    """One number per normalized block, in the precision of ``stash_type``."""
    dtype = integer(ctx, "stash_type", TensorProto.FLOAT) or 0
    axis = None if shape is None else normalized(integer(ctx, "axis", -1), len(shape))
    if shape is None or axis is None:
        return Info(dtype)
    return Info(dtype, (*shape[:axis], *[1] * (len(shape) - axis)))


@infers("LayerNormalization")
def layer_normalization(ctx: NodeContext) -> Results:
    """Y like X, then mean and inverse standard deviation."""
    x = ctx.input(0)
    shape = shape_of(x)
    statistics = _statistics(ctx, shape) if ctx.num_outputs > 1 else None
    return [Info(dtype_of(x), shape), statistics, statistics]


@infers("RMSNormalization")
def rms_normalization(ctx: NodeContext) -> Results:
    """Y has the shape of X and the type of the scale, which is that of X in every model that runs."""
    x = ctx.input(0)
    return [Info(dtype_of(ctx.input(1)) or dtype_of(x), shape_of(x))]


@infers("SimplifiedLayerNormalization")
@infers("SimplifiedLayerNormalization", domain="com.microsoft")
def simplified_layer_normalization(ctx: NodeContext) -> Results:
    """Forerunner of the above in onnxruntime: Y has the type of the scale; then the inverse deviation."""
    shape = shape_of(ctx.input(0))
    statistics = _statistics(ctx, shape) if ctx.num_outputs > 1 else None
    return [Info(dtype_of(ctx.input(1)), shape), statistics]
