"""Parts of the formulas of normalizations, for operands of at least 32 bits."""

from collections.abc import Sequence

import numpy as np

from xoptim.match import GraphView, PatternRewriter


def centered(g: PatternRewriter, x: str, axes: Sequence[int]) -> str:
    """The distances from the mean over some axes."""
    return g.op.Sub(x, g.op.ReduceMean(x, axes=list(axes)))


def divided(g: PatternRewriter, x: str, axes: Sequence[int], epsilon: float) -> str:
    """The tensor divided by √(mean of x² over some axes + epsilon)."""
    square = g.op.ReduceMean(g.op.Mul(x, x), axes=list(axes))
    return g.op.Div(x, g.op.Sqrt(g.op.Add(square, epsilon)))


def along_channels(g: PatternRewriter, vector: str, rank: int) -> str:
    """A vector with a number for each channel, to broadcast along axis 1 of a tensor of a rank."""
    spatial = list(range(1, rank - 1))
    return g.op.Unsqueeze(vector, axes=spatial) if spatial else vector


def reshaped(g: PatternRewriter, x: str, target: Sequence[int] | None, like: str) -> str:
    """The tensor in the shape ``target``; if ``target`` is ``None``, in the shape of ``like``."""
    if target is None:
        return g.op.Reshape(x, g.op.Shape(like))
    return g.op.Reshape(x, np.array(target, dtype=np.int64))


def leading_ones(g: GraphView, name: str, count: int) -> list[int]:
    """The axes before the last ``count`` axes if all have size 1; an empty list otherwise."""
    shape = g.try_infer_shape(name) or ()
    leading = shape[: max(0, len(shape) - count)]
    return list(range(len(leading))) if all(dim == 1 for dim in leading) else []
