"""Convolutions and pools: the sizes of the results of sliding windows, in symbolic arithmetic.

Source: the formulas in the operator documentation of Conv, ConvTranspose and MaxPool. For
``ceil_mode``, the source is the rule of operator set 22, which onnxruntime applies to every
version: a window that starts in the padding at the end is dropped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import Dim, ceil_div, dim_min, floor_div
from xoptim.facts.schema import WINDOWED
from xoptim.facts.shapes import Info, Shape
from xoptim.operators.costs import KnownShapes, one_per_operand_element
from xoptim.operators.inference.arguments import (
    dtype_of,
    fresh_shape,
    integer,
    integers,
    known,
    natural,
    shape_of,
    shapes,
    text,
    vector,
)
from xoptim.operators.protocols import NodeContext, NodeView, Results
from xoptim.operators.registry import Trait, counts, infers, register

_CONTRIB: Final = frozenset(("FusedConv", "NhwcConv"))
register(Trait.WINDOWS, *sorted(WINDOWED - _CONTRIB))
register(Trait.WINDOWS, *sorted(_CONTRIB), domain="com.microsoft")
register(Trait.KEEPS_FINITE, "MaxPool")
register(Trait.SUMS_PRODUCTS, "Conv", "ConvTranspose", "DeformConv")
register(Trait.KEEPS_FLOAT16, "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
register(Trait.ROUNDS, "AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "LpPool")
register(Trait.SUMS_PRODUCTS, "FusedConv", "NhwcFusedConv", domain="com.microsoft")
counts("GlobalAveragePool", "GlobalMaxPool")(one_per_operand_element)

SAME = ("SAME_UPPER", "SAME_LOWER")


@dataclass(slots=True)
class Window:
    """The window over the spatial axes.

    One entry per axis, ``pads`` holds all begins before all ends.
    """

    strides: list[int]
    dilations: list[int]
    pads: list[int]
    same: bool
    """Whether the padding makes the size that of the input divided by the stride; for a transposed
    convolution, multiplied by it.
    """
    ceil: bool


def read_window(ctx: NodeContext, axes: int, *, dilated: bool = True) -> Window | None:
    """The window attributes of a node with ``axes`` spatial axes, ``None`` when they are malformed
    or contradictory.
    """
    strides, pads = integers(ctx, "strides", axes, 1), integers(ctx, "pads", 2 * axes, 0)
    dilations = integers(ctx, "dilations", axes, 1) if dilated else [1] * axes
    mode = text(ctx, "auto_pad", "NOTSET")
    ceil = integer(ctx, "ceil_mode", 0)
    if (
        strides is None
        or dilations is None
        or pads is None
        or ceil is None
        or min(strides + dilations, default=1) < 1
    ):
        return None
    if mode in SAME:
        # The two attributes exclude each other, and runtimes differ in which one they read.
        if ctx.attribute("pads") is not None:
            return None
    elif mode not in ("NOTSET", "", "VALID") or (mode == "VALID" and any(pads)):
        return None
    return Window(strides, dilations, pads, mode in SAME, ceil == 1)


def is_channels_last(ctx: NodeContext) -> bool | None:
    """Whether data is (N, ..., C): onnxruntime has operators for this layout, and some with an
    attribute for it.
    """
    if not ctx.domain or ctx.op_type.startswith("Nhwc"):
        return bool(ctx.domain)
    last = integer(ctx, "channels_last", 0)
    return None if last is None else bool(last)


def spatial_axes(x: Shape | None, w: Shape | None) -> int | None:
    """Number of spatial axes of data (N, C, ...) and of weights.

    ``None`` when no rank is known, or the ranks contradict.
    """
    rank = len(x) if x is not None else len(w) if w is not None else 0
    return None if rank < 3 or (w is not None and len(w) != rank) else rank - 2


def windowed_shape(
    ctx: NodeContext, sizes: Sequence[Dim], kernel: Sequence[Dim] | None, window: Window | None
) -> Shape:
    """Spatial sizes after a window slid over ``sizes``; an unknown axis gets a new symbol."""
    if window is None:
        return fresh_shape(ctx, len(sizes))
    return tuple(
        _slide(ctx, size, None if kernel is None else kernel[i], window, i)
        for i, size in enumerate(sizes)
    )


def _slide(ctx: NodeContext, size: Dim, kernel: Dim | None, window: Window, axis: int) -> Dim:
    stride = window.strides[axis]
    if window.same:
        return ceil_div(size, stride)
    if kernel is None:
        return ctx.fresh()
    begin, end = window.pads[axis], window.pads[axis + len(window.strides)]
    extent = (kernel - 1) * window.dilations[axis] + 1
    span = size + begin + end - extent
    # the window is larger than the axis: onnxruntime does not follow ONNX here
    if type(span) is int and span < 0:
        return ctx.fresh()
    if not window.ceil:
        return floor_div(span, stride) + 1
    positions = ceil_div(span, stride) + 1
    # the last window begins before the padding at the end
    if type(extent) is int and stride + end <= extent:
        return positions
    return dim_min(positions, ceil_div(size + begin, stride))


def unwindowed_shape(
    ctx: NodeContext,
    sizes: Sequence[Dim],
    kernel: Sequence[Dim] | None,
    window: Window | None,
    extra: Sequence[int],
) -> Shape:
    """Spatial sizes from which a window gives ``sizes`` (transposed convolution).

    ``extra`` is ``output_padding``.
    """
    if window is None or kernel is None:
        return fresh_shape(ctx, len(sizes))
    return tuple(
        _unslide(ctx, size, kernel[i], window, i, extra[i]) for i, size in enumerate(sizes)
    )


def _unslide(
    ctx: NodeContext, size: Dim, kernel: Dim, window: Window, axis: int, extra: int
) -> Dim:
    stride = window.strides[axis]
    reach = (kernel - 1) * window.dilations[axis] + 1 + extra
    full = (size - 1) * stride + reach
    if not window.same:
        return known(ctx, full - window.pads[axis] - window.pads[axis + len(window.strides)])
    if type(reach) is not int:
        return ctx.fresh()
    # Padding is never negative: a window shorter than the stride leaves the full size.
    return size * stride if reach >= stride else known(ctx, full)


@shapes("Conv", "DeformConv", operands=(0, 1))
@shapes("ConvInteger", dtype=TensorProto.INT32, operands=(0, 1))
@shapes("QLinearConv", typed_by=(7,), operands=(0, 3))  # 7 is the zero point of the result
@shapes("QLinearConv", typed_by=(7,), operands=(0, 3), domain="com.microsoft")
@shapes("FusedConv", "NhwcConv", "NhwcFusedConv", operands=(0, 1), domain="com.microsoft")
def conv(ctx: NodeContext, x: Shape | None, w: Shape | None) -> Shape | None:
    """Data (N, C, ...), or (N, ..., C), and weights (M, C/group, ...) in one layout.

    ``None`` when no rank is known.
    """
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
    """Inputs X (N, C, ...), W (C, M/group, ...), B.

    Attribute ``output_shape`` gives the spatial sizes directly.
    """
    spatial = spatial_axes(x, w)
    if spatial is None:
        return None
    batch = x[0] if x is not None else ctx.fresh()
    group = natural(ctx, "group", 1)
    channels = w[1] * group if w is not None and group is not None else ctx.fresh()
    if ctx.attribute("output_shape") is not None:
        sizes: Shape = tuple(
            known(ctx, size) for size in integers(ctx, "output_shape", spatial) or [-1] * spatial
        )
    elif x is None:
        sizes = fresh_shape(ctx, spatial)
    else:
        kernel = integers(ctx, "kernel_shape", spatial) or (None if w is None else w[2:])
        extra = integers(ctx, "output_padding", spatial, 0)
        window = None if extra is None else read_window(ctx, spatial)
        sizes = unwindowed_shape(ctx, x[2:], kernel, window, extra or [0] * spatial)
    return (batch, channels, *sizes)


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
    kernel, data = integers(ctx, "kernel_shape", spatial), x[1:-1] if channels_last else x[2:]
    if window is not None and kernel is not None and window.same and max(window.dilations) > 1:
        window = _padded_without_dilations(ctx, data, kernel, window)
    sizes = windowed_shape(ctx, data, kernel, window)
    return (x[0], *sizes, x[-1]) if channels_last else (x[0], x[1], *sizes)


def _padded_without_dilations(
    ctx: NodeContext, sizes: Sequence[Dim], kernel: Sequence[int], window: Window
) -> Window | None:
    """The window with the padding in numbers, ``None`` when it is unknown.

    In pools, onnxruntime computes SAME padding as if the window had no dilations.
    """
    sums = [
        (ceil_div(size, stride) - 1) * stride + extent - size
        for size, stride, extent in zip(sizes, window.strides, kernel, strict=True)
    ]
    numbers = [pads for pads in sums if type(pads) is int and pads >= 0]
    if len(numbers) < len(sums):
        return None
    halves = [pads // 2 for pads in numbers], [pads - pads // 2 for pads in numbers]
    begins, ends = halves if ctx.attribute("auto_pad") == "SAME_UPPER" else halves[::-1]
    return replace(window, pads=begins + ends, same=False)


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
    """Inputs X, I and, since operator set 9, the shape of the result."""
    if ctx.input(2) is not None:
        sizes = vector(ctx, 2)
        if sizes is not None:
            return tuple(known(ctx, size) for size in sizes)
        return None if x is None else fresh_shape(ctx, len(x))
    if x is None or len(x) < 3:
        return None
    spatial = len(x) - 2
    window = read_window(ctx, spatial, dilated=False)
    return (
        *x[:2],
        *unwindowed_shape(
            ctx, x[2:], integers(ctx, "kernel_shape", spatial), window, [0] * spatial
        ),
    )


@counts("Conv", "ConvInteger", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")
@counts("FusedConv", domain="com.microsoft")
def window_operations(node: NodeView, operands: KnownShapes, results: KnownShapes) -> int:
    """An element of Conv is a sum over the channels of its group and the window; ConvTranspose
    adds each element of the operand to as many results.
    """
    if "Pool" in node.op_type:
        return math.prod(results[0]) * math.prod(node.attribute.get("kernel_shape") or (1,))
    if node.op_type == "ConvTranspose":
        return 2 * math.prod(operands[0]) * math.prod(operands[1][1:])
    return math.prod(results[0]) * (2 * math.prod(operands[1][1:]) + (len(operands) > 2))
