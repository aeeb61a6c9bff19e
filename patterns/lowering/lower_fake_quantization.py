from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.match import (
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._folding import Array
from ._lowering import _Lowering

_RANGES: Final[dict[int, tuple[int, int]]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
}


class LowerFakeQuantizationPattern(_Lowering):
    """DequantizeLinear(QuantizeLinear(x, s, z), s, z) → Clip(Round(x / s), low - z, high - z) · s

    What: rounds activations as the two operators do, in float32.
    Why: WebGPU has no QuantizeLinear.
    Refuses when:
    1. the type is not float32. Or the scale or the zero point is not a constant with one element,
       or differs between the two operators.
    """

    exactness = "finite"  # NaN stays NaN, but QuantizeLinear converts NaN to an integer
    min_opset = 11
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    derives = ("scale", "bounds")

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Symbol, z: Optional) -> Symbol:
        integers = g.op.QuantizeLinear(x, s, z, attributes=g.capture("first"))
        return g.op.DequantizeLinear(integers, s, z, attributes=g.capture("second"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        first, second = m.nodes[0], m.nodes[-1]
        scale, dtype = g.get_computed_constant(m.s), g.try_infer_type(m.nodes[0].output[0])
        zero = g.get_computed_constant(m.z) if m.z else np.zeros((), np.int64)
        if scale is None or zero is None or scale.size != 1 or zero.size != 1:  # (1)
            return self.none(first, msg="the scale or the zero point is not a constant scalar")
        is_float = (
            g.try_infer_type(second.output[0]) == TensorProto.FLOAT and scale.dtype == np.float32
        )
        if dtype not in _RANGES or not is_float or not scale.reshape(-1)[0] > 0:  # (1)
            return self.none(
                first, msg="the type is not float32, or the scale or integer type is not supported"
            )
        low, high = _RANGES[dtype]
        point = int(zero.reshape(-1)[0])
        bounds = np.float32(low - point), np.float32(high - point)
        return m.derive(scale=scale.reshape(()), bounds=bounds)

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: Array, bounds: tuple[Any, Any]
    ) -> str:
        rounded = g.op.Round(g.op.Div(x, scale))
        return g.op.Mul(g.op.Clip(rounded, min=bounds[0], max=bounds[1]), scale)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float s = {0.5}, uint8 z = {3}> "
        "{ t = QuantizeLinear(x, s, z) y = DequantizeLinear(t, s, z) }",
        "<float s = {0.5}, float l = {-3}, float h = {252}> { t = Div(x, s) u = Round(t) "
        "v = Clip(u, l, h) y = Mul(v, s) }",
        "agraph (float[a,b] x) => (float[a,b] y) <float s = {0.5}, int8 z = {0}> "
        "{ t = QuantizeLinear(x, s, z) y = DequantizeLinear(t, s, z) }",
        "<float s = {0.5}, float l = {-128}, float h = {127}> { t = Div(x, s) u = Round(t) "
        "v = Clip(u, l, h) y = Mul(v, s) }",
    )
