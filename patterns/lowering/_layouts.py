"""Transposes that move the axis of the channels between the last axis and axis 1."""

from typing import Final

from xoptim.match import PatternRewriter

MAX_POOLED_RANK: Final = 5
"""The highest rank that ONNX Runtime's kernels of pooling support."""


def channels_first(g: PatternRewriter, x: str, rank: int) -> str:
    """The tensor (N, ..., C) as (N, C, ...)."""
    return g.op.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)])


def channels_last(g: PatternRewriter, x: str, rank: int) -> str:
    """The tensor (N, C, ...) as (N, ..., C)."""
    return g.op.Transpose(x, perm=[0, *range(2, rank), 1])
