"""A negation of a negation."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class NotNotPattern(EasyPatternOptimization):
    """Not(Not(x)) → x

    What: drops a pair that cancels.
    Why: two passes over the tensor less.
    Refuses when:
    1. (never: the first one stays where something else reads it.)
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Twice."""
        return g.op.Not(g.op.Not(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """Nothing is left."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Of a mask."""
        return (
            Example(
                "agraph (bool[a] x, bool[a] z) => (bool[a] y) { t = Not(x) u = Not(t) y = And(u, z) }",
                "agraph (bool[a] x, bool[a] z) => (bool[a] y) { y = And(x, z) }",
            ),
        )
