from typing import Any

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._folding import Array
from .normalization_scale import same_trailing, shifted


class LayerNormalizationBiasPattern(EasyPatternOptimization):
    """LayerNormalization(x, scale, bias) + shift → LayerNormalization(x, scale, bias + shift)

    What: adds while the tensor is normalized.
    Why: saves one pass over the tensor.
    Refuses when:
    1. the shift does not have the shape of the scale, and is not a constant that broadcasts to it.
    2. there is a bias, and it or the shift is not constant, or their sums cancel or leave the range
       of the type.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 7
    derives = ("total",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Optional, shift: Symbol
    ) -> Symbol:
        return g.op.Add(
            g.op.LayerNormalization(x, scale, bias, attributes=g.capture("attributes")), shift
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not same_trailing(g, m.shift, m.scale, m.x):  # (1)
            return self.none(m.nodes[1], msg="the added bias does not have the shape of the scale")
        return m.derive(total=shifted(g, m.bias, m.shift, m.scale))  # (2)

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, total: Array | str, attributes: dict[str, Any]
    ) -> str:
        return g.op.LayerNormalization(x, scale, total, **attributes)

    examples = Example.pairs(
        "agraph (float[a,2] x, float[2] s) "
        "=> (float[a,2] y) <float[2] b = {2, 3}, float[1,2] c = {4, 5}> { "
        "t = LayerNormalization <epsilon = 0.001> (x, s, b) y = Add(c, t) }",
        "<float[2] b = {6, 8}> { y = LayerNormalization <epsilon = 0.001> (x, s, b) }",
        "agraph (float[a,2] x, float[2] s, float[2] c) => (float[a,2] y) { "
        "t = LayerNormalization(x, s) y = Add(t, c) }",
        "{ y = LayerNormalization(x, s, c) }",
    )
