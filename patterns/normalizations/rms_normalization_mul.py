"""Normalization by the root of the mean square followed by a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import Array
from ._trailing import multiplied, same_trailing


class RMSNormalizationMulPattern(EasyPatternOptimization):
    """RMSNormalization(x, scale) · factor → RMSNormalization(x, scale · factor)

    What: multiplies while the tensor is normalized.
    Why: saves one pass over the tensor.
    Refuses when:
    1. the factor does not have the shape of the scale, and is no constant that broadcasts to it.
    2. the scale is not constant, or the factor is not constant and the scale not 1, or a
       product leaves the range of the type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 23

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, factor: Symbol) -> Symbol:
        """The factor on either side."""
        return g.op.Mul(g.op.RMSNormalization(x, scale, attributes=g.capture("attributes")), factor)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Hands on the new scale."""
        if not same_trailing(g, m.factor, m.scale, m.x):  # (1)
            return self.none(m.nodes[1], msg="the factor has another shape than the scale")
        product = multiplied(g, m.scale, m.factor)
        return m.derive(product=product) if product is not None else self.none(m.nodes[0], msg="not constant")  # (2)

    def apply_pattern(self, g: PatternRewriter, x: str, product: Array | str, attributes: dict[str, Any]) -> str:
        """The same axes."""
        return g.op.RMSNormalization(x, product, **attributes)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Two constants; a factor that is computed."""
        return (
            Example(
                "agraph (float[a,2] x) => (float[a,2] y) <float[2] s = {2, 3}, float[2] f = {4, 5}> "
                "{ t = RMSNormalization <epsilon = 0.001> (x, s) y = Mul(f, t) }",
                "agraph (float[a,2] x) => (float[a,2] y) <float[2] s = {8, 15}> "
                "{ y = RMSNormalization <epsilon = 0.001> (x, s) }",
                opset=23,
            ),
            Example(
                "agraph (float[a,2] x, float[2] f) => (float[a,2] y) <float[2] s = {1, 1}> "
                "{ t = RMSNormalization(x, s) y = Mul(t, f) }",
                "agraph (float[a,2] x, float[2] f) => (float[a,2] y) { y = RMSNormalization(x, f) }",
                opset=23,
            ),
        )
