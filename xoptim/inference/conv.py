"""Conv and its quantized, fused and deformable variants."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dtype_of, fresh_shape, integers, shape_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.windows import read_window, spatial_axes, windowed_shape


def convolution_shape(
    ctx: NodeContext, x: Shape | None, w: Shape | None, *, channels_last: bool = False, auto_pad: bool = True
) -> Shape | None:
    """Shape of a convolution of ``x`` (N, C, ...) with ``w`` (M, C/group, ...); ``None`` when no rank is known.

    Args:
        ctx: the node.
        x: shape of the data, (N, ..., C) with ``channels_last``.
        w: shape of the weights, channels second in both layouts.
        channels_last: layout of data and result.
        auto_pad: whether the operator has the attribute.
    """
    spatial = spatial_axes(x, w)
    if spatial is None:
        return None
    batch = x[0] if x is not None else ctx.fresh()
    channels = w[0] if w is not None else ctx.fresh()
    if x is None:
        sizes = fresh_shape(ctx, spatial)
    else:
        kernel = integers(ctx, "kernel_shape", spatial) or (None if w is None else w[2:])
        data = x[1:-1] if channels_last else x[2:]
        sizes = windowed_shape(ctx, data, kernel, read_window(ctx, spatial, auto_pad=auto_pad))
    return (batch, *sizes, channels) if channels_last else (batch, channels, *sizes)


@infers("Conv")
def conv(ctx: NodeContext) -> Results:
    """Inputs X, W, B."""
    x = ctx.input(0)
    return [Info(dtype_of(x), convolution_shape(ctx, shape_of(x), shape_of(ctx.input(1))))]


@infers("ConvInteger")
def conv_integer(ctx: NodeContext) -> Results:
    """Inputs x, w, and zero points; the sums are 32-bit integers."""
    return [Info(TensorProto.INT32, convolution_shape(ctx, shape_of(ctx.input(0)), shape_of(ctx.input(1))))]


@infers("QLinearConv")
def qlinear_conv(ctx: NodeContext) -> Results:
    """Inputs x, w at 0 and 3; the zero point of the result (7) has its type."""
    return [Info(dtype_of(ctx.input(7)), convolution_shape(ctx, shape_of(ctx.input(0)), shape_of(ctx.input(3))))]


@infers("DeformConv")
def deform_conv(ctx: NodeContext) -> Results:
    """Inputs X, W, offset, B, mask; there is no ``auto_pad``."""
    x = ctx.input(0)
    return [Info(dtype_of(x), convolution_shape(ctx, shape_of(x), shape_of(ctx.input(1)), auto_pad=False))]
