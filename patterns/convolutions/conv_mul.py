from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._channels import output_channels, per_channel, scale_outputs
from .._folding import Array, constant, doubles, rounded
from ._convolution import any_convolution, same_convolution


class ConvMulPattern(EasyPatternOptimization):
    """Conv(x, w, b) · c → Conv(x, w · c, b · c)

    What: moves a constant for each output channel into weights and bias; the same for Conv / c and for ConvTranspose.
    Why: saves one pass over the result.
    Refuses when:
    1. weights or bias of the convolution are not constant.
    2. the constant differs along another axis than the channels, would change the shape, or is not finite.
    3. it divides by zero, or a new constant leaves the range of its type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional, c: Constant) -> Symbol:
        y = any_convolution(g, x, w, b)
        return g.op.Div(y, c) if g.option("division") else g.op.Mul(y, c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.b and not g.is_constant(m.b):  # (1)
            return self.none(m.nodes[0], msg="the bias is not constant")
        channels = output_channels(g, m.w, m.transposed, m.attributes.get("group", 1))
        scale = per_channel(g.get_computed_constant(m.c), g.info(m.w).rank, channels)
        if scale is None:  # (2)
            return self.none(m.nodes[1], msg="not one number for each channel")
        if m.division and not scale.all():  # (3)
            return self.none(m.nodes[1], msg="a divisor is zero")
        scale = 1 / scale if m.division else scale
        weight = scale_outputs(g, m.w, scale, transposed=m.transposed, group=m.attributes.get("group", 1))
        bias = rounded(doubles(g, m.b) * scale, constant(g, m.w).dtype, terms=())
        if weight is None or bias is None:  # (3)
            return self.none(m.nodes[0], msg="a new constant leaves the range of its type")
        return m.derive(weight=weight, shift=bias if m.b else None)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        weight: Array,
        shift: Array | None,
        attributes: dict[str, Any],
        transposed: bool,
    ) -> str:
        return same_convolution(g, x, weight, shift, attributes, transposed)

    examples = (
        Example(
            "agraph (float[n,1,h,w] x) => (float[n,2,h,w] y) <float[2,1,1,1] k = {5, 6}, float[1,2,1,1] c = {3, 4}> "
            "{ t = Conv(x, k) y = Mul(c, t) }",
            "agraph (float[n,1,h,w] x) => (float[n,2,h,w] y) <float[2,1,1,1] k = {15, 24}> { y = Conv(x, k) }",
        ),
        Example(
            "agraph (float[n,1,h] x) => (float[n,2,h] y) <float[1,2,1] k = {6, 8}, float[2] b = {1, 2}, float c = {2}> "
            "{ t = ConvTranspose(x, k, b) y = Div(t, c) }",
            "agraph (float[n,1,h] x) => (float[n,2,h] y) <float[1,2,1] k = {3, 4}, float[2] b = {0.5, 1}> "
            "{ y = ConvTranspose(x, k, b) }",
        ),
    )
