from xoptim.match import EasyPatternOptimization, Example, Optional, PatternBuilder, PatternRewriter, Symbol


class DynamicQuantizeMatMulPattern(EasyPatternOptimization):
    """com.microsoft.MatMulIntegerToFloat(DynamicQuantizeLinear(x), b, t) → com.microsoft.DynamicQuantizeMatMul(x, b, t)

    What: quantizes the tensor within the product. Other products of the same integers keep the tensor quantized once.
    Why: one node less, measured 0.96 of the time for up to 16 rows (768 by 768), where onnxruntime's own optimizer is off;
    otherwise it makes the same operator.
    Refuses when:
    1. something else reads the integers, their scale or their zero point.
    2. the provider has no kernel for the type.
    """

    phase = "target"
    exactness = "rounding"
    priority = 1
    min_opset = 11
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("onnxruntime",)
    kernels = {"com.microsoft::DynamicQuantizeMatMul": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol, b: Symbol, t: Symbol, zb: Optional, bias: Optional) -> Symbol:
        integers, scale, zero = g.op.DynamicQuantizeLinear(x, outputs=3)
        return g.op.MatMulIntegerToFloat(integers, b, scale, t, zero, zb, bias, domain="com.microsoft")  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, b: str, t: str, zb: str, bias: str) -> str:
        # The parameters of the first operand are computed within.
        return g.op.DynamicQuantizeMatMul(x, b, t, zb or None, bias or None, domain="com.microsoft")

    _operands = "agraph (float[n,4] x, int8[4,3] b, float[3] t, int8[3] v, float[3] k) => (float[n,3] y)"
    _least = "agraph (float[2,n,4] x, uint8[4,3] b, float t) => (float[2,n,3] y)"
    _start = "i, s, u = DynamicQuantizeLinear(x)"
    examples = Example.pairs(
        f"{_operands} {{ {_start} y = com.microsoft.MatMulIntegerToFloat(i, b, s, t, u, v, k) }}",
        "{ y = com.microsoft.DynamicQuantizeMatMul(x, b, t, v, k) }",
        f"{_least} {{ {_start} y = com.microsoft.MatMulIntegerToFloat(i, b, s, t, u) }}",
        "{ y = com.microsoft.DynamicQuantizeMatMul(x, b, t) }",
    )
