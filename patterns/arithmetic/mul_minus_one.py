from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class MulMinusOnePattern(EasyPatternOptimization):
    """x · -1 or x / -1 → Neg(x)

    What: changes the sign, with the same bits.
    Why: other patterns match Neg (Add of Neg becomes Sub), and Neg is no slower.
    Refuses when:
    1. the constant may change the shape of the result by broadcasting (checked by the matcher).
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
