from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class ReluClipPattern(EasyPatternOptimization):
    """Clip(Relu(x), low, high) → Clip(x, low or 0, high)

    What: Clip cuts the negative numbers, too.
    Why: one pass over the tensor less.
    Refuses when:
    1. a bound is computed or is NaN, or the type is unknown.
    2. the upper bound is 0: nothing but zeros is left, and which of +0 and -0 depends on the order.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Clip(g.op.Relu(x), min=g.capture("low", optional=True), max=g.capture("high", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not g.has_type(m.x) or m.low != m.low or m.high != m.high:  # (1)
            return self.none(m.nodes[1], msg="a bound is NaN, or the type is unknown")
        if m.high == 0:  # (2)
            return self.none(m.nodes[1], msg="nothing but zeros is left")
        low = 0.0 if m.low is None or m.low <= 0 else m.low
        return m.derive(bottom=low if m.high is None else min(low, m.high))

    def apply_pattern(self, g: PatternRewriter, x: str, bottom: float, high: float | None) -> str:
        return g.op.Clip(x, min=bottom, max=high)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float six = {6}> { t = Relu(x) y = Clip(t, , six) }",
            "agraph (float[a,b] x) => (float[a,b] y) <float zero = {0}, float six = {6}> { y = Clip(x, zero, six) }",
        ),
    )
