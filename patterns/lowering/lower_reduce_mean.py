from math import prod

from xoptim.match import AT_RUN_TIME, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol

from ._lowering import WIDE_FLOATS, _Lowering, narrowed, widened


class LowerReduceMeanPattern(_Lowering):
    """ReduceMean(x) → ReduceSum(x) · 1/n

    What: divides the sum by the number of its terms; 16-bit floats are added in 32 bits.
    Why: some providers run ReduceMean for some axes only, or lack it.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    2. the axes are computed at run time, or one is not static, or empty.
    """

    operand_types = {"x": WIDE_FLOATS}  # (1)
    min_opset = 13
    derives = ("count", "dtype")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        axes = g.capture("axes", optional=True)
        return g.op.ReduceMean(x, axes=axes, keepdims=g.capture("keepdims"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        if m.axes is AT_RUN_TIME or shape is None:  # (2)
            return self.none(m.nodes[0], msg="the axes or the rank are unknown")
        axes = {axis % len(shape) for axis in m.axes or range(len(shape))}
        summed = [shape[axis] for axis in axes]
        lengths = [length for length in summed if isinstance(length, int) and length]
        if len(lengths) < len(summed):  # (2)
            return self.none(m.nodes[0], msg="a reduced dimension is not static, or is 0")
        return m.derive(count=prod(lengths), dtype=g.try_infer_type(m.x))

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        axes: list[int] | None,
        keepdims: int,
        count: int,
        dtype: int,
    ) -> str:
        total = g.op.ReduceSum(widened(g, x, dtype), axes=axes or None, keepdims=keepdims)
        return narrowed(g, g.op.Mul(total, 1 / count), dtype)

    examples = Example.pairs(
        "agraph (float[n,2,4] x) => (float[n,1,1] y) <int64[2] i = {1, 2}> { "
        "y = ReduceMean(x, i) }",
        "<int64[2] i = {1, 2}, float k = {0.125}> { s = ReduceSum(x, i) y = Mul(s, k) }",
        "agraph (float16[n,4] x) => (float16[n] y) <int64[1] i = {-1}> { "
        "y = ReduceMean <keepdims = 0> (x, i) }",
        "<int64[1] i = {-1}, float k = {0.25}> { w = Cast <to = 1> (x) "
        "s = ReduceSum <keepdims = 0> (w, i) t = Mul(s, k) y = Cast <to = 10> (t) }",
    )
