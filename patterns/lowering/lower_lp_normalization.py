from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import COMPUTED, _Lowering, narrowed, widened


class LowerLpNormalizationPattern(_Lowering):
    """LpNormalization(x) → Where(‖x‖ = 0, 0, x / ‖x‖)

    What: the norm is ReduceL2, or ReduceL1 with p = 1; 16-bit floats are computed in 32 bits.
    Why: most runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    """

    min_opset = 11
    operand_types = {"x": COMPUTED}  # (1)
    derives = ("axes", "order", "dtype")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        axis, p = (g.capture(name, optional=True) for name in ("axis", "p"))
        return g.op.LpNormalization(x, axis=axis, p=p)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        axis, p = (g.get_attribute(m.nodes[0], name) for name in ("axis", "p"))
        return m.derive(axes=[axis], order=p, dtype=g.try_infer_type(m.x))

    def apply_pattern(
        self, g: PatternRewriter, x: str, axes: list[int], order: int, dtype: int
    ) -> str:
        wide = widened(g, x, dtype)
        norm = g.op.ReduceL1(wide, axes=axes) if order == 1 else g.op.ReduceL2(wide, axes=axes)
        result = g.op.Where(g.op.Equal(norm, 0.0), 0.0, g.op.Div(wide, norm))
        return narrowed(g, result, dtype)

    examples = Example.pairs(
        "agraph (float[a,b,4] x) => (float[a,b,4] y) { y = LpNormalization(x) }",
        "<int64[1] a = {-1}, float b = {0}> { c = ReduceL2(x, a) d = Equal(c, b) e = Div(x, c) "
        "y = Where(d, b, e) }",
        "agraph (float[a,4,b] x) => (float[a,4,b] y) { y = LpNormalization <axis = 1, p = 1> (x) }",
        "<int64[1] a = {1}, float b = {0}> { c = ReduceL1(x, a) d = Equal(c, b) e = Div(x, c) "
        "y = Where(d, b, e) }",
    )
