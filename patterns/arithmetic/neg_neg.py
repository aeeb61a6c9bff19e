"""The opposite of the opposite."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class NegNegPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → x

    What: drops a pair that cancels, bit for bit: the smallest integer is its own opposite both times.
    Why: two passes over the tensor less.
    Refuses when:
    1. (never: the first one stays where something else reads it.)
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Twice."""
        return g.op.Neg(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """Nothing is left."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Of floats."""
        return (
            Example(
                "agraph (float[a] x) => (float[a] y) { t = Neg(x) u = Neg(t) y = Relu(u) }",
                "agraph (float[a] x) => (float[a] y) { y = Relu(x) }",
            ),
        )
