from xoptim.match import Example, PatternBuilder, PatternRewriter, Symbol

from ._lowering import WIDE_FLOATS, _Lowering


class LowerCeilPattern(_Lowering):
    """Ceil(x) → Neg(Floor(Neg(x)))

    What: rounds the opposite number down.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    """

    min_opset = 6
    operand_types = {"x": WIDE_FLOATS}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Ceil(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Neg(g.op.Floor(g.op.Neg(x)))

    examples = Example.pairs(
        "agraph (float[a] x) => (float[a] y) { y = Ceil(x) }",
        "{ t = Neg(x) u = Floor(t) y = Neg(u) }",
        "agraph (float16[a] x) => (float16[a] y) { y = Ceil(x) }",
        "{ t = Neg(x) u = Floor(t) y = Neg(u) }",
    )
