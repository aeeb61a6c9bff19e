from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import _Lowering

_KNOWN: Final = {"ndim", "activation", "dilation", "channels_last"}
_SILU: Final = ("silu", "swish")
_END: Final = np.iinfo(np.int64).max


class LowerCausalConvWithStatePattern(_Lowering):
    """com.microsoft.CausalConvWithState(x, w, b, past) → Conv(Concat(past, x), w, b), and the
    last columns of the Concat

    What: writes a depthwise convolution of x, preceded by the columns of the last step or by zeros.
    The activation SiLU becomes Sigmoid and Mul.
    Why: only ONNX Runtime's own providers run the operator, which onnxruntime-genai writes for
    Qwen3.5 and Mamba.
    Refuses when:
    1. the type is not float32 (checked by the matcher).
    2. the convolution has more than one axis, or the channels are the last axis. Or an attribute
       is set that the pattern does not know.
    3. the number of channels or the length of the kernel is unknown, or the kernel has one column.
    """

    min_opset = 13
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    derives = ("channels", "length")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional, past: Optional
    ) -> Symbol:
        return g.op.CausalConvWithState(
            *(x, w, b, past),
            domain="com.microsoft",
            outputs=g.variadic("results"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, written, shape = m.nodes[0], m.written, g.try_infer_shape(m.w) or ()
        has_unknown = any(written[name] for name in written.keys() - _KNOWN)
        if has_unknown or written.get("ndim", 1) != 1 or written.get("channels_last"):  # (2)
            return self.none(node, msg="an attribute has another value than its default")
        if written.get("activation", "none") not in ("none", *_SILU):  # (2)
            return self.none(node, msg="the activation is unknown")
        if len(shape) != 3 or not all(isinstance(size, int) and size for size in shape):  # (3)
            return self.none(node, msg="the shape of the weight is unknown")
        length = (int(str(shape[2])) - 1) * written.get("dilation", 1)
        if length < 1 or g.info(m.x).rank != 3 or len(m.results) > 2:  # (3)
            return self.none(node, msg="the kernel has one column, or the rank is unknown")
        return m.derive(channels=shape[0], length=length)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, b: str, past: str, **m: Any) -> Any:
        length = m["length"]
        if past:
            columns = g.op.Concat(past, x, axis=2)
        else:
            columns = g.op.Pad(x, np.array([0, 0, length, 0, 0, 0], np.int64))
        result = g.op.Conv(
            *(columns, w, b or None),
            group=m["channels"],
            dilations=[m["written"].get("dilation", 1)],
        )
        if m["written"].get("activation", "none") in _SILU:
            result = g.op.Mul(result, g.op.Sigmoid(result))
        if len(m["results"]) < 2:
            return result
        ends = [np.array([number], np.int64) for number in (-length, _END, 2)]
        return result, g.op.Slice(columns, *ends)

    _start = "agraph (float[n,3,l] x, float[3,1,4] w, float[3] b, float[n,3,3] p) =>"
    examples = Example.pairs(
        f"{_start} (float[n,3,l] y, float[n,3,3] s) {{ y, s = com.microsoft.CausalConvWithState "
        '<activation = "silu"> (x, w, b, p) }',
        "<int64[1] i = {-3}, int64[1] e = {9223372036854775807}, int64[1] a = {2}> { "
        "c = Concat <axis = 2> (p, x) d = Conv <group = 3, dilations = [1]> (c, w, b) "
        "f = Sigmoid(d) y = Mul(d, f) s = Slice(c, i, e, a) }",
        "agraph (float[n,3,l] x, float[3,1,2] w) => (float[n,3,l] y, float[n,3,2] s) { "
        "y, s = com.microsoft.CausalConvWithState <dilation = 2> (x, w) }",
        "<int64[6] q = {0, 0, 2, 0, 0, 0}, int64[1] i = {-2}, int64[1] e = {9223372036854775807}, "
        "int64[1] a = {2}> { c = Pad(x, q) y = Conv <group = 3, dilations = [2]> (c, w) "
        "s = Slice(c, i, e, a) }",
    )
