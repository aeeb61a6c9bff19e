"""Conv and ConvTranspose, in a pattern and in its replacement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xoptim.match import Constant, Optional, PatternBuilder, PatternRewriter, Symbol

from .._folding import Array


def any_convolution(g: PatternBuilder, x: Symbol, w: Symbol | Constant, b: Optional) -> Symbol:
    """Conv, or ConvTranspose with the option ``transposed``; captures all of its ``attributes``."""
    conv = g.op.ConvTranspose if g.option("transposed") else g.op.Conv
    return conv(x, w, b, attributes=g.capture("attributes"))


def same_convolution(
    g: PatternRewriter, x: str, w: str | Array, b: Array | None, attributes: Mapping[str, Any], transposed: bool
) -> str:
    """The operator that `any_convolution` matched, with other weights or another bias."""
    conv = g.op.ConvTranspose if transposed else g.op.Conv
    return conv(x, w, b, **attributes)
