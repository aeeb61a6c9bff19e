"""A Concat of one tensor."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import ANY, EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class ConcatOnePattern(EasyPatternOptimization):
    """Concat(x) → x

    What: drops a Concat with a single operand.
    Why: it copies the whole tensor.
    Refuses when:
    1. there is another operand.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """One operand (1), whatever the axis."""
        return g.op.Concat(x, attributes=ANY)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """The operand is the result."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Along the last axis."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) { t = Concat <axis = -1> (x) y = Relu(t) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }",
            ),
        )
