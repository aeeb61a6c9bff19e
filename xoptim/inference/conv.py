"""Convolutions: plain, quantized, fused, deformable, channels last and transposed."""

from onnx import TensorProto

from xoptim.facts.info import Shape
from xoptim.inference.arguments import fresh_shape, integers, known, natural, shapes
from xoptim.inference.registry import NodeContext
from xoptim.inference.windows import is_channels_last, read_window, spatial_axes, unwindowed_shape, windowed_shape


@shapes("Conv", "DeformConv", operands=(0, 1))
@shapes("ConvInteger", dtype=TensorProto.INT32, operands=(0, 1))
@shapes("QLinearConv", typed_by=(7,), operands=(0, 3))  # 7 is the zero point of the result
@shapes("QLinearConv", typed_by=(7,), operands=(0, 3), domain="com.microsoft")
@shapes("FusedConv", "NhwcConv", "NhwcFusedConv", operands=(0, 1), domain="com.microsoft")
def conv(ctx: NodeContext, x: Shape | None, w: Shape | None) -> Shape | None:
    """Data (N, C, ...), or (N, ..., C), and weights (M, C/group, ...) in one layout; ``None`` when no rank is known."""
    spatial, channels_last = spatial_axes(x, w), is_channels_last(ctx)
    if spatial is None or channels_last is None:
        return None
    batch = x[0] if x is not None else ctx.fresh()
    channels = w[0] if w is not None else ctx.fresh()
    if x is None:
        sizes = fresh_shape(ctx, spatial)
    else:
        kernel = integers(ctx, "kernel_shape", spatial) or (None if w is None else w[2:])
        data = x[1:-1] if channels_last else x[2:]
        sizes = windowed_shape(ctx, data, kernel, read_window(ctx, spatial))
    return (batch, *sizes, channels) if channels_last else (batch, channels, *sizes)


@shapes("ConvTranspose", operands=(0, 1))
def conv_transpose(ctx: NodeContext, x: Shape | None, w: Shape | None) -> Shape | None:
    """Inputs X (N, C, ...), W (C, M/group, ...), B; attribute ``output_shape`` gives the spatial sizes directly."""
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
        extra = integers(ctx, "output_padding", spatial, 0)
        window = None if extra is None else read_window(ctx, spatial)
        sizes = unwindowed_shape(ctx, x[2:], kernel, window, extra or [0] * spatial)
    return (batch, channels, *sizes)
