import numpy as np

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

from .._folding import constant


class GatherUnsqueezePattern(EasyPatternOptimization):
    """Unsqueeze(Gather(x, i, axis=k), axes=k) → Gather(x, [i], axis=k)

    What: gathers by a vector of one index, which keeps the axis.
    Why: one node fewer.
    Refuses when:
    1. the index is not a constant scalar of rank 0.
    2. the Unsqueeze adds another axis, or the rank is unknown.
    """

    derives = ("vector",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, index: Scalar) -> Symbol:
        return g.op.Unsqueeze(g.op.Gather(x, index, axis=g.capture("axis")), axes=g.capture("axes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        if g.info(m.index).rank != 0:  # (1)
            return self.none(m.nodes[0], msg="the index is not a scalar (rank 0)")
        # (2)
        if (
            not rank
            or not isinstance(m.axes, list)
            or [axis % rank for axis in m.axes] != [m.axis % rank]
        ):
            return self.none(m.nodes[1], msg="the Unsqueeze adds another axis")
        return m.derive(vector=np.atleast_1d(constant(g, m.index)))

    def apply_pattern(self, g: PatternRewriter, x: str, vector: np.ndarray, axis: int) -> str:
        return g.op.Gather(x, vector, axis=axis)

    examples = Example.only(
        "agraph (float[a,3,b] x) => (float[a,1,b] y) <int64 i = {-1}, int64[1] k = {1}> "
        "{ t = Gather <axis = -2> (x, i) y = Unsqueeze(t, k) }",
        "<int64[1] i = {-1}> { y = Gather <axis = -2> (x, i) }",
    )
