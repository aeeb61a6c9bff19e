import numpy as np
from onnx import TensorProto

from xoptim.match import Example, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class LowerDynamicQuantizeLinearPattern(_Lowering):
    """DynamicQuantizeLinear(x) → QuantizeLinear(x, scale, zero) with scale = (max(x, 0) - min(x,
    0)) / 255

    What: scale and zero point by ReduceMax and ReduceMin, as ONNX defines the operator; the scale
    is 1 where all numbers are 0.
    Why: most runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    """

    exactness = "finite"  # kernels convert NaN to any integer
    min_opset = 13
    max_opset = 27
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> tuple[Symbol, ...]:
        integers, scale, zero = g.op.DynamicQuantizeLinear(x, outputs=3)
        return integers, scale, zero

    def apply_pattern(self, g: PatternRewriter, x: str) -> tuple[str, str, str]:
        highest = g.op.Max(g.op.ReduceMax(x, keepdims=0), 0.0)
        least = g.op.Min(g.op.ReduceMin(x, keepdims=0), 0.0)
        span = g.op.Sub(highest, least)
        scale = g.op.Where(g.op.Equal(span, 0.0), np.array(1, np.float32), g.op.Div(span, 255.0))
        place = g.op.Sub(np.array(0, np.float32), g.op.Div(least, scale))
        zero = g.op.Cast(g.op.Round(g.op.Clip(place, min=0.0, max=255.0)), to=TensorProto.UINT8)
        return g.op.QuantizeLinear(x, scale, zero), scale, zero

    examples = Example.pairs(
        "agraph (float[n,4] x) => (uint8[n,4] y, float s, uint8 z) { "
        "y, s, z = DynamicQuantizeLinear(x) }",
        "<float a = {0}, float b = {255}, float c = {1}> { d = ReduceMax <keepdims = 0> (x) e = "
        "Max(d, a) f = ReduceMin <keepdims = 0> (x) g = Min(f, a) h = Sub(e, g) i = Equal(h, a) j "
        "= Div(h, b) s = Where(i, c, j) k = Div(g, s) l = Sub(a, k) m = Clip(l, a, b) n = Round(m) "
        "z = Cast <to = 2> (n) y = QuantizeLinear(x, s, z) }",
    )
