from typing import Any

import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol

from .._operators import REDUCTIONS
from ._lowering import _Lowering


class LowerKeepdimsPattern(_Lowering):
    """ReduceSum(x, keepdims=0) → Squeeze(ReduceSum(x)). The same for the other reductions.

    What: keeps the reduced axes, and drops them by a Squeeze, or all axes by a Reshape.
    Why: some providers reduce with keepdims=1 only.
    Refuses when:
    1. the axes are computed at run time, or are an empty list.
    """

    exactness = "rounding"
    min_opset = 13
    priority = 1
    derives = ("axes",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        reduce = getattr(g.op, g.choice("operator", *REDUCTIONS))
        return reduce(x, axes=g.capture("axes", optional=True), keepdims=0)  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.axes == []:  # (1)
            return self.none(m.nodes[0], msg="the list of axes is empty")
        return m.derive(axes=m.axes)

    def apply_pattern(
        self, g: PatternRewriter, x: str, operator: str, axes: list[int] | None
    ) -> Any:
        result = getattr(g.op, operator)(x, axes=axes)
        if axes is None:
            return g.op.Reshape(result, np.zeros(0, np.int64))
        return g.op.Squeeze(result, axes=axes)

    examples = Example.pairs(
        "agraph (float[n,3,4] x) => (float[n,4] y) <int64[1] i = {1}> { "
        "y = ReduceMax <keepdims = 0> (x, i) }",
        "<int64[1] i = {1}> { t = ReduceMax(x, i) y = Squeeze(t, i) }",
        "agraph (float[n,3] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }",
        "<int64[0] s = {}> { t = ReduceSum(x) y = Reshape(t, s) }",
    )
