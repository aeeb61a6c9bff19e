from typing import Any

import numpy as np

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._channels import fixed_normalization, normalization
from .._folding import Array, doubles
from ._convolution import absorbed, pads


class BatchNormalizationConvPattern(EasyPatternOptimization):
    """Conv(BatchNormalization(x), w, b) → Conv(x, w', b')

    What: multiplies the weights by the factor of each input channel and moves the rest into the bias.
    Why: saves one pass over the input.
    Refuses when:
    1. the weights or the bias of the convolution are not constant, or the weights not finite.
    2. a parameter of the normalization is not constant or finite, a variance is negative, or a mean is far above the deviation.
    3. the convolution may pad (with zeros, which the normalization would not leave zero), unless nothing is shifted.
    4. a new constant leaves the range of its type, or is a sum that cancels.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7
    constant_operands = ("b",)  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional) -> Symbol:
        return g.op.Conv(fixed_normalization(g, x), w, b, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not np.isfinite(doubles(g, m.w)).all():  # (1)
            return self.none(m.nodes[1], msg="the weights are not finite")
        found = normalization(g, m.norm, m.epsilon)  # (2)
        if pads(m.attributes) and found[1].any():  # (3)
            return self.none(m.nodes[1], msg="the convolution pads")
        weight, bias = absorbed(g, m.w, m.b, m.attributes.get("group", 1), found)  # (4)
        return m.derive(weight=weight, bias=bias)

    def apply_pattern(self, g: PatternRewriter, x: str, weight: Array, bias: Array, attributes: dict[str, Any]) -> str:
        return g.op.Conv(x, weight, bias, **attributes)

    examples = Example.only(
        "agraph (float[n,2,h] x) => (float[n,1,h] y) <float[1,2,1] k = {1, 2}, float[2] s = {2, 4}, "
        "float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}> "
        "{ t = BatchNormalization <epsilon = 0.25> (x, s, o, m, v) y = Conv(t, k) }",
        "<float[1,2,1] k = {2, 4}, float[1] b = {0}> { y = Conv(x, k, b) }",
    )
