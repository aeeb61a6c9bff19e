"""Integer MatMuls that onnxruntime's dynamic quantization (``quantize_dynamic``) writes."""

from onnx import TensorProto

from xoptim.facts.dims import is_nonzero
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from ._parameters import is_single, is_single_or_per_column


class _DynamicQuantizeMatMul(EasyPatternOptimization):
    """Integer MatMul, fused with the scaling of its result or the quantization of its operand."""

    phase = "target"
    exactness = "rounding"
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("onnxruntime",)


class MatMulIntegerToFloatPattern(_DynamicQuantizeMatMul):
    """Cast(MatMulInteger(a, b)) · (s · t) [+ bias] → com.microsoft.MatMulIntegerToFloat(a, b, s, t,
    bias=bias)

    What: scales the sums within the MatMul. onnxruntime's dynamic quantization writes these nodes.
    Why: two or three fewer passes over the result. It takes 0.89 to 0.95 of the time (768 by 768)
    with ORT graph optimizations disabled. If they are enabled, onnxruntime fuses the same operator
    itself.
    Refuses when:
    1. the types have no kernel, or the sums are cast to another type than float32.
    2. the first operand may have more than one scale or zero point.
    3. the second operand is quantized neither per tensor nor per column.
    4. the bias is not a vector as long as a row of the result.
    5. the first operand may be a vector, or the summed dimension may be 0: the kernel then returns
       uninitialized memory.
    """

    min_opset = 10
    kernels = {"com.microsoft::MatMulIntegerToFloat": "a"}  # (1)
    derives = ("left", "right")

    def match_pattern(
        self,
        g: PatternBuilder,
        a: Symbol,
        b: Symbol,
        s: Symbol,
        t: Symbol,
        za: Optional,
        zb: Optional,
        bias: Symbol,
    ) -> Symbol:
        # MatMuls with equal scales share the product of the scales.
        y = g.op.Mul(
            g.op.Cast(g.op.MatMulInteger(a, b, za, zb), to=TensorProto.FLOAT),
            g.keep(g.op.Mul(s, t)),
        )
        return g.op.Add(y, bias) if g.option("biased") else y

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        matmul = m.nodes[0]
        types = g.try_infer_type(m.a), g.try_infer_type(m.b)
        is_mixed = types == (TensorProto.INT8, TensorProto.UINT8)
        if is_mixed or not all(types):  # (1)
            return self.none(matmul, msg="no kernel for these element types")
        left, right = (m.s, m.t) if is_single(g, m.s) else (m.t, m.s)
        if not is_single(g, left) or not is_single(g, m.za):  # (2)
            return self.none(
                matmul, msg="the scale or zero point of the first operand may not be a scalar"
            )
        # (3)
        if not all(is_single_or_per_column(g, name, m.b) for name in (right, m.zb)):
            return self.none(
                matmul,
                msg="the scales or zero points of the second operand are not one per column",
            )
        rank = g.info(m.a).rank
        if rank is None or rank < 2 or not is_nonzero(g.get_shape(m.b)[-2]):  # (5)
            return self.none(
                matmul, msg="the first operand may be a vector, or its last dimension may be 0"
            )
        if m.biased and g.try_infer_shape(m.bias) != g.get_shape(m.b)[-1:]:  # (4)
            return self.none(m.nodes[-1], msg="the bias is not one value per column")
        return m.derive(left=left, right=right)

    def apply_pattern(
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        left: str,
        right: str,
        za: str,
        zb: str,
        bias: str | None,
    ) -> str:
        return g.op.MatMulIntegerToFloat(
            a, b, left, right, za or None, zb or None, bias, domain="com.microsoft"
        )

    _operands = "agraph (uint8[n,4] a, float s, uint8 u"
    examples = Example.pairs(
        f"{_operands}, int8[4,3] b, float[3] t, int8[3] v, float[3] k) => (float[n,3] y) {{ "
        "i = MatMulInteger(a, b, u, v) c = Cast <to = 1> (i) p = Mul(s, t) q = Mul(c, p) "
        "y = Add(q, k) }",
        "{ y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, u, v, k) }",
        "agraph (int8[2,n,4] a, float s, int8[4,3] b, float[1] t) => (float[2,n,3] y) "
        "{ i = MatMulInteger(a, b) c = Cast <to = 1> (i) p = Mul(t, s) y = Mul(p, c) }",
        "{ y = com.microsoft.MatMulIntegerToFloat(a, b, t, s) }",
    )


class DynamicQuantizeMatMulPattern(_DynamicQuantizeMatMul):
    """com.microsoft.MatMulIntegerToFloat(DynamicQuantizeLinear(x), b, t) →
    com.microsoft.DynamicQuantizeMatMul(x, b, t)

    What: quantizes the tensor within the MatMul. If several MatMuls read the integers, quantizing
    the tensor once is faster.
    Why: one node fewer. It takes 0.96 of the time for up to 16 rows (768 by 768) with ORT graph
    optimizations disabled. If they are enabled, onnxruntime fuses the same operator itself.
    Refuses when:
    1. the integers, their scale or their zero point have other consumers.
    2. the provider has no kernel for the type.
    """

    priority = 1
    min_opset = 11
    kernels = {"com.microsoft::DynamicQuantizeMatMul": "x"}  # (2)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, b: Symbol, t: Symbol, zb: Optional, bias: Optional
    ) -> Symbol:
        integers, scale, zero = g.op.DynamicQuantizeLinear(x, outputs=3)
        # (1)
        return g.op.MatMulIntegerToFloat(
            integers, b, scale, t, zero, zb, bias, domain="com.microsoft"
        )

    def apply_pattern(self, g: PatternRewriter, x: str, b: str, t: str, zb: str, bias: str) -> str:
        # The operator computes the scale and zero point of x.
        return g.op.DynamicQuantizeMatMul(x, b, t, zb or None, bias or None, domain="com.microsoft")

    _operands = (
        "agraph (float[n,4] x, int8[4,3] b, float[3] t, int8[3] v, float[3] k) => (float[n,3] y)"
    )
    _least = "agraph (float[2,n,4] x, uint8[4,3] b, float t) => (float[2,n,3] y)"
    _start = "i, s, u = DynamicQuantizeLinear(x)"
    examples = Example.pairs(
        f"{_operands} {{ {_start} y = com.microsoft.MatMulIntegerToFloat(i, b, s, t, u, v, k) }}",
        "{ y = com.microsoft.DynamicQuantizeMatMul(x, b, t, v, k) }",
        f"{_least} {{ {_start} y = com.microsoft.MatMulIntegerToFloat(i, b, s, t, u) }}",
        "{ y = com.microsoft.DynamicQuantizeMatMul(x, b, t) }",
    )
