"""Operators with the channels along the last axis, between Transposes."""

from typing import Any

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Optional, Variadic

from ._layouts import MAX_POOLED_RANK, channels_first, channels_last
from ._lowering import ATTENTION_FLOATS, _Lowering


class _LowerChannelsLast(_Lowering):
    """An operator of ``com.microsoft`` whose channels may be the last axis.

    What: writes the standard operator between Transposes, which move the channels to axis 1 and
    back.
    Why: only ONNX Runtime's own providers run the operator.
    """

    exactness = "exact"
    min_opset = 12
    derives = ("rank",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank or 0
        if rank < 3:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown")
        return m.derive(rank=rank)


class LowerNhwcMaxPoolPattern(_LowerChannelsLast):
    """com.microsoft.NhwcMaxPool(x) → Transpose(MaxPool(Transpose(x)))

    Refuses when:
    1. the rank is unknown.
    2. the integers do not have 8 bits (checked by the matcher).
    3. the rank is above 5: the standard operator has no kernel.
    """

    operand_types = {"x": frozenset((TensorProto.UINT8, TensorProto.INT8))}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.NhwcMaxPool(x, domain="com.microsoft", attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if (g.info(m.x).rank or 0) > MAX_POOLED_RANK:  # (3)
            return self.none(m.nodes[0], msg="the rank is above 5")
        return super().validate_mapping(g, m)

    def apply_pattern(self, g: PatternRewriter, x: str, rank: int, written: dict[str, Any]) -> str:
        return channels_last(g, g.op.MaxPool(channels_first(g, x, rank), **written), rank)

    examples = Example.pairs(
        "agraph (uint8[n,h,w,2] x) => (uint8[n,i,j,2] y) { y = com.microsoft.NhwcMaxPool "
        "<kernel_shape = [2, 3], strides = [1, 2], pads = [1, 0, 0, 1]> (x) }",
        "{ a = Transpose <perm = [0, 3, 1, 2]> (x) b = MaxPool <kernel_shape = [2, 3], strides = "
        "[1, 2], pads = [1, 0, 0, 1]> (a) y = Transpose <perm = [0, 2, 3, 1]> (b) }",
    )


class LowerContribQLinearConvPattern(_LowerChannelsLast):
    """com.microsoft.QLinearConv(x, ...) → Transpose(QLinearConv(Transpose(x), ...))

    What: writes the standard operator, between Transposes if the channels are the last axis.
    Refuses when:
    1. the rank is unknown.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, others: Variadic) -> Symbol:
        return g.op.QLinearConv(x, others, domain="com.microsoft", attributes=g.capture("written"))

    def apply_pattern(self, g: PatternRewriter, x: str, rank: int, **m: Any) -> str:
        attributes = dict(m["written"])
        if not attributes.pop("channels_last", 0):
            return g.op.QLinearConv(x, *m["others"], **attributes)
        first = channels_first(g, x, rank)
        return channels_last(g, g.op.QLinearConv(first, *m["others"], **attributes), rank)

    examples = Example.pairs(
        "agraph (uint8[n,h,4,2] x) => (uint8[n,h,3,2] y) <float s = {0.25}, float t = {2}, uint8 u "
        "= {128}, uint8 v = {3}, uint8[2,2,1,2] w = {10, 200, 130, 7, 128, 255, 0, 90}> { y = "
        "com.microsoft.QLinearConv <channels_last = 1> (x, s, u, w, s, u, t, v) }",
        "<float a = {0.25}, float b = {2}, uint8 c = {128}, uint8 d = {3}, uint8[2,2,1,2] e = {10, "
        "200, 130, 7, 128, 255, 0, 90}> { f = Transpose <perm = [0, 3, 1, 2]> (x) g = "
        "QLinearConv(f, a, c, e, a, c, b, d) y = Transpose <perm = [0, 2, 3, 1]> (g) }",
        "agraph (uint8[n,2,h,4] x) => (uint8[n,2,h,3] y) <float s = {0.25}, float t = {2}, uint8 u "
        "= {128}, uint8 v = {3}, uint8[2,2,1,2] w = {10, 200, 130, 7, 128, 255, 0, 90}> { y = "
        "com.microsoft.QLinearConv(x, s, u, w, s, u, t, v) }",
        "<float a = {0.25}, float b = {2}, uint8 c = {128}, uint8 d = {3}, uint8[2,2,1,2] e = {10, "
        "200, 130, 7, 128, 255, 0, 90}> { y = QLinearConv(x, a, c, e, a, c, b, d) }",
    )


class LowerNhwcConvPattern(_LowerChannelsLast):
    """com.microsoft.NhwcConv(x, w, bias) → Transpose(Conv(Transpose(x), w, bias))

    Why: ONNX Runtime runs the operator on CUDA only. Its optimizer for diffusion models writes
    NhwcConv.
    Refuses when:
    1. the rank is unknown.
    2. the type is not float32 or float16 (checked by the matcher).
    """

    operand_types = {"x": ATTENTION_FLOATS}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol, bias: Optional) -> Symbol:
        return g.op.NhwcConv(x, w, bias, domain="com.microsoft", attributes=g.capture("written"))

    def apply_pattern(
        self, g: PatternRewriter, x: str, w: str, bias: str, rank: int, written: dict[str, Any]
    ) -> str:
        result = g.op.Conv(channels_first(g, x, rank), w, bias or None, **written)
        return channels_last(g, result, rank)

    examples = Example.pairs(
        "agraph (float[n,h,w,2] x, float[3,2,3,3] k, float[3] b) => (float[n,i,j,3] y) { y = "
        "com.microsoft.NhwcConv <pads = [1, 1, 1, 1], strides = [1, 2]> (x, k, b) }",
        "{ t = Transpose <perm = [0, 3, 1, 2]> (x) "
        "c = Conv <pads = [1, 1, 1, 1], strides = [1, 2]> (t, k, b) "
        "y = Transpose <perm = [0, 2, 3, 1]> (c) }",
        "agraph (float[n,h,w,4] x, float[4,1,1,1] k) => (float[n,h,w,4] y) { y = "
        "com.microsoft.NhwcConv <group = 4> (x, k) }",
        "{ t = Transpose <perm = [0, 3, 1, 2]> (x) c = Conv <group = 4> (t, k) "
        "y = Transpose <perm = [0, 2, 3, 1]> (c) }",
    )
