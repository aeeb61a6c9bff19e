from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import doubles
from ._q_linear import NOT_ONE, _QLinear, are_moderate, is_one, quantized, symbols

_MAX_BIAS: Final = 2.0**30


class LowerQGemmPattern(_QLinear):
    """com.microsoft.QGemm(x, y, b) → QuantizeLinear(Gemm(DequantizeLinear(x), DequantizeLinear(y),
    b · scales))

    What: dequantizes the operands and the 32-bit bias, and quantizes the result. Without a scale of
    the result, the result stays float32.
    Why: only ONNX Runtime's own providers run the operator. Others support quantized models by
    QuantizeLinear and DequantizeLinear.
    Refuses when:
    1. the integers do not have 8 bits (checked by the matcher).
    2. a scale is not one constant of moderate magnitude, or its zero point has another shape. (The
       matrix y may have a constant scale for each column.)
    3. the sums may have no terms: kernels return uninitialized memory then.
    4. the bias is not a vector of one number for each column. Or the bias is not constant, or so
       large that a sum may exceed 32 bits in the kernel.
    """

    derives = ("dtype", "axis", "factors")

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        return g.op.QGemm(
            *symbols(g, "x s u y r w b t v", optional="b t v"),
            domain="com.microsoft",
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, matrix = m.nodes[0], g.try_infer_shape(m.y) or ()
        if len(matrix) != 2:  # (3)
            return self.none(node, msg="the summed dimension may be 0")
        axis = 0 if m.written.get("transB") else 1
        if not is_nonzero(matrix[1 - axis]):  # (3)
            return self.none(node, msg="the summed dimension may be 0")
        columns = matrix[axis : axis + 1]
        if not is_one(g, m.s, m.u) or (m.t and not (m.v and is_one(g, m.t, m.v))):  # (2)
            return self.none(node, msg=NOT_ONE)
        scales = doubles(g, m.r)
        is_vector = g.try_infer_shape(m.r) == g.try_infer_shape(m.w) == columns
        if not is_one(g, m.r, m.w) and not (is_vector and are_moderate(scales)):  # (2)
            return self.none(node, msg="the scales of the matrix are not one per column")
        if m.b and g.try_infer_shape(m.b) != columns:  # (4)
            return self.none(node, msg="the bias is not one value per column")
        if m.b and not np.abs(doubles(g, m.b)).max(initial=0) < _MAX_BIAS:  # (4)
            return self.none(node, msg="the bias is large")
        factors = scales * doubles(g, m.s)
        if not are_moderate(factors):  # (2)
            return self.none(node, msg="the product of the scales is too large or too small")
        return m.derive(dtype=g.try_infer_type(m.x), axis=axis, factors=factors.astype(np.float32))

    def apply_pattern(self, g: PatternRewriter, x: str, y: str, axis: int, **m: Any) -> str:
        left = g.op.DequantizeLinear(x, m["s"], m["u"])
        right = g.op.DequantizeLinear(y, m["r"], m["w"], axis=axis)
        bias = g.op.Mul(g.op.Cast(m["b"], to=TensorProto.FLOAT), m["factors"]) if m["b"] else None
        alpha = m["written"].get("alpha", 1.0)
        result = g.op.Gemm(left, right, bias, **{**m["written"], "beta": alpha})
        return quantized(g, result, m["t"], m["v"], m["dtype"]) if m["t"] else result

    examples = Example.pairs(
        "agraph (uint8[n,4] x) => (uint8[n,3] z) <float s = {0.8}, float r = {0.1}, float t = "
        "{1.15}, uint8 u = {128}, uint8 w = {100}, uint8 v = {3}, uint8[4,3] y = {217, 163, 130, "
        "69, 78, 10, 19, 4, 44, 208, 166, 233}, int32[3] b = {100, -200, 3}> { z = "
        "com.microsoft.QGemm(x, s, u, y, r, w, b, t, v) }",
        "<float a = {0.8}, float b = {0.1}, float c = {1.15}, uint8 d = {128}, uint8 e = {100}, "
        "uint8 f = {3}, uint8[4,3] g = {217, 163, 130, 69, 78, 10, 19, 4, 44, 208, 166, 233}, "
        "float[3] h = {8.000001, -16.000002, 0.24000001}> { i = DequantizeLinear(x, a, d) j = "
        "DequantizeLinear <axis = 1> (g, b, e) k = Gemm <beta = 1.0> (i, j, h) z = "
        "QuantizeLinear(k, c, f) }",
        "agraph (uint8[n,4] x) => (float[n,3] z) <float s = {0.25}, uint8 u = {128}, float[3] r = "
        "{0.25, 0.5, 2}, int8[3] w = {0, 1, 2}, int8[3,4] y = {1, -2, 3, -4, 5, 6, 7, 80, 127, "
        "-128, 11, 12}> { z = com.microsoft.QGemm <transB = 1, alpha = 0.5> (x, s, u, y, r, w) }",
        "<float a = {0.25}, uint8 b = {128}, float[3] c = {0.25, 0.5, 2}, int8[3] d = {0, 1, 2}, "
        "int8[3,4] e = {1, -2, 3, -4, 5, 6, 7, 80, 127, -128, 11, 12}> { f = DequantizeLinear(x, "
        "a, b) g = DequantizeLinear <axis = 0> (e, c, d) z = Gemm <transB = 1, alpha = 0.5, beta = "
        "0.5> (f, g) }",
    )
