from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class SubNegPattern(EasyPatternOptimization):
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
