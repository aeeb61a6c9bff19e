"""Normalizations whose operands get ranks for which more providers have kernels."""

from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Optional

from ._lowering import _Lowering, axes_from
from ._normal import leading_ones


class _LowerNormalizationForm(_Lowering):
    """A normalization in a form for which more providers have kernels."""

    min_opset = 7


class LowerLayerNormalizationScalePattern(_LowerNormalizationForm):
    """LayerNormalization(x, scale of shape (1, n), bias) → LayerNormalization(x, scale of shape
    (n), bias)

    What: drops leading axes of size 1 of the scale and of the bias.
    Why: Qualcomm's QNN and TVM support only vectors. (`LayerNormalizationRow` writes rows, for ONNX
    Runtime's CPU provider.)
    Refuses when:
    1. the rank of x is unknown, on which the number of normalized axes depends.
    2. neither scale nor bias has axes of size 1 before the normalized axes.
    """

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


class LowerInstanceNormalizationRankPattern(_LowerNormalizationForm):
    """InstanceNormalization(x of rank 3) → InstanceNormalization(x of rank 4)

    What: adds an axis of size 1 by Unsqueeze, and drops this axis by Squeeze.
    Why: some providers have kernels for images only. Qualcomm's QNN has no kernel for rank 3 in 16
    bits.
    Refuses when:
    1. the rank is unknown, or not 3.
    """

    after = {"LowerInstanceNormalization": "its formula works for any rank"}

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Symbol) -> Symbol:
        return g.op.InstanceNormalization(x, scale, bias, attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.info(m.x).rank != 3:  # (1)
            return self.none(m.nodes[0], msg="the rank is not 3")
        return True

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, bias: str, written: dict[str, Any]
    ) -> str:
        image = g.op.Unsqueeze(x, axes=[2])
        return g.op.Squeeze(g.op.InstanceNormalization(image, scale, bias, **written), axes=[2])

    examples = Example.pairs(
        "agraph (float[n,3,h] x) => (float[n,3,h] y) "
        "<float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}> "
        "{ y = InstanceNormalization <epsilon = 0.001> (x, s, b) }",
        "<float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}> { a = Unsqueeze <axes = [2]> (x) c = "
        "InstanceNormalization <epsilon = 0.001> (a, s, b) y = Squeeze <axes = [2]> (c) }",
        "agraph (float[n,c,h] x, float[c] s, float[c] b) => (float[n,c,h] y) { "
        "y = InstanceNormalization(x, s, b) }",
        "{ a = Unsqueeze <axes = [2]> (x) c = InstanceNormalization(a, s, b) "
        "y = Squeeze <axes = [2]> (c) }",
        opset=11,
    )
