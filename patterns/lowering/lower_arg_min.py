from xoptim.match import Example, PatternBuilder, PatternRewriter, Symbol

from ._lowering import WIDE_FLOATS, _Lowering


class LowerArgMinPattern(_Lowering):
    """ArgMin(x) → ArgMax(Neg(x))

    What: looks for the largest of the negated numbers.
    Why: some providers have ArgMax only.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits: the lowest integer has no negative.
    """

    operand_types = {"x": WIDE_FLOATS}  # (1)
    exactness = "exact"
    min_opset = 13

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.ArgMin(x, attributes=g.capture("form"))

    def apply_pattern(self, g: PatternRewriter, x: str, form: dict[str, int]) -> str:
        return g.op.ArgMax(g.op.Neg(x), **form)

    examples = Example.pairs(
        "agraph (float[n,4] x) => (int64[n,1] y) { y = ArgMin <axis = -1> (x) }",
        "{ t = Neg(x) y = ArgMax <axis = -1> (t) }",
        "agraph (float[n,4] x) => (int64[4] y) { "
        "y = ArgMin <keepdims = 0, select_last_index = 1> (x) }",
        "{ t = Neg(x) y = ArgMax <keepdims = 0, select_last_index = 1> (t) }",
    )
