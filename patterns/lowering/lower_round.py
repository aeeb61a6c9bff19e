from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import WIDE_FLOATS, _Lowering


class LowerRoundPattern(_Lowering):
    """Round(x) → Floor(x), or 1 more where the rest is above 1/2, or 1/2 and Floor(x) is odd

    What: rounds halves to even numbers. The rest is exact but for negative numbers near 0: where it
    becomes 1/2 or 1 by rounding, the result is 0 in any case, as it should be.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    """

    min_opset = 11
    operand_types = {"x": WIDE_FLOATS}  # (1)
    derives = ("dtype",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Round(x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(dtype=g.try_infer_type(m.x))

    def apply_pattern(self, g: PatternRewriter, x: str, dtype: int) -> str:
        floor = g.op.Floor(x)
        rest = g.op.Sub(x, floor)
        half = g.op.Mul(floor, 0.5)
        is_odd = g.op.Greater(half, g.op.Floor(half))
        is_middle = g.op.And(g.op.Equal(rest, 0.5), is_odd)
        is_up = g.op.Or(g.op.Greater(rest, 0.5), is_middle)
        return g.op.Add(floor, g.op.Cast(is_up, to=dtype))

    _formula = (
        "f = Floor(x) d = Sub(x, f) p = Mul(f, h) q = Floor(p) o = Greater(p, q) e = Equal(d, h) "
        "m = And(e, o) g = Greater(d, h) u = Or(g, m)"
    )
    examples = Example.pairs(
        "agraph (float[a] x) => (float[a] y) { y = Round(x) }",
        f"<float h = {{0.5}}> {{ {_formula} c = Cast <to = 1> (u) y = Add(f, c) }}",
        "agraph (float16[a] x) => (float16[a] y) { y = Round(x) }",
        f"<float16 h = {{14336}}> {{ {_formula} c = Cast <to = 10> (u) y = Add(f, c) }}",
        "agraph (int64[a] k) => (float[a] y) <float h = {0.5}> { f = Cast <to = 1> (k) "
        "x = Mul(f, h) y = Round(x) }",
        f"<float h = {{0.5}}> {{ w = Cast <to = 1> (k) x = Mul(w, h) {_formula} "
        "c = Cast <to = 1> (u) y = Add(f, c) }",
    )
