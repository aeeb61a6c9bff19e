"""Int8 MatMuls, as MatMuls of dequantized tensors."""

from typing import Any

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import _Lowering


class _LowerIntegerMatMul(_Lowering):
    """An integer MatMul that becomes a MatMul of floats.

    What: subtracts the zero points and multiplies by the scales by DequantizeLinear, before the
    MatMul instead of after it. The sums are rounded, since they are sums of floats.
    Why: many runtimes support quantized models by DequantizeLinear only.
    Refuses when:
    1. the first operand is not known to have one scale and one zero point, of the same shape.
    2. the second operand is not a matrix with one scale and zero point for each column, or for all.
    3. the sums may have no terms: kernels return uninitialized memory then.
    4. the bias is not known to have one summand for each column.
    """

    min_opset = 13
    max_opset = 27

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        matrix = g.try_infer_shape(m.b) or ()
        if len(matrix) < 2 or not is_nonzero(matrix[-2]):  # (3)
            return self.none(m.nodes[0], msg="the summed dimension may be 0")
        if m.get("bias") and g.try_infer_shape(m.bias) != matrix[-1:]:  # (4)
            return self.none(m.nodes[0], msg="the bias is not one value per column")
        return True

    def is_one(self, g: GraphView, scale: str, zero: str) -> bool:
        """Whether there is one scale, and a zero point of the same shape, if any."""
        shape = g.try_infer_shape(scale)
        return shape in ((), (1,)) and (not zero or g.try_infer_shape(zero) == shape)

    def is_for_columns(self, g: GraphView, scale: str, zero: str, b: str) -> bool:
        """Whether there is one scale, or one scale for each column of a matrix.

        Zero points, if any, must have the shape of the scales.
        """
        shape, matrix = g.try_infer_shape(scale), g.get_shape(b)
        is_vector = shape is not None and len(matrix) == 2 and shape == matrix[1:]
        return self.is_one(g, scale, zero) or (
            is_vector and (not zero or g.try_infer_shape(zero) == shape)
        )


def dequantized(g: PatternRewriter, x: str, scale: Any, zero: str) -> str:
    """The floats of an integer tensor with one scale, or one for each index of the last axis."""
    return g.op.DequantizeLinear(x, scale, zero or None, axis=-1)


class LowerMatMulIntegerPattern(_LowerIntegerMatMul):
    """Cast(MatMulInteger(a, b, u, v)) → MatMul(DequantizeLinear(a, 1, u), DequantizeLinear(b, 1,
    v))

    Refuses when:
    1. the first operand is not known to have one zero point, or the Cast is not to float32.
    2. the second operand is not a matrix with one zero point for each column, or for all.
    3. the sums may have no terms: kernels return uninitialized memory then.
    """

    derives = ("ones",)

    def match_pattern(
        self, g: PatternBuilder, a: Symbol, b: Symbol, za: Optional, zb: Optional
    ) -> Symbol:
        return g.op.Cast(g.op.MatMulInteger(a, b, za, zb), to=TensorProto.FLOAT)  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not super().validate_mapping(g, m):
            return None
        if m.za and not self.is_one(g, m.za, ""):  # (1)
            return self.none(
                m.nodes[0], msg="the zero point of the first operand may not be a scalar"
            )
        sizes = [g.static_shape(name) if name else () for name in (m.za, m.zb)]
        if None in sizes or (m.zb and not self.is_for_columns(g, m.zb, "", m.b)):  # (2)
            return self.none(
                m.nodes[0],
                msg="the zero points of the second operand may not be one per column",
            )
        return m.derive(ones=[np.ones(size or (), np.float32) for size in sizes])

    def apply_pattern(
        self, g: PatternRewriter, a: str, b: str, za: str, zb: str, ones: list[np.ndarray]
    ) -> str:
        return g.op.MatMul(dequantized(g, a, ones[0], za), dequantized(g, b, ones[1], zb))

    examples = Example.pairs(
        "agraph (uint8[n,4] a, uint8 u, int8[4,3] b, int8[3] v) => (float[n,3] y) "
        "{ i = MatMulInteger(a, b, u, v) y = Cast <to = 1> (i) }",
        "<float c = {1}, float[3] d = {1, 1, 1}> { e = DequantizeLinear <axis = -1> (a, c, u) f = "
        "DequantizeLinear <axis = -1> (b, d, v) y = MatMul(e, f) }",
        "agraph (int8[2,n,4] a, int8[2,4,3] b) => (float[2,n,3] y) { i = MatMulInteger(a, b) "
        "y = Cast <to = 1> (i) }",
        "<float c = {1}> { d = DequantizeLinear <axis = -1> (a, c) "
        "e = DequantizeLinear <axis = -1> (b, c) y = MatMul(d, e) }",
    )


