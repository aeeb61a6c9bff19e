from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._shapes import broadcasts_to
from ._lowering import COMPUTED, _Lowering


class LowerPReluPattern(_Lowering):
    """PRelu(x, slope) → Where(x < 0, x · slope, x)

    What: the slope broadcasts as it does in the operator.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. the slope is not known to broadcast to the shape of x.
    """

    min_opset = 9
    operand_types = {"x": COMPUTED}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, slope: Symbol) -> Symbol:
        return g.op.PRelu(x, slope)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not broadcasts_to(g, m.slope, m.x):  # (2)
            return self.none(m.nodes[0], msg="the slope is not known to broadcast to x")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, slope: str) -> str:
        # The product alone would be NaN next to an infinite slope.
        return g.op.Where(g.op.Less(x, 0.0), g.op.Mul(x, slope), x)

    examples = Example.pairs(
        "agraph (float[a,3,b] x, float[3,1] s) => (float[a,3,b] y) { y = PRelu(x, s) }",
        "<float a = {0}> { b = Less(x, a) c = Mul(x, s) y = Where(b, c, x) }",
        "agraph (float16[a,4] x, float16[4] s) => (float16[a,4] y) { y = PRelu(x, s) }",
        "<float16 a = {0}> { b = Less(x, a) c = Mul(x, s) y = Where(b, c, x) }",
    )
