"""The difference to an opposite."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class NegSubPattern(EasyPatternOptimization):
    """Sub(x, Neg(z)) → Add(x, z)

    What: adds, which is the same to the last bit.
    Why: one pass over z less.
    Refuses when:
    1. (never: Neg stays where something else reads it.)
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        """The opposite is taken away."""
        return g.op.Sub(x, g.op.Neg(z))

    def apply_pattern(self, g: PatternRewriter, x: str, z: str) -> str:
        """The sum."""
        return g.op.Add(x, z)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Two floats."""
        return (
            Example(
                "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Neg(z) y = Sub(x, t) }",
                "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { y = Add(x, z) }",
            ),
        )
