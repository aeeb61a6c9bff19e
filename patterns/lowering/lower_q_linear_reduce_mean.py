from typing import Any

from xoptim.match import Example, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol

from ._q_linear import _QLinear, quantized, symbols


class LowerQLinearReduceMeanPattern(_QLinear):
    """com.microsoft.QLinearReduceMean(x) → QuantizeLinear(ReduceMean(DequantizeLinear(x)))

    What: dequantizes the operand, computes the mean along the axes, and quantizes the result.
    """

    integer_steps = 1  # a mean halfway between two integers may be rounded to either of them

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        return g.op.QLinearReduceMean(
            *symbols(g, "x s u t v", optional="u v"),
            domain="com.microsoft",
            attributes=g.capture("written"),
        )

    def apply_pattern(self, g: PatternRewriter, x: str, **m: Any) -> str:
        numbers = g.op.DequantizeLinear(x, m["s"], m["u"] or None)
        mean = g.op.ReduceMean(numbers, **m["written"])
        return quantized(g, mean, m["t"], m["v"], m["dtype"])

    examples = Example.pairs(
        "agraph (uint8[n,3,4] x) => (uint8[n,1,4] y) <float s = {0.8}, float t = {0.3}, uint8 u = "
        "{128}, uint8 v = {3}> { y = com.microsoft.QLinearReduceMean <axes = [1], keepdims = 1> "
        "(x, s, u, t, v) }",
        "<float s = {0.8}, float t = {0.3}, uint8 u = {128}, uint8 v = {3}, int64[1] a = {1}> { "
        "d = DequantizeLinear(x, s, u) m = ReduceMean <keepdims = 1> (d, a) "
        "y = QuantizeLinear(m, t, v) }",
        "agraph (int8[n,3,4] x) => (int8[n,3] y) <float s = {0.8}, float t = {0.3}, int8 u = "
        "{-5}, int8 v = {7}> { y = com.microsoft.QLinearReduceMean <axes = [-1], keepdims = 0> "
        "(x, s, u, t, v) }",
        "<float s = {0.8}, float t = {0.3}, int8 u = {-5}, int8 v = {7}, int64[1] a = {-1}> { "
        "d = DequantizeLinear(x, s, u) m = ReduceMean <keepdims = 0> (d, a) "
        "y = QuantizeLinear(m, t, v) }",
    )
