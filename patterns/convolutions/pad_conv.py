"""Zeros around the operand of a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, Optional, PatternBuilder, PatternRewriter, Symbol

from ._pads import added_pads


class PadConvPattern(EasyPatternOptimization):
    """Conv(Pad(x, 0), w, b) → Conv(x, w, b) with pads

    What: the convolution pads.
    Why: saves a copy of its operand.
    Refuses when:
    1. the padding is not constant, not with zeros, negative, or applies to batch or channels.
    2. the convolution chooses its padding by itself (auto_pad).
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 2

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional) -> Symbol:
        """The mode must be ``constant``, the value zero."""
        zeros = g.capture("value", lambda value: not value, optional=True)
        t = g.op.Pad(x, pads=g.capture("padding"), value=zeros, axes=g.capture("axes", optional=True))
        return g.op.Conv(t, w, b, pads=g.capture("pads", optional=True), attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Derive the sum of the pads."""
        pads = added_pads(g.info(m.x).rank, m.padding, m.axes, m.pads)
        if pads is None:  # (1)
            return self.none(m.nodes[0], msg="it pads other axes, or unknown or negative amounts")
        if m.attributes.get("auto_pad", "NOTSET") != "NOTSET":  # (2)
            return self.none(m.nodes[1], msg="auto_pad is set")
        return m.derive(total=pads)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, b: str, attributes: dict[str, Any], total: list[int]) -> str:
        """The same convolution with more padding."""
        return g.op.Conv(x, w, b, **attributes, pads=total)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Padding of different amounts, added to that of the convolution."""
        return (
            Example(
                "agraph (float[n,1,h] x, float[2,1,3] w) => (float[n,2,k] y) <int64[6] p = {0, 0, 1, 0, 0, 2}> "
                "{ t = Pad(x, p) y = Conv <pads = [1, 1]> (t, w) }",
                "agraph (float[n,1,h] x, float[2,1,3] w) => (float[n,2,k] y) { y = Conv <pads = [2, 3]> (x, w) }",
            ),
            Example(
                "agraph (float[n,1,h,4] x, float[2,1,3,3] w) => (float[n,2,k,l] y) "
                "<int64[2] p = {1, 2}, float zero = {0}, int64[1] last = {-1}> { t = Pad(x, p, zero, last) y = Conv(t, w) }",
                "agraph (float[n,1,h,4] x, float[2,1,3,3] w) => (float[n,2,k,l] y) { y = Conv <pads = [0, 1, 0, 2]> (x, w) }",
            ),
        )
