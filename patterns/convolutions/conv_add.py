from typing import Any

import numpy as np

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._channels import output_channels, per_channel
from .._folding import Array, constant, doubles, rounded
from ._convolution import any_convolution, same_convolution


class ConvAddPattern(EasyPatternOptimization):
    """Conv(x, w, b) + c → Conv(x, w, b + c)

    What: moves a constant for each output channel into the bias; the same for Conv - c and for ConvTranspose.
    Why: saves one pass over the result.
    Refuses when:
    1. the constant differs along another axis than the channels, would change the shape, or is not finite.
    2. the bias of the convolution is not constant.
    3. the sums cancel, or leave the range of their type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional, c: Constant) -> Symbol:
        y = any_convolution(g, x, w, b)
        return g.op.Sub(y, c) if g.option("minus") else g.op.Add(y, c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        channels = output_channels(g, m.w, m.transposed, m.attributes.get("group", 1))
        shift = per_channel(g.get_computed_constant(m.c), g.info(m.w).rank, channels)
        if shift is None:  # (1)
            return self.none(m.nodes[1], msg="not one number for each channel")
        if m.b and not g.is_constant(m.b):  # (2)
            return self.none(m.nodes[0], msg="the bias is not constant")
        given, shift = doubles(g, m.b), np.multiply(shift, -1 if m.minus else 1)
        bias = rounded(given + shift, constant(g, m.c).dtype, terms=(given, shift))
        return m.derive(bias=bias) if bias is not None else self.none(m.nodes[1], msg="the sum cancels or overflows")  # (3)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        w: str,
        attributes: dict[str, Any],
        transposed: bool,
        bias: Array,
    ) -> str:
        return same_convolution(g, x, w, bias, attributes, transposed)

    examples = (
        Example(
            "agraph (float[n,1,h,w] x, float[2,1,3,3] k) => (float[n,2,a,b] y) <float[2,1,1] c = {3, 4}> "
            "{ t = Conv(x, k) y = Add(c, t) }",
            "agraph (float[n,1,h,w] x, float[2,1,3,3] k) => (float[n,2,a,b] y) <float[2] c = {3, 4}> { y = Conv(x, k, c) }",
        ),
        Example(
            "agraph (float[n,1,h] x) => (float[n,2,a] y) <float[1,2,1] k = {5, 6}, float[2] b = {1, 2}, float c = {3}> "
            "{ t = ConvTranspose(x, k, b) y = Sub(t, c) }",
            "agraph (float[n,1,h] x) => (float[n,2,a] y) <float[1,2,1] k = {5, 6}, float[2] b = {-2, -1}> "
            "{ y = ConvTranspose(x, k, b) }",
        ),
    )
