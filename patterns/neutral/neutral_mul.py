"""Mul with its neutral element."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class NeutralMulPattern(EasyPatternOptimization):
    """x · 1 → x

    What: drops an operation whose constant operand changes nothing.
    Why: each one reads and writes the whole tensor.
    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked for all literals by the matcher).
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """The literal stands for a constant of any form that does not change the shape (1)."""
        return g.op.Mul(x, 1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """The other operand is the result."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A scalar constant."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) <float[1] c = {1}> { t = Mul(x, c) y = Neg(t) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
            ),
        )
