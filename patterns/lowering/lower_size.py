from xoptim.match import Example, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class LowerSizePattern(_Lowering):
    """Size(x) → ReduceProd(Shape(x))

    What: multiplies the lengths of the axes.
    Why: some runtimes lack Size.
    Refuses when:
    1. (never: the lengths are integers of 64 bits in both forms.)
    """

    exactness = "exact"
    min_opset = 11

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Size(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.ReduceProd(g.op.Shape(x), keepdims=0)

    examples = Example.pairs(
        "agraph (float[n,4] x) => (int64 y) { y = Size(x) }",
        "{ s = Shape(x) y = ReduceProd <keepdims = 0> (s) }",
    )
