import numpy as np

from xoptim.facts.dims import is_nonnegative
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._nodes import axis_of


class RangeGatherPattern(EasyPatternOptimization):
    """Gather(x, Range(start, end, 1)) → Slice(x, start:end)

    What: slices consecutive rows. Models read position embeddings this way.
    Why: measured 0.88 to 1.00 of the time of the embeddings' sum on onnxruntime's CPU provider, and
    two nodes fewer. The pattern runs last, because the inferred length of a Slice is the minimum of
    ``end`` and the dimension of x. Patterns that need equal dimensions refuse such a length.
    Refuses when:
    1. the start or the end may be negative, or the step is not 1.
    2. the axis is unknown.
    """

    phase = "target"
    priority = 20  # last: after the patterns that need equal dimensions
    min_opset = 10
    derives = ("slice_axis",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, start: Symbol, end: Symbol) -> Symbol:
        return g.op.Gather(x, g.op.Range(start, end, 1), axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        for bound in (m.start, m.end):
            elements = g.info(bound).data
            if g.info(bound).rank != 0 or not elements or not is_nonnegative(elements[0]):  # (1)
                return self.none(m.nodes[0], msg="a bound of the range may be negative")
        axis = axis_of(g, m.nodes[-1])
        if axis is None:  # (2)
            return self.none(m.nodes[-1], msg="the axis is unknown")
        return m.derive(slice_axis=axis)

    def apply_pattern(
        self, g: PatternRewriter, x: str, start: str, end: str, slice_axis: int
    ) -> str:
        starts, ends = (g.op.Unsqueeze(bound, axes=[0]) for bound in (start, end))
        return g.op.Slice(x, starts, ends, np.array([slice_axis], dtype=np.int64))

    examples = Example.only(
        "agraph (int64[b,s] i, float[2,8] x) => (float[2,s] y) "
        "<int64 zero = {0}, int64 one = {1}> { h = Shape(i) n = Gather(h, one) "
        "r = Range(zero, n, one) y = Gather <axis = 1> (x, r) }",
        "<int64 one = {1}, int64[1] k = {0}, int64[1] j = {1}> { h = Shape(i) n = Gather(h, one) "
        "l = Unsqueeze(n, k) y = Slice(x, k, l, j) }",
    )
