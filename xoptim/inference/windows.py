"""Sizes of the results of sliding windows (convolutions, pools), in symbolic arithmetic.

Source: the formulas in the operator documentation of Conv, ConvTranspose and MaxPool; for ``ceil_mode`` the rule of
operator set 22, which onnxruntime applies to every version: a window that starts in the padding at the end is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xoptim.facts.dims import Dim, ceil_div, dim_min, floor_div
from xoptim.facts.info import Shape
from xoptim.inference.arguments import fresh_shape, integer, integers, known, text
from xoptim.inference.registry import NodeContext

SAME = ("SAME_UPPER", "SAME_LOWER")


@dataclass(slots=True)
class Window:
    """The window over the spatial axes; one entry per axis, ``pads`` holds all begins before all ends."""

    strides: list[int]
    dilations: list[int]
    pads: list[int]
    same: bool
    """Padded so that the size is the input's divided by the stride (times the stride, for transposed convolution)."""
    ceil: bool


def read_window(ctx: NodeContext, axes: int, *, dilated: bool = True) -> Window | None:
    """The window attributes of a node with ``axes`` spatial axes, ``None`` when they are malformed or contradictory."""
    strides, pads = integers(ctx, "strides", axes, 1), integers(ctx, "pads", 2 * axes, 0)
    dilations = integers(ctx, "dilations", axes, 1) if dilated else [1] * axes
    mode = text(ctx, "auto_pad", "NOTSET")
    ceil = integer(ctx, "ceil_mode", 0)
    if strides is None or dilations is None or pads is None or ceil is None or min(strides + dilations, default=1) < 1:
        return None
    if mode in SAME:
        # The two attributes exclude each other, and runtimes differ in which one they read.
        if ctx.attribute("pads") is not None:
            return None
    elif mode not in ("NOTSET", "", "VALID") or (mode == "VALID" and any(pads)):
        return None
    return Window(strides, dilations, pads, mode in SAME, ceil == 1)


def is_channels_last(ctx: NodeContext) -> bool | None:
    """Whether data is (N, ..., C): onnxruntime has operators for this layout, and some with an attribute for it."""
    if not ctx.domain or ctx.op_type.startswith("Nhwc"):
        return bool(ctx.domain)
    last = integer(ctx, "channels_last", 0)
    return None if last is None else bool(last)


def spatial_axes(x: Shape | None, w: Shape | None) -> int | None:
    """Number of spatial axes of data (N, C, ...) and of weights; ``None`` when no rank is known, or the ranks contradict."""
    rank = len(x) if x is not None else len(w) if w is not None else 0
    return None if rank < 3 or (w is not None and len(w) != rank) else rank - 2


def windowed_shape(ctx: NodeContext, sizes: Sequence[Dim], kernel: Sequence[Dim] | None, window: Window | None) -> Shape:
    """Spatial sizes after a window slid over ``sizes``; an unknown axis gets a new symbol."""
    if window is None:
        return fresh_shape(ctx, len(sizes))
    return tuple(_slide(ctx, size, None if kernel is None else kernel[i], window, i) for i, size in enumerate(sizes))


def _slide(ctx: NodeContext, size: Dim, kernel: Dim | None, window: Window, axis: int) -> Dim:
    stride = window.strides[axis]
    if window.same:
        return ceil_div(size, stride)
    if kernel is None:
        return ctx.fresh()
    begin, end = window.pads[axis], window.pads[axis + len(window.strides)]
    extent = (kernel - 1) * window.dilations[axis] + 1
    room = size + begin + end - extent
    if type(room) is int and room < 0:  # the window is larger than the axis: onnxruntime does not follow ONNX here
        return ctx.fresh()
    if not window.ceil:
        return floor_div(room, stride) + 1
    positions = ceil_div(room, stride) + 1
    if type(extent) is int and stride + end <= extent:  # the last window begins before the padding at the end
        return positions
    return dim_min(positions, ceil_div(size + begin, stride))


def unwindowed_shape(
    ctx: NodeContext, sizes: Sequence[Dim], kernel: Sequence[Dim] | None, window: Window | None, extra: Sequence[int]
) -> Shape:
    """Spatial sizes from which a window gives ``sizes`` (transposed convolution); ``extra`` is ``output_padding``."""
    if window is None or kernel is None:
        return fresh_shape(ctx, len(sizes))
    return tuple(_unslide(ctx, size, kernel[i], window, i, extra[i]) for i, size in enumerate(sizes))


def _unslide(ctx: NodeContext, size: Dim, kernel: Dim, window: Window, axis: int, extra: int) -> Dim:
    stride = window.strides[axis]
    reach = (kernel - 1) * window.dilations[axis] + 1 + extra
    full = (size - 1) * stride + reach
    if not window.same:
        return known(ctx, full - window.pads[axis] - window.pads[axis + len(window.strides)])
    if type(reach) is not int:
        return ctx.fresh()
    # Padding is never negative: a window shorter than the stride leaves the full size.
    return size * stride if reach >= stride else known(ctx, full)
