"""Signs of operands."""

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class _Sign(EasyPatternOptimization):
    """An operator that follows or precedes Neg."""


class AbsNegPattern(_Sign):
    """Abs(Neg(x)) → Abs(x)

    What: drops a change of sign that Abs removes anyway.
    Why: one pass over the tensor less.
    Refuses when:
    1. (never: Neg stays where something else reads it.)
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Abs(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Abs(x)

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) { t = Neg(x) y = Abs(t) }", "{ y = Abs(x) }"
    )


class MulMinusOnePattern(_Sign):
    """x · -1 or x / -1 → Neg(x)

    What: changes the sign, which gives the same bits.
    Why: other patterns match Neg (Add of Neg becomes Sub), and it costs no more.
    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked for all literals by
       the matcher).
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Mul(x, -1) if g.option("mul") else g.op.Div(x, -1)  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Neg(x)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float c = {-1}> { y = Mul(c, x) }",
        "{ y = Neg(x) }",
        "agraph (float[a,b] x) => (float[a,b] y) <float[1] c = {-1}> { y = Div(x, c) }",
        "{ y = Neg(x) }",
    )


class SubNegPattern(_Sign):
    """Neg(Sub(a, b)) → Sub(b, a)

    What: subtracts the other way round.
    Why: one pass over the result less.
    Refuses when:
    1. something else reads the difference: there would be two subtractions instead of one.
    2. (none: the opposite of a zero difference is -0, a difference is +0, which is why the grade is
       ``rounding``.)
    """

    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        return g.op.Neg(g.op.Sub(a, b))  # (1)

    def apply_pattern(self, g: PatternRewriter, a: str, b: str) -> str:
        return g.op.Sub(b, a)

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Sub(x, z) y = Neg(t) }",
        "{ y = Sub(z, x) }",
    )
