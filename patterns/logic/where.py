"""Where with a constant condition, with Not, and with another Where."""

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import keeps_shape
from .._shapes import broadcast_shape, same_dims


class _Where(EasyPatternOptimization):
    """A Where that its condition makes redundant or simpler."""

    exactness = "rounding"
    min_opset = 9


class ConstantWherePattern(_Where):
    """Where(true, a, b) → a, Where(false, a, b) → b, Where(c, a, a) → a

    What: takes the only branch that can be chosen.
    Why: Where copies the whole tensor, and the other branch need not be computed.
    Refuses when:
    1. the condition is not constant, or not uniform.
    2. the branch may be broadcast to the shape of the condition or of the other branch.
    3. (none: runtimes that select by adding lose the sign of a zero, which is why the grade is
       ``rounding``.)
    """

    derives = ("chosen",)

    def match_pattern(self, g: PatternBuilder, c: Symbol, a: Symbol, b: Symbol) -> Symbol:
        if g.option("same"):
            return g.op.Where(c, a, a)
        return g.op.Where(True, a, b) if g.option("true") else g.op.Where(False, a, b)  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        chosen = m.a if m.get("true", True) else m.b
        if not keeps_shape(g, m.nodes[0], chosen):  # (2)
            return self.none(m.nodes[0], msg="the chosen branch may have to be broadcast")
        return m.derive(chosen=chosen)

    def apply_pattern(self, g: PatternRewriter, chosen: str) -> str:
        return chosen

    examples = Example.pairs(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) <bool[1] c = {0}> { "
        "t = Where(c, z, x) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b] x, bool[b] c) => (float[a,b] y) { t = Where(c, x, x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class NotWherePattern(_Where):
    """Where(Not(c), a, b) → Where(c, b, a)

    What: swaps the branches instead of the condition.
    Why: one pass over the condition less.
    Refuses when:
    1. Not computes a branch, not the condition (the matcher checks this).
    2. (none: runtimes that select by adding lose the sign of a zero in one branch, which is why the
       grade is ``rounding``.)
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, c: Symbol, a: Symbol, b: Symbol) -> Symbol:
        return g.op.Where(g.op.Not(c), a, b)  # (1) the Not stays where it has other consumers

    def apply_pattern(self, g: PatternRewriter, c: str, a: str, b: str) -> str:
        return g.op.Where(c, b, a)

    examples = Example.only(
        "agraph (bool[a,b] c, float[a,b] x, float[b] z) => (float[a,b] y) { t = Not(c) "
        "y = Where(t, x, z) }",
        "{ y = Where(c, z, x) }",
    )


class WhereWherePattern(_Where):
    """Where(c, Where(c, a, b), d) → Where(c, a, d), Where(c, a, Where(c, b, d)) → Where(c, a, d)

    What: drops the branch that is never taken.
    Why: masks are applied twice, once by the model and once by its attention.
    Refuses when:
    1. the shape may change: the dropped branch may broadcast the others.
    2. (none: runtimes that select by adding lose the sign of a zero, which is why the grade is
       ``rounding``.)
    """

    interior = "keep"

    def match_pattern(
        self, g: PatternBuilder, c: Symbol, a: Symbol, b: Symbol, d: Symbol
    ) -> Symbol:
        # The inner Where stays where it has other consumers.
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
