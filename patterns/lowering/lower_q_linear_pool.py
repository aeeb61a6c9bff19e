"""Averages of 8-bit integers over windows, and over all positions."""

from typing import Any

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._layouts import MAX_POOLED_RANK, channels_first, channels_last
from ._q_linear import _QLinear, quantized


class _LowerQLinearPool(_QLinear):
    """Pooling of 8-bit integers that stand for floats.

    What: dequantizes the operand, and quantizes the result. If the channels are the last axis,
    Transpose moves them to axis 1 and back.
    Refuses when:
    1. the integers do not have 8 bits (checked by the matcher).
    2. a scale is not one constant of moderate magnitude, or its zero point has another shape.
    3. the channels are the last axis, and the rank is unknown.
    """

    derives = ("dtype", "rank")
    integer_steps = 1  # kernels may add the zero point before they round

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = (g.info(m.x).rank or 0) if m.written.get("channels_last") else 0
        if m.written.get("channels_last") and not rank:  # (3)
            return self.none(m.nodes[0], msg="the rank is unknown")
        return super().validate_mapping(g, m) and m.derive(rank=rank)

    def apply_pattern(self, g: PatternRewriter, x: str, rank: int, **m: Any) -> str:
        numbers = g.op.DequantizeLinear(
            channels_first(g, x, rank) if rank else x, m["s"], m["u"] or None
        )
        result = quantized(g, self.pooled(g, numbers, m["written"]), m["t"], m["v"], m["dtype"])
        return channels_last(g, result, rank) if rank else result

    def pooled(self, g: PatternRewriter, x: str, written: dict[str, Any]) -> str:
        """The pooled floats."""
        raise NotImplementedError


class LowerQLinearAveragePoolPattern(_LowerQLinearPool):
    """com.microsoft.QLinearAveragePool(x) → QuantizeLinear(AveragePool(DequantizeLinear(x)))"""

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Symbol, u: Optional, t: Symbol, v: Optional
    ) -> Symbol:
        return g.op.QLinearAveragePool(
            x, s, u, t, v, domain="com.microsoft", attributes=g.capture("written")
        )

    def pooled(self, g: PatternRewriter, x: str, written: dict[str, Any]) -> str:
        attributes = {name: written[name] for name in written if name != "channels_last"}
        return g.op.AveragePool(x, **attributes)

    examples = Example.pairs(
        "agraph (uint8[n,2,h,w] x) => (uint8[n,2,i,j] z) <float s = {0.8}, float t = {1.15}, uint8 "
        "u = {128}, uint8 v = {3}> { z = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], "
        "pads = [0, 1, 0, 1], strides = [1, 2]> (x, s, u, t, v) }",
        "<float a = {0.8}, float b = {1.15}, uint8 c = {128}, uint8 d = {3}> { e = "
        "DequantizeLinear(x, a, c) f = AveragePool <kernel_shape = [2, 2], pads = [0, 1, 0, 1], "
        "strides = [1, 2]> (e) z = QuantizeLinear(f, b, d) }",
        "agraph (uint8[n,h,w,2] x) => (uint8[n,i,j,2] z) <float s = {0.8}, float t = {1.15}, uint8 "
        "u = {128}, uint8 v = {3}> { z = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], "
        "channels_last = 1> (x, s, u, t, v) }",
        "<float a = {0.8}, float b = {1.15}, uint8 c = {128}, uint8 d = {3}> { e = Transpose <perm "
        "= [0, 3, 1, 2]> (x) f = DequantizeLinear(e, a, c) g = AveragePool <kernel_shape = [2, 2]> "
        "(f) h = QuantizeLinear(g, b, d) z = Transpose <perm = [0, 2, 3, 1]> (h) }",
    )


class LowerQLinearGlobalAveragePoolPattern(_LowerQLinearPool):
    """com.microsoft.QLinearGlobalAveragePool(x) →
    QuantizeLinear(GlobalAveragePool(DequantizeLinear(x)))

    Refuses when:
    1. the integers do not have 8 bits (checked by the matcher).
    2. a scale is not one constant of moderate magnitude, or its zero point has another shape.
    3. the rank or the number of channels is unknown.
    4. the rank is above 5: the standard operator has no kernel.
    """

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Symbol, u: Symbol, t: Symbol, v: Symbol
    ) -> Symbol:
        return g.op.QLinearGlobalAveragePool(
            x, s, u, t, v, domain="com.microsoft", attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x) or ()
        axis = -1 if m.written.get("channels_last") else 1
        if len(shape) < 3 or not is_nonzero(shape[axis]):  # (3)
            return self.none(m.nodes[0], msg="the number of channels is unknown")
        if len(shape) > MAX_POOLED_RANK:  # (4)
            return self.none(m.nodes[0], msg="the rank is above 5")
        return super().validate_mapping(g, m)

    def pooled(self, g: PatternRewriter, x: str, written: dict[str, Any]) -> str:
        return g.op.GlobalAveragePool(x)

    examples = Example.pairs(
        "agraph (uint8[n,2,2,4] x) => (uint8[n,2,1,1] z) <float s = {0.8}, float t = {1.15}, uint8 "
        "u = {128}, uint8 v = {3}> { z = com.microsoft.QLinearGlobalAveragePool(x, s, u, t, v) }",
        "<float a = {0.8}, float b = {1.15}, uint8 c = {128}, uint8 d = {3}> { e = "
        "DequantizeLinear(x, a, c) f = GlobalAveragePool(e) z = QuantizeLinear(f, b, d) }",
        "agraph (uint8[n,2,4,2] x) => (uint8[n,1,1,2] z) <float s = {0.8}, float t = {1.15}, uint8 "
        "u = {128}, uint8 v = {3}> { z = com.microsoft.QLinearGlobalAveragePool <channels_last = "
        "1> (x, s, u, t, v) }",
        "<float a = {0.8}, float b = {1.15}, uint8 c = {128}, uint8 d = {3}> { e = Transpose <perm "
        "= [0, 3, 1, 2]> (x) f = DequantizeLinear(e, a, c) g = GlobalAveragePool(f) h = "
        "QuantizeLinear(g, b, d) z = Transpose <perm = [0, 2, 3, 1]> (h) }",
    )
