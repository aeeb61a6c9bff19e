import numpy as np

from xoptim.facts.dims import product
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Symbol

from ._lowering import _Lowering


class LowerCompressPattern(_Lowering):
    """Compress(x, condition) → Gather(x, places)

    What: takes the rows at which a constant condition is true; without an axis, of the tensor in
    one row.
    Why: several providers have no kernel of Compress.
    Refuses when:
    1. the condition is not constant, or never true.
    2. the axis is not static, or ends before the last row.
    """

    exactness = "exact"
    min_opset = 9
    derives = ("places",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, condition: Constant) -> Symbol:
        return g.op.Compress(x, condition, axis=g.capture("axis", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        chosen = g.get_computed_constant(m.condition)
        if chosen is None or not chosen.any():  # (1)
            return self.none(m.nodes[0], msg="the condition is not constant, or never true")
        places, shape = np.flatnonzero(chosen), g.try_infer_shape(m.x)
        if not shape:  # (2)
            return self.none(m.nodes[0], msg="the rank is unknown")
        length = product(shape) if m.axis is None else shape[m.axis]
        if not isinstance(length, int) or places[-1] >= length:  # (2)
            return self.none(
                m.nodes[0], msg="the axis is not static, or shorter than the condition"
            )
        return m.derive(places=places)

    def apply_pattern(
        self, g: PatternRewriter, x: str, axis: int | None, places: np.ndarray
    ) -> str:
        if axis is None:
            return g.op.Gather(g.op.Reshape(x, shape=[-1]), places)
        return g.op.Gather(x, places, axis=axis)

    examples = Example.pairs(
        "agraph (float[n,4] x) => (float[n,2] y) <bool[4] c = {0, 1, 0, 1}> { "
        "y = Compress <axis = 1> (x, c) }",
        "<int64[2] i = {1, 3}> { y = Gather <axis = 1> (x, i) }",
        "agraph (float[2,2] x) => (float[2] y) <bool[3] c = {1, 0, 1}> { y = Compress(x, c) }",
        "<int64[1] s = {-1}, int64[2] i = {0, 2}> { t = Reshape(x, s) y = Gather(t, i) }",
    )
