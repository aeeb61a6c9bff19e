"""Operators on two tensors of 8-bit integers."""

from typing import Any, ClassVar, Final

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import doubles
from ._q_linear import _QLinear, quantized, symbols

_STEPS: Final = 255
"""The largest difference between an 8-bit integer and its zero point."""
_MAX_RESULT: Final = 2.0**30


class _LowerQLinearPair(_QLinear):
    """A binary operator on 8-bit integers that stand for floats.

    Refuses when:
    1. the integers do not have 8 bits (checked by the matcher).
    2. a scale is not one constant of moderate magnitude, or its zero point has another shape.
    3. a result may exceed 32 bits before it is clipped to 8 bits.

    Class attributes:
        operator: the operator on floats.
    """

    scaled = (("s", "u"), ("r", "w"), ("t", "v"))
    integer_steps = 1  # the kernels add the zero point before they round
    operator: ClassVar[str]

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not super().validate_mapping(g, m):
            return None
        left, right, result = (float(doubles(g, m[name]).item()) for name in ("s", "r", "t"))
        if self.bound(left * _STEPS, right * _STEPS) / result > _MAX_RESULT:  # (3)
            return self.none(m.nodes[0], msg="a result may exceed 32 bits before it is clipped")
        return True

    def bound(self, left: float, right: float) -> float:
        """The largest result of operands with magnitudes up to ``left`` and ``right``."""
        raise NotImplementedError

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        operands = symbols(g, "x s u y r w t v", optional="u w v")
        return g.op[f"QLinear{self.operator}"](*operands, domain="com.microsoft")

    def apply_pattern(self, g: PatternRewriter, x: str, y: str, **m: Any) -> str:
        left = g.op.DequantizeLinear(x, m["s"], m["u"] or None)
        right = g.op.DequantizeLinear(y, m["r"], m["w"] or None)
        return quantized(g, g.op[self.operator](left, right), m["t"], m["v"], m["dtype"])


class LowerQLinearAddPattern(_LowerQLinearPair):
    """com.microsoft.QLinearAdd(x, y) → QuantizeLinear(DequantizeLinear(x) + DequantizeLinear(y))"""

    operator = "Add"

    def bound(self, left: float, right: float) -> float:
        return left + right

    examples = Example.pairs(
        "agraph (uint8[n,4] x, uint8[4] y) => (uint8[n,4] z) <float s = {0.8}, float r = {0.1}, "
        "float t = {1.15}, uint8 u = {128}, uint8 w = {100}, uint8 v = {3}> { z = "
        "com.microsoft.QLinearAdd(x, s, u, y, r, w, t, v) }",
        "<float a = {0.8}, float b = {0.1}, float c = {1.15}, uint8 d = {128}, uint8 e = {100}, "
        "uint8 f = {3}> { g = DequantizeLinear(x, a, d) h = DequantizeLinear(y, b, e) i = Add(g, "
        "h) z = QuantizeLinear(i, c, f) }",
        "agraph (int8[n,4] x, int8[n,4] y) => (int8[n,4] z) <float s = {0.8}, float t = {1.15}, "
        "int8 u = {5}, int8 v = {-3}> { z = com.microsoft.QLinearAdd(x, s, u, y, s, v, t, v) }",
        "<float a = {0.8}, float b = {1.15}, int8 c = {5}, int8 d = {-3}> { e = "
        "DequantizeLinear(x, a, c) f = DequantizeLinear(y, a, d) g = Add(e, f) z = "
        "QuantizeLinear(g, b, d) }",
    )


class LowerQLinearMulPattern(_LowerQLinearPair):
    """com.microsoft.QLinearMul(x, y) → QuantizeLinear(DequantizeLinear(x) · DequantizeLinear(y))"""

    operator = "Mul"

    def bound(self, left: float, right: float) -> float:
        return left * right

    examples = Example.pairs(
        "agraph (uint8[n,4] x, uint8[n,1] y) => (uint8[n,4] z) <float s = {0.8}, float r = {0.1}, "
        "float t = {1.15}, uint8 u = {128}, uint8 w = {100}, uint8 v = {3}> { z = "
        "com.microsoft.QLinearMul(x, s, u, y, r, w, t, v) }",
        "<float a = {0.8}, float b = {0.1}, float c = {1.15}, uint8 d = {128}, uint8 e = {100}, "
        "uint8 f = {3}> { g = DequantizeLinear(x, a, d) h = DequantizeLinear(y, b, e) i = Mul(g, "
        "h) z = QuantizeLinear(i, c, f) }",
    )


class LowerQLinearWherePattern(_LowerQLinearPair):
    """com.microsoft.QLinearWhere(c, x, y) → QuantizeLinear(Where(c, DequantizeLinear(x),
    DequantizeLinear(y)))
    """

    def bound(self, left: float, right: float) -> float:
        return max(left, right)

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        return g.op.QLinearWhere(*symbols(g, "c x s u y r w t v"), domain="com.microsoft")

    def apply_pattern(self, g: PatternRewriter, x: str, y: str, **m: Any) -> str:
        chosen = g.op.Where(
            m["c"],
            g.op.DequantizeLinear(x, m["s"], m["u"]),
            g.op.DequantizeLinear(y, m["r"], m["w"]),
        )
        return quantized(g, chosen, m["t"], m["v"], m["dtype"])

    examples = Example.pairs(
        "agraph (bool[n,1] c, uint8[n,4] x, uint8[4] y) => (uint8[n,4] z) <float s = {0.8}, float "
        "r = {0.1}, float t = {1.15}, uint8 u = {128}, uint8 w = {100}, uint8 v = {3}> { z = "
        "com.microsoft.QLinearWhere(c, x, s, u, y, r, w, t, v) }",
        "<float a = {0.8}, float b = {0.1}, float d = {1.15}, uint8 e = {128}, uint8 f = {100}, "
        "uint8 g = {3}> { h = DequantizeLinear(x, a, e) i = DequantizeLinear(y, b, f) j = Where(c, "
        "h, i) z = QuantizeLinear(j, d, g) }",
    )
