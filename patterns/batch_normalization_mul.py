"""A normalization followed by the product with a constant for each channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._channels import Array, constant, doubles, per_channel


class BatchNormalizationMulPattern(EasyPatternOptimization):
    """BatchNormalization(x, scale, bias, ...) · c → BatchNormalization(x, scale · c, bias · c, ...)

    What: moves a constant for each channel into the parameters.
    Why: saves one pass over the result.
    Refuses when:
    1. the constant differs along another axis than the channels, would change the shape, or is not finite.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 9

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Constant, o: Constant, m: Symbol, v: Symbol, c: Constant
    ) -> Symbol:
        """Mean and variance need not be constant."""
        return g.op.Mul(g.op.BatchNormalization(x, s, o, m, v, attributes=g.capture("attributes")), c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Hands on the constant as a vector."""
        factor = per_channel(g.get_computed_constant(m.c), g.info(m.x).rank, constant(g, m.s).size)
        return m.derive(factor=factor) if factor is not None else self.none(m.nodes[1], msg="not one for each channel")  # (1)

    @np.errstate(all="ignore")  # what is not finite stays so
    def apply_pattern(
        self, g: PatternRewriter, x: str, s: str, o: str, m: str, v: str, attributes: dict[str, Any], factor: Array
    ) -> str:
        """Both products in double precision, rounded once."""
        scale, bias = ((doubles(g, name) * factor).astype(constant(g, name).dtype) for name in (s, o))
        return g.op.BatchNormalization(x, scale, bias, m, v, **attributes)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Two channels."""
        return (
            Example(
                "agraph (float[n,2,h] x, float[2] m, float[2] v) => (float[n,2,h] y) "
                "<float[2] s = {1, 2}, float[2] o = {3, 4}, float[2,1] c = {2, 3}> "
                "{ t = BatchNormalization(x, s, o, m, v) y = Mul(t, c) }",
                "agraph (float[n,2,h] x, float[2] m, float[2] v) => (float[n,2,h] y) "
                "<float[2] s = {2, 6}, float[2] o = {6, 12}> { y = BatchNormalization(x, s, o, m, v) }",
                ranges=(("v", 0.5, 2.0),),
            ),
        )
