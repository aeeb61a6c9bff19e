from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import _Lowering, axes_from
from ._normal import leading_ones


class LowerLayerNormalizationScalePattern(_Lowering):
    """LayerNormalization(x, scale of shape (1, n), bias) → LayerNormalization(x, scale of shape
    (n), bias)

    What: drops leading axes of size 1 of the scale and of the bias, of constants where they are
    stored.
    Why: Qualcomm's QNN and TVM take only vectors. `LayerNormalizationRow` writes rows, for ONNX
    Runtime's CPU provider.
    Refuses when:
    1. the rank of x is unknown, on which the number of normalized axes depends.
    2. neither scale nor bias have leading axes of size 1 next to the normalized ones.
    """

    min_opset = 7
    derives = ("dropped",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Optional) -> Symbol:
        return g.op.LayerNormalization(
            x, scale, bias, outputs=g.variadic("results"), attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        axes = axes_from(m.written.get("axis", -1), g.info(m.x).rank)
        if axes is None:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown")
        dropped = {name: leading_ones(g, name, len(axes)) for name in (m.scale, m.bias) if name}
        if not any(dropped.values()):  # (2)
            return self.none(
                m.nodes[0], msg="scale and bias have no leading axes of size 1 to remove"
            )
        return m.derive(dropped=dropped)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        scale: str,
        bias: str,
        dropped: dict[str, list[int]],
        results: tuple[str, ...],
        written: dict[str, Any],
    ) -> Any:
        operands = [
            g.op.Squeeze(name, axes=dropped[name]) if name and dropped[name] else name
            for name in (scale, bias)
        ]
        return g.op.LayerNormalization(x, *operands, outputs=len(results), **written)

    examples = Example.pairs(
        "agraph (float[a,b,2] x, float[2] c) => (float[a,b,2] y) <float[1,2] s = {2, 3}> "
        "{ y = LayerNormalization <epsilon = 0.001> (x, s, c) }",
        "<float[2] a = {2, 3}> { y = LayerNormalization <epsilon = 0.001> (x, a, c) }",
        "agraph (float[a,3,2] x, float[1,3,2] s, float[1,3,2] c) => (float[a,3,2] y) "
        "{ y = LayerNormalization <axis = 1> (x, s, c) }",
        "<int64[1] a = {0}> { b = Squeeze(s, a) d = Squeeze(c, a) "
        "y = LayerNormalization <axis = 1> (x, b, d) }",
        "agraph (float16[a,b,4] x, float16[1,1,4] s) => (float16[a,b,4] y) { "
        "y = LayerNormalization(x, s) }",
        "<int64[2] a = {0, 1}> { b = Squeeze(s, a) y = LayerNormalization(x, b) }",
    )
