from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class NotWherePattern(EasyPatternOptimization):
    """Where(Not(c), a, b) → Where(c, b, a)

    What: swaps the branches instead of the condition.
    Why: one pass over the condition less.
    Refuses when:
    1. Not gives a branch, not the condition (the form of the subgraph says so).
    2. (none: runtimes that select by adding lose the sign of a zero in one branch, which is why the
       grade is ``rounding``.)
    """

    interior = "keep"
    exactness = "rounding"
    min_opset = 9

    def match_pattern(self, g: PatternBuilder, c: Symbol, a: Symbol, b: Symbol) -> Symbol:
        return g.op.Where(g.op.Not(c), a, b)  # (1) the Not stays where something else reads it

    def apply_pattern(self, g: PatternRewriter, c: str, a: str, b: str) -> str:
        return g.op.Where(c, b, a)

    examples = Example.only(
        "agraph (bool[a,b] c, float[a,b] x, float[b] z) => (float[a,b] y) { t = Not(c) "
        "y = Where(t, x, z) }",
        "{ y = Where(c, z, x) }",
    )
