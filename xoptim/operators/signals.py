"""DFT, STFT, windows and the mel weight matrix."""

from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import Dim, floor_div
from xoptim.facts.shapes import Info, Shape, normalized
from xoptim.operators.inference.arguments import dim_of, integer, known, scalar, shape_of, shapes
from xoptim.operators.protocols import NodeContext, Results
from xoptim.operators.registry import infers, steers, takes

_WINDOWS: Final = ("BlackmanWindow", "HammingWindow", "HannWindow")
takes({0: "count"}, *_WINDOWS)
takes({1: "count", 2: "one"}, "DFT")
takes({1: "one", 3: "count"}, "STFT")
steers(0, "MelWeightMatrix", *_WINDOWS)
steers(1, "DFT", "STFT")


@infers(*_WINDOWS)
def window_function(ctx: NodeContext) -> Results:
    """A vector with the length in the scalar input."""
    return [
        Info(integer(ctx, "output_datatype", TensorProto.FLOAT) or 0, (known(ctx, scalar(ctx, 0)),))
    ]


@infers("MelWeightMatrix")
def mel_weight_matrix(ctx: NodeContext) -> Results:
    """(dft_length // 2 + 1, num_mel_bins)."""
    bins, length = scalar(ctx, 0), scalar(ctx, 1)
    rows = known(ctx, None if length is None else _one_sided(length))
    dtype = integer(ctx, "output_datatype", TensorProto.FLOAT) or 0
    return [Info(dtype, (rows, known(ctx, bins)))]


def _one_sided(length: Dim) -> Dim:
    return floor_div(length, 2) + 1


@shapes("DFT")
def dft(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Input (..., 1 or 2): the last axis holds real and imaginary part.

    The axis is an input since operator set 20.
    """
    if shape is None or len(shape) < 2:
        return None
    one_sided, inverse = integer(ctx, "onesided", 0), integer(ctx, "inverse", 0)
    to_real = one_sided == 1 and inverse == 1
    parts: Dim = ctx.fresh() if None in (one_sided, inverse) else 1 if to_real else 2
    if one_sided == 0 and ctx.input(1) is None:
        return (*shape[:-1], parts)
    axis = normalized(_dft_axis(ctx), len(shape))
    if axis is None:
        return (*(ctx.fresh() for _ in shape[:-1]), parts)
    dims = [*shape[:-1], parts]
    if axis < len(shape) - 1:
        dims[axis] = known(ctx, _dft_length(ctx, shape[axis], one_sided, inverse))
    return tuple(dims)


def _dft_axis(ctx: NodeContext) -> int | None:
    if ctx.opset < 20:
        return integer(ctx, "axis", 1)
    if ctx.input(2) is None:
        return -2
    axis = scalar(ctx, 2)
    return axis if type(axis) is int else None


def _dft_length(
    ctx: NodeContext, size: Dim, one_sided: int | None, inverse: int | None
) -> Dim | None:
    length = scalar(ctx, 1) if ctx.input(1) is not None else size
    if one_sided is None or inverse is None or length is None:
        return None
    if one_sided and inverse and ctx.input(1) is None:
        return (size - 1) * 2
    return _one_sided(length) if one_sided and not inverse else length


@shapes("STFT", operands=())
def stft(ctx: NodeContext) -> Shape:
    """Inputs signal (N, length, 1 or 2), frame_step, window, frame_length.

    Result (N, frames, bins, 2).
    """
    shape = shape_of(ctx.input(0), 3)
    length, step = _frame_length(ctx), scalar(ctx, 1)
    one_sided = integer(ctx, "onesided", 1)
    frames: Dim | None = None
    bins: Dim | None = None
    if length is not None:
        bins = None if one_sided is None else _one_sided(length) if one_sided else length
        if shape is not None and type(step) is int and step > 0:
            frames = floor_div(shape[1] - length, step) + 1
    return (
        known(ctx, None if shape is None else shape[0]),
        known(ctx, frames),
        known(ctx, bins),
        2,
    )


def _frame_length(ctx: NodeContext) -> Dim | None:
    if ctx.input(3) is not None:
        length = scalar(ctx, 3)
        return length if length is not None else dim_of(ctx.input(2), 0, 1)
    return dim_of(ctx.input(2), 0, 1) if ctx.input(2) is not None else dim_of(ctx.input(0), 1, 3)
