from typing import Any

from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class ExpandNormalizationPattern(EasyPatternOptimization):
    """RMSNormalization(Reshape(Expand(x))) → Reshape(Expand(RMSNormalization(x)))

    What: normalizes each vector once, before it is repeated.
    Why: Qwen3-Next repeats the heads of queries and keys before it normalizes them. LinearAttention
    can then read the heads without the repetition.
    Refuses when:
    1. the normalization is not along the last axis, or its scale is not a vector.
    2. Expand or Reshape may change the last axis.
    """

    exactness = "rounding"
    providers = ("cpu",)
    min_opset = 23

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol) -> Symbol:
        repeated = g.op.Expand(x, g.symbol("shape"))
        rows = g.op.Reshape(repeated, g.symbol("target"), attributes=ANY)
        return g.op.RMSNormalization(rows, scale, attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        expand, reshape, node = m.nodes
        if m.written.get("axis", -1) != -1 or g.info(m.scale).rank != 1:  # (1)
            return self.none(node, msg="not along the last axis, or the scale is not a vector")
        names = (m.x, expand.output[0], reshape.output[0])
        last_dims = {shape[-1] if (shape := g.try_infer_shape(name)) else None for name in names}
        is_row = len(last_dims) == 1 and isinstance(size := last_dims.pop(), int) and size > 1
        return is_row or self.none(reshape, msg="the last axis may change")  # (2)

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, shape: str, target: str, **m: Any
    ) -> str:
        normal = g.op.RMSNormalization(x, scale, **m["written"])
        return g.op.Reshape(g.op.Expand(normal, shape), target)

    examples = Example.only(
        "agraph (float[b,2,1,4] x) => (float[b,6,4] y) <int64[4] e = {1, 1, 3, 1}, "
        "int64[3] t = {0, 6, 4}, float[4] s = {1, 2, 3, 4}> { r = Expand(x, e) "
        "f = Reshape(r, t) y = RMSNormalization <axis = -1, epsilon = 0.001> (f, s) }",
        "<int64[4] e = {1, 1, 3, 1}, int64[3] t = {0, 6, 4}, float[4] s = {1, 2, 3, 4}> { "
        "n = RMSNormalization <axis = -1, epsilon = 0.001> (x, s) r = Expand(n, e) "
        "y = Reshape(r, t) }",
        opset=23,
    )
