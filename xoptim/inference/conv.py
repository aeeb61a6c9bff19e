"""Convolutions: plain, quantized, fused, deformable, channels last and transposed."""

from onnx import TensorProto

from xoptim.facts.info import Shape
from xoptim.inference.arguments import fresh_shape, integer, integers, known, natural, shapes
from xoptim.inference.registry import NodeContext
from xoptim.inference.windows import read_window, spatial_axes, unwindowed_shape, windowed_shape


def convolution_shape(
    ctx: NodeContext, x: Shape | None, w: Shape | None, *, channels_last: bool = False, auto_pad: bool = True
) -> Shape | None:
    """Shape of a convolution of ``x`` (N, C, ...) with ``w`` (M, C/group, ...); ``None`` when no rank is known.

    With ``channels_last`` data and result are (N, ..., C); the weights have one layout. ``auto_pad``: whether the operator
    has the attribute.
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


@shapes("Conv", operands=(0, 1))
@shapes("ConvInteger", dtype=TensorProto.INT32, operands=(0, 1))
@shapes("QLinearConv", typed_by=(7,), operands=(0, 3))  # 7 is the zero point of the result
@shapes("FusedConv", operands=(0, 1), domain="com.microsoft")
def conv(ctx: NodeContext, x: Shape | None, w: Shape | None) -> Shape | None:
    """Data and weights, (N, C, ...) and (M, C/group, ...)."""
    return convolution_shape(ctx, x, w)


@shapes("DeformConv", operands=(0, 1))
def deform_conv(ctx: NodeContext, x: Shape | None, w: Shape | None) -> Shape | None:
    """There is no ``auto_pad``."""
    return convolution_shape(ctx, x, w, auto_pad=False)


@shapes("NhwcConv", "NhwcFusedConv", operands=(0, 1), domain="com.microsoft")
def nhwc_conv(ctx: NodeContext, x: Shape | None, w: Shape | None) -> Shape | None:
    """X is (N, ..., C), W (M, C/group, ...)."""
    return convolution_shape(ctx, x, w, channels_last=True)


@shapes("QLinearConv", typed_by=(7,), operands=(0, 3), domain="com.microsoft")
def qlinear_conv(ctx: NodeContext, x: Shape | None, w: Shape | None) -> Shape | None:
    """As the standard operator, in either layout."""
    last = integer(ctx, "channels_last", 0)
    return None if last is None else convolution_shape(ctx, x, w, channels_last=bool(last))


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
        extra = [0] * spatial if ctx.attribute("output_padding") is None else integers(ctx, "output_padding", spatial)
        window = None if extra is None else read_window(ctx, spatial)
        sizes = unwindowed_shape(ctx, x[2:], kernel, window, extra or [0] * spatial)
    return (batch, channels, *sizes)
