from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class SubNegPattern(EasyPatternOptimization):
    """Neg(Sub(a, b)) → Sub(b, a)

    What: swaps the operands of the subtraction.
    Why: one pass over the result less.
    Refuses when:
    1. the difference has other consumers: there would be two subtractions instead of one.
    2. (none: a difference of 0 is +0, and Neg makes it -0, which is why the grade is
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
