from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class AbsNegPattern(EasyPatternOptimization):
    """Abs(Neg(x)) → Abs(x)

    What: drops a change of sign that Abs removes anyway.
    Why: one pass over the tensor less.
    Refuses when:
    1. (never: Neg stays where it has other consumers.)
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Abs(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Abs(x)

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) { t = Neg(x) y = Abs(t) }", "{ y = Abs(x) }"
    )
