from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from .._factors import fits


class ThresholdedReluPattern(EasyPatternOptimization):
    """Where(x > t, x, 0) → ThresholdedRelu(x, alpha=t)

    What: one operator instead of two.
    Why: measured 3.3 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the provider has no kernel of ThresholdedRelu for the type.
    2. the threshold is not finite, or does not fit the attribute.
    """

    phase = "specialize"
    exactness = "rounding"  # the sign of zero may differ
    min_opset = 10
    kernels = {"ThresholdedRelu": "x"}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, t: Scalar) -> Symbol:
        return g.op.Where(g.op.Greater(x, t), x, 0.0)  # NaN is not greater than the threshold in both forms

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        threshold = float(g.get_constant_scalar(m.t) or 0)
        if not abs(threshold) < 1e30 or not fits(g, m.x, threshold):  # (2)
            return self.none(m.nodes[0], msg=f"the threshold is {threshold}")
        return m.derive(threshold=threshold)

    def apply_pattern(self, g: PatternRewriter, x: str, threshold: float) -> str:
        return g.op.ThresholdedRelu(x, alpha=threshold)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float t = {0.5}, float zero = {0}> "
            "{ c = Greater(x, t) y = Where(c, x, zero) }",
            "agraph (float[a,b] x) => (float[a,b] y) { y = ThresholdedRelu <alpha = 0.5> (x) }",
        ),
    )
