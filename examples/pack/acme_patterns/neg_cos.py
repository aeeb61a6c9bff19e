from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class NegCosPattern(EasyPatternOptimization):
    """Cos(Neg(x)) → Cos(x).

    What: the cosine is even.
    Why: one pass over the tensor less.
    Refuses when: never.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Cos(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Cos(x)

    examples = (
        Example(
            "agraph (float[a] x) => (float[a] y) { t = Neg(x) y = Cos(t) }",
            "agraph (float[a] x) => (float[a] y) { y = Cos(x) }",
        ),
    )
