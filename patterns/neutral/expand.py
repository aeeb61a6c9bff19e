"""An Expand that stretches nothing."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import keeps_shape


class ExpandPattern(EasyPatternOptimization):
    """Expand(x, shape of x) → x

    What: drops an Expand to a shape that x has already, ones included; the dimensions may be symbols.
    Why: it copies the whole tensor.
    Refuses when:
    1. the shape is unknown, or an axis may be stretched.
    """

    min_opset = 8

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        """Any Expand."""
        return g.op.Expand(x, shape)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the shapes (1)."""
        return keeps_shape(g, m.nodes[0]) or self.none(m.nodes[0], msg="the shape changes or is unknown")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """Nothing is left."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Ones leave the axes as they are."""
        return (
            Example(
                "agraph (float[a,3] x) => (float[a,3] y) <int64[2] s = {1, 3}> { t = Expand(x, s) y = Relu(t) }",
                "agraph (float[a,3] x) => (float[a,3] y) { y = Relu(x) }",
            ),
        )
