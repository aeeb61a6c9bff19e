from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._shapes import broadcast_shape, same_dims


class WhereWherePattern(EasyPatternOptimization):
    """Where(c, Where(c, a, b), d) → Where(c, a, d), Where(c, a, Where(c, b, d)) → Where(c, a, d)

    What: drops the branch that is never taken.
    Why: masks are applied twice, once by the model and once by its attention.
    Refuses when:
    1. the shape is not known to stay: the branch that is dropped may broadcast the others.
    2. (none: runtimes that select by adding lose the sign of a zero, which is why the grade is
       ``rounding``.)
    """

    interior = "keep"
    exactness = "rounding"
    min_opset = 9

    def match_pattern(
        self, g: PatternBuilder, c: Symbol, a: Symbol, b: Symbol, d: Symbol
    ) -> Symbol:
        # The inner choice stays where something else reads it.
        if g.option("first"):
            return g.op.Where(c, g.op.Where(c, a, b), d)
        return g.op.Where(c, a, g.op.Where(c, b, d))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.infer(m.nodes[-1])[0].shape  # (1)
        return same_dims(broadcast_shape(g, [m.c, m.a, m.d]), shape) or self.none(
            m.nodes[-1], msg="the shape may change"
        )

    def apply_pattern(self, g: PatternRewriter, c: str, a: str, d: str) -> str:
        return g.op.Where(c, a, d)

    examples = Example.pairs(
        "agraph (bool[a,b] c, float[a,b] x, float[a,b] z, float[b] w) => (float[a,b] y) "
        "{ t = Where(c, x, z) y = Where(c, t, w) }",
        "{ y = Where(c, x, w) }",
        "agraph (bool[a,b] c, float[a,b] x, float[a,b] z, float[b] w) => (float[a,b] y) "
        "{ t = Where(c, z, w) y = Where(c, x, t) }",
        "{ y = Where(c, x, w) }",
    )
