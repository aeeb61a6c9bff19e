from typing import Any

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class ReduceMaxSubSoftmaxPattern(EasyPatternOptimization):
    """Softmax(x - max x) → Softmax(x). The same for LogSoftmax.

    What: removes the subtraction, since Softmax subtracts the maximum itself. Exporters subtract
    the maximum in attention with sinks (GPT-OSS). (The exactness is ``finite``: a row of -∞ minus
    its maximum is NaN.)
    Why: measured 0.78 of the time of the three operators with 8 rows of 513 elements, and 0.46 with
    4096 rows.
    Refuses when:
    1. the maximum is not along the axis of the Softmax, or ReduceMax removes its axis.
    2. the rank is unknown, and one axis is counted from the front, the other one from the end.
    """

    exactness = "finite"
    min_opset = 13

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        distance = g.op.Sub(
            x, g.op.ReduceMax(x, axes=g.capture("axes", lambda value: len(value) == 1))
        )
        axis = g.capture("axis", optional=True)
        return g.either(
            lambda: g.op.Softmax(distance, axis=axis),
            lambda: g.op.LogSoftmax(distance, axis=axis),
            name="logarithm",
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        axis, axes = -1 if m.axis is None else m.axis, m.axes[0]
        if axis == axes:
            return True
        rank = g.info(m.x).rank
        if rank is None:  # (2)
            return self.none(m.nodes[-1], msg="the rank is unknown")
        if axis % rank != axes % rank:  # (1)
            return self.none(m.nodes[-1], msg="the maximum is taken along another axis")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, axis: int | None, logarithm: bool) -> Any:
        return g.op.LogSoftmax(x, axis=axis) if logarithm else g.op.Softmax(x, axis=axis)

    examples = Example.pairs(
        "agraph (float[a,b,c] x) => (float[a,b,c] y) <int64[1] i = {1}> { m = ReduceMax(x, i) "
        "d = Sub(x, m) y = Softmax <axis = -2> (d) }",
        "{ y = Softmax <axis = -2> (x) }",
        "agraph (float[a,b] x) => (float[a,b] y) <int64[1] i = {-1}> { m = ReduceMax(x, i) "
        "d = Sub(x, m) y = LogSoftmax(d) }",
        "{ y = LogSoftmax(x) }",
    )
