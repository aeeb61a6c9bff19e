"""Sub with its neutral element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class NeutralSubPattern(EasyPatternOptimization):
    """x - 0 → x

    What: drops an operation whose constant operand changes nothing.
    Why: each one reads and writes the whole tensor.
    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked for all literals by the matcher).
    2. the constant is -0: x - (-0) is x + 0, which makes 0 of -0.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """The literal stands for a constant of any form that does not change the shape (1)."""
        return g.op.Sub(x, 0)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Look at the sign, which a comparison with 0 does not."""
        zero = g.get_computed_constant(m.nodes[0].input[1])
        if zero is None or np.signbit(zero.astype(np.float64)).any():  # (2)
            return self.none(m.nodes[0], msg="the constant is -0")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """The other operand is the result."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A scalar constant."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) <float[1] c = {0}> { t = Sub(x, c) y = Neg(t) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
            ),
        )
