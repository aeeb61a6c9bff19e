from xoptim.facts.dtypes import is_float, is_integer
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
)


class MaxMinPattern(EasyPatternOptimization):
    """Min(Max(x, low), high) or Max(Min(x, high), low) → Clip(x, low, high)

    What: one operator for both bounds. (The exactness is ``rounding``, because it depends on the
    operator which of +0 and -0 is larger.)
    Why: measured 2 times as fast on onnxruntime's CPU provider.
    Refuses when:
    1. a bound is not a constant scalar, would change the shape (checked by the matcher), or is NaN.
    2. Max comes last, and the lower bound is above the upper bound: Max then returns the lower
       bound, Clip the upper bound.
    3. the type is not a numeric type that Clip supports.
    """

    exactness = "rounding"
    min_opset = 12
    derives = ("bottom", "top")

    def match_pattern(self, g: PatternBuilder, x: Symbol, low: Scalar, high: Scalar) -> Symbol:
        # (1)
        return (
            g.op.Min(g.op.Max(x, low), high)
            if g.option("max_first")
            else g.op.Max(g.op.Min(x, high), low)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dtype = g.try_infer_type(m.x)
        low, high = g.get_constant_scalar(m.low), g.get_constant_scalar(m.high)
        # (1) (2)
        if low is None or high is None or not (low <= high or (m.max_first and low > high)):
            return self.none(m.nodes[1], msg="the bounds exclude each other, or one is NaN")
        if not is_float(dtype) and not is_integer(dtype):  # (3)
            return self.none(m.nodes[1], msg="the type is unknown")
        return m.derive(bottom=low, top=high)

    def apply_pattern(self, g: PatternRewriter, x: str, bottom: float, top: float) -> str:
        return g.op.Clip(x, min=bottom, max=top)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float l = {-1}, float h = {6}> { t = Max(x, l) "
        "y = Min(t, h) }",
        "<float l = {-1}, float h = {6}> { y = Clip(x, l, h) }",
        "agraph (float[a,b] x) => (float[a,b] y) <float[1] l = {-1}, float h = {6}> { "
        "t = Min(h, x) y = Max(t, l) }",
        "<float l = {-1}, float h = {6}> { y = Clip(x, l, h) }",
    )
