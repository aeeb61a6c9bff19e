"""Add with its neutral element."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class NeutralAddPattern(EasyPatternOptimization):
    """x + 0 → x

    What: drops an operation whose constant operand changes nothing; at most the sign of a zero is lost, since -0 + 0 is 0.
    Why: each one reads and writes the whole tensor.
    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked for all literals by the matcher).
    """

    exactness = "rounding"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """The literal stands for a constant of any form that does not change the shape (1)."""
        return g.op.Add(x, 0)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """The other operand is the result."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A scalar constant."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) <float[1] c = {0}> { t = Add(x, c) y = Neg(t) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
            ),
        )