class LowerMatMulIntegerToFloatPattern(_LowerIntegerMatMul):
    """com.microsoft.MatMulIntegerToFloat(a, b, s, t, u, v, c) → MatMul(DequantizeLinear(a),
    DequantizeLinear(b)) + c
    """

    exactness = "finite"  # an infinite scale times 0 is not a number

    def match_pattern(
        self,
        g: PatternBuilder,
        a: Symbol,
        b: Symbol,
        s: Symbol,
        t: Symbol,
        za: Optional,
        zb: Optional,
        bias: Optional,
    ) -> Symbol:
        return g.op.MatMulIntegerToFloat(a, b, s, t, za, zb, bias, domain="com.microsoft")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not super().validate_mapping(g, m):
            return None
        if not self.is_one(g, m.s, m.za) or not self.is_for_columns(g, m.t, m.zb, m.b):  # (1) (2)
            return self.none(m.nodes[0], msg="a scale or zero point has an unsupported shape")
        return True

    def apply_pattern(
        self, g: PatternRewriter, a: str, b: str, s: str, t: str, za: str, zb: str, bias: str
    ) -> str:
        result = g.op.MatMul(dequantized(g, a, s, za), dequantized(g, b, t, zb))
        return g.op.Add(result, bias) if bias else result

    examples = Example.pairs(
        "agraph (uint8[n,4] a, float s, uint8 u, int8[4,3] b, float[3] t, int8[3] v, float[3] k) "
        "=> (float[n,3] y) { y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, u, v, k) }",
        "{ c = DequantizeLinear <axis = -1> (a, s, u) d = DequantizeLinear <axis = -1> (b, t, v) e "
        "= MatMul(c, d) y = Add(e, k) }",
        "agraph (int8[2,n,4] a, float s, int8[4,3] b, float[1] t) => (float[2,n,3] y) "
        "{ y = com.microsoft.MatMulIntegerToFloat(a, b, s, t) }",
        "{ c = DequantizeLinear <axis = -1> (a, s) d = DequantizeLinear <axis = -1> (b, t) "
        "y = MatMul(c, d) }",
        ranges=(("s", 0.01, 1.0), ("t", 0.01, 1.0)),
    )


class LowerDynamicQuantizeMatMulPattern(_LowerIntegerMatMul):
    """com.microsoft.DynamicQuantizeMatMul(x, b, t, v, bias) → MatMul(x quantized to 8 bits,
    DequantizeLinear(b, t, v)) + bias

    What: quantizes x by DynamicQuantizeLinear and dequantizes the result, so that x has the same
    256 values as in the operator. DequantizeLinear computes the floats of b.
    Refuses when:
    1. the type of x is unknown (checked by the matcher).
    2. the second operand is not a matrix with one scale and zero point for each column, or for all.
    3. the sums may have no terms: kernels return uninitialized memory then.
    4. the bias is not known to have one summand for each column.
    """

    exactness = "finite"  # kernels convert NaN to an arbitrary integer
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, b: Symbol, t: Symbol, zb: Optional, bias: Optional
    ) -> Symbol:
        return g.op.DynamicQuantizeMatMul(x, b, t, zb, bias, domain="com.microsoft")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not super().validate_mapping(g, m):
            return None
        if not self.is_for_columns(g, m.t, m.zb, m.b):  # (2)
            return self.none(m.nodes[0], msg="a scale or zero point has an unsupported shape")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, b: str, t: str, zb: str, bias: str) -> str:
        integers, scale, zero = g.op.DynamicQuantizeLinear(x, outputs=3)
        result = g.op.MatMul(g.op.DequantizeLinear(integers, scale, zero), dequantized(g, b, t, zb))
        return g.op.Add(result, bias) if bias else result

    examples = Example.pairs(
        "agraph (float[n,4] x, int8[4,3] b, float[3] t, int8[3] v, float[3] k) => (float[n,3] y) "
        "{ y = com.microsoft.DynamicQuantizeMatMul(x, b, t, v, k) }",
        "{ a, c, d = DynamicQuantizeLinear(x) e = DequantizeLinear(a, c, d) f = DequantizeLinear "
        "<axis = -1> (b, t, v) g = MatMul(e, f) y = Add(g, k) }",
        "agraph (float[2,n,4] x, uint8[4,3] b, float t) => (float[2,n,3] y) "
        "{ y = com.microsoft.DynamicQuantizeMatMul(x, b, t) }",
        "{ a, c, d = DynamicQuantizeLinear(x) e = DequantizeLinear(a, c, d) f = DequantizeLinear "
        "<axis = -1> (b, t) y = MatMul(e, f) }",
        ranges=(("t", 0.01, 1.0),),
    )
