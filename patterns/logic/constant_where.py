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


class ConstantWherePattern(EasyPatternOptimization):
    """Where(true, a, b) → a, Where(false, a, b) → b, Where(c, a, a) → a

    What: takes the only branch that can be chosen.
    Why: it copies the whole tensor, and the other branch is not computed.
    Refuses when:
    1. the condition is not constant, or differs from place to place.
    2. the branch may be broadcast to the shape of the condition or of the other branch.
    3. (none: runtimes that select by adding lose the sign of a zero, which is why the grade is
       ``rounding``.)
    """

    exactness = "rounding"
    min_opset = 9
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
