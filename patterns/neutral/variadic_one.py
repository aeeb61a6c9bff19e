"""A sum, mean, maximum or minimum of one tensor."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import ANY, EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class VariadicOnePattern(EasyPatternOptimization):
    """Sum(x), Mean(x), Max(x) or Min(x) → x

    What: drops an operator that takes any number of operands and has one.
    Why: it copies the whole tensor.
    Refuses when:
    1. there is another operand.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """One operand (1)."""
        for op_type in ("Sum", "Max", "Min"):
            if g.option(op_type):
                return getattr(g.op, op_type)(x, attributes=ANY)
        return g.op.Mean(x, attributes=ANY)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """The operand is the result."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A sum and a minimum."""
        after = "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }"
        return (
            Example("agraph (float[a,b] x) => (float[a,b] y) { t = Sum(x) y = Relu(t) }", after),
            Example("agraph (float[a,b] x) => (float[a,b] y) { t = Min(x) y = Relu(t) }", after),
        )
