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
    """A Where that becomes redundant or simpler because of its condition.

    The exactness is ``rounding``: some runtimes implement Where by an addition, which loses the
    sign of a zero.
    """

    exactness = "rounding"
    min_opset = 9


class ConstantWherePattern(_Where):
    """Where(true, a, b) → a, Where(false, a, b) → b, Where(c, a, a) → a

    What: returns the only branch that the condition can select.
    Why: saves a copy of the tensor, and the other branch is not computed.
    Refuses when:
    1. the condition is not a constant with equal elements, and the branches differ.
    2. the branch may be broadcast to the shape of the condition or of the other branch.
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

    What: swaps the branches instead of negating the condition.
    Why: one fewer pass over the condition.
    Refuses when:
    1. Not is a branch of the Where, not its condition (checked by the matcher).
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, c: Symbol, a: Symbol, b: Symbol) -> Symbol:
        return g.op.Where(g.op.Not(c), a, b)  # (1); a Not with other consumers stays

    def apply_pattern(self, g: PatternRewriter, c: str, a: str, b: str) -> str:
        return g.op.Where(c, b, a)

    examples = Example.only(
        "agraph (bool[a,b] c, float[a,b] x, float[b] z) => (float[a,b] y) { t = Not(c) "
        "y = Where(t, x, z) }",
        "{ y = Where(c, z, x) }",
    )


class WhereWherePattern(_Where):
    """Where(c, Where(c, a, b), d) → Where(c, a, d), Where(c, a, Where(c, b, d)) → Where(c, a, d)

    What: drops the branch that the condition never selects.
    Why: some models apply a mask twice: in the model, and in its attention.
    Refuses when:
    1. the shape may change: the dropped branch may broadcast the other operands.
    """

    interior = "keep"

    def match_pattern(
        self, g: PatternBuilder, c: Symbol, a: Symbol, b: Symbol, d: Symbol
    ) -> Symbol:
        # An inner Where with other consumers stays.
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
