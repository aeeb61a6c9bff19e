"""Normalizations with a scale and a bias for each channel, in a pattern and in its replacement."""

from collections.abc import Mapping
from typing import Any

from xoptim.match import Constant, PatternBuilder, PatternRewriter, Symbol

from .._folding import Array


def any_normalization(g: PatternBuilder, x: Symbol, s: Symbol | Constant, o: Constant, m: Symbol, v: Symbol) -> Symbol:
    """BatchNormalization with mean and variance, or InstanceNormalization; captures all of its ``attributes``."""
    attributes = g.capture("attributes")
    if g.option("instance"):
        return g.op.InstanceNormalization(x, s, o, attributes=attributes)
    return g.op.BatchNormalization(x, s, o, m, v, attributes=attributes)


def same_normalization(
    g: PatternRewriter,
    operands: tuple[str, str | Array, Array],
    statistics: tuple[str, str],
    attributes: Mapping[str, Any],
    instance: bool,
) -> str:
    """The operator that `any_normalization` matched, with other parameters."""
    if instance:
        return g.op.InstanceNormalization(*operands, **attributes)
    return g.op.BatchNormalization(*operands, *statistics, **attributes)
