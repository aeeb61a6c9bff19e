from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class LowerInstanceNormalizationRankPattern(_Lowering):
    """InstanceNormalization(x of rank 3) → InstanceNormalization(x of rank 4)

    What: Unsqueeze and Squeeze add an axis of size 1, and drop it.
    Why: some providers have kernels for images only; Qualcomm's QNN has none for rank 3 in 16 bits.
    Refuses when:
    1. the rank is unknown, or not 3.
    """

    priority = 1  # after the formula
    min_opset = 7

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
