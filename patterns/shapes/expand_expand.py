from xoptim.facts.shapes import broadcast_shapes
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._shapes import same_dims


class ExpandExpandPattern(EasyPatternOptimization):
    """Expand(Expand(x, s), t) → Expand(x, t)

    What: expands once.
    Why: saves a copy.
    Refuses when:
    1. the elements of t are unknown, or t alone does not give the result its shape.
    """

    interior = "keep"
    min_opset = 8

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Symbol, t: Symbol) -> Symbol:
        return g.op.Expand(g.op.Expand(x, s), t)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        sizes = g.info(m.t).data or g.get_ints(m.t)
        shape = broadcast_shapes(g.try_infer_shape(m.x), None if sizes is None else tuple(sizes))
        fits = same_dims(shape, g.try_infer_shape(m.outputs[0]))
        return fits or self.none(
            m.nodes[1], msg="the second shape alone may not give the result its shape"
        )  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, t: str) -> str:
        return g.op.Expand(x, t)

    examples = Example.only(
        "agraph (float[1,1] x) => (float[3,4] y) <int64[2] s = {1, 4}, int64[2] t = {3, 4}> "
        "{ e = Expand(x, s) y = Expand(e, t) }",
        "<int64[2] t = {3, 4}> { y = Expand(x, t) }",
    )
