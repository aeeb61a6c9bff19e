from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from .._factors import fits


class LeakyReluPattern(EasyPatternOptimization):
    """Where(x > 0, x, x · s) → LeakyRelu(x, alpha=s)

    What: one operator instead of three; the same for x < 0, x ≥ 0, x ≤ 0, and for Max(x, x · s).
    Why: measured 3.1 times faster on onnxruntime's CPU provider, 1.5 times for Max.
    Refuses when:
    1. the slope is negative, above 1, 0 in the form with Max (which makes NaN of infinity), or does not fit the attribute.
    2. the provider has no kernel of LeakyRelu for the type.
    """

    phase = "specialize"
    exactness = "rounding"  # the sign of zero may differ
    min_opset = 9
    kernels = {"LeakyRelu": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Scalar) -> Symbol:
        # The comparison decides which branch is which.
        steep = g.op.Mul(x, s)
        if g.option("maximum"):
            return g.op.Max(x, steep)
        if g.option("positive"):
            return g.op.Where(g.op.Greater(x, 0) if g.option("strict") else g.op.GreaterOrEqual(x, 0), x, steep)
        return g.op.Where(g.op.Less(x, 0) if g.option("strict") else g.op.LessOrEqual(x, 0), steep, x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        slope = g.get_constant_scalar(m.s)
        if slope is None or not 0 <= slope <= 1 or (m.maximum and slope == 0) or not fits(g, m.x, slope):  # (1)
            return self.none(m.nodes[-1], msg=f"the slope is {slope}")
        return m.derive(slope=float(slope))

    def apply_pattern(self, g: PatternRewriter, x: str, slope: float) -> str:
        return g.op.LeakyRelu(x, alpha=slope)

    _after = "agraph (float[a,b] x) => (float[a,b] y) { y = LeakyRelu <alpha = 0.25> (x) }"
    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float zero = {0}, float s = {0.25}> "
            "{ c = Greater(x, zero) t = Mul(x, s) y = Where(c, x, t) }",
            _after,
        ),
        Example("agraph (float[a,b] x) => (float[a,b] y) <float s = {0.25}> { t = Mul(s, x) y = Max(t, x) }", _after),
    )
