"""onnxruntime's convolutions and pools: fused, quantized, channels last."""

from __future__ import annotations

from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, integer, shape_of
from xoptim.inference.conv import convolution_shape
from xoptim.inference.pooling import pooled_shape
from xoptim.inference.registry import NodeContext, Results, infers


@infers("FusedConv", domain="com.microsoft")
def fused_conv(ctx: NodeContext) -> Results:
    """Inputs X, W, B, and Z which is added."""
    x = ctx.input(0)
    return [Info(dtype_of(x), convolution_shape(ctx, shape_of(x), shape_of(ctx.input(1))))]


@infers("NhwcConv", "NhwcFusedConv", domain="com.microsoft")
def nhwc_conv(ctx: NodeContext) -> Results:
    """X is (N, ..., C), W (M, C/group, ...)."""
    x = ctx.input(0)
    return [Info(dtype_of(x), convolution_shape(ctx, shape_of(x), shape_of(ctx.input(1)), channels_last=True))]


@infers("QLinearConv", domain="com.microsoft")
def qlinear_conv_microsoft(ctx: NodeContext) -> Results:
    """As the standard operator, in either layout."""
    dtype, last = dtype_of(ctx.input(7)), integer(ctx, "channels_last", 0)
    if last is None:
        return [Info(dtype)]
    x, w = shape_of(ctx.input(0)), shape_of(ctx.input(3))
    return [Info(dtype, convolution_shape(ctx, x, w, channels_last=bool(last)))]


@infers("NhwcMaxPool", domain="com.microsoft")
def nhwc_max_pool(ctx: NodeContext) -> Results:
    """X is (N, ..., C)."""
    x = ctx.input(0)
    return [Info(dtype_of(x), pooled_shape(ctx, shape_of(x), dilated=True, channels_last=True))]


@infers("QLinearAveragePool", domain="com.microsoft")
def qlinear_average_pool(ctx: NodeContext) -> Results:
    """Either layout, no dilation."""
    x, last = ctx.input(0), integer(ctx, "channels_last", 0)
    if last is None:
        return [Info(dtype_of(x))]
    return [Info(dtype_of(x), pooled_shape(ctx, shape_of(x), dilated=False, channels_last=bool(last)))]


@infers("QLinearGlobalAveragePool", domain="com.microsoft")
def qlinear_global_average_pool(ctx: NodeContext) -> Results:
    """Spatial axes become 1, in either layout."""
    x, last = ctx.input(0), integer(ctx, "channels_last", 0)
    shape = shape_of(x)
    if shape is None or len(shape) < 3 or last is None:
        return [Info(dtype_of(x))]
    ones = (1,) * (len(shape) - 2)
    return [Info(dtype_of(x), (shape[0], *ones, shape[-1]) if last else (*shape[:2], *ones))]
