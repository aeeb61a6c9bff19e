from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
    runs,
)


class BiasGeluPattern(EasyPatternOptimization):
    """Gelu(x + b) → com.microsoft.BiasGelu(x, b), or com.microsoft.FastGelu(x, b) for the
    approximation by Tanh

    What: one operator instead of two. The same for com.microsoft.Gelu and com.microsoft.FastGelu.
    Why: one pass over x instead of two. Measured on one thread of onnxruntime's CPU provider, with
    ORT graph optimizations disabled: BiasGelu takes 0.92 to 1.06 of the time of the two operators,
    and FastGelu 0.81 to 0.94.
    Refuses when:
    1. b is not a vector as long as the last axis, or the size of the last axis is dynamic.
    2. the provider has no kernel for the type. Or the type is double, for which the constants of
       the kernel have too few digits.
    """

    phase = "target"
    priority = 2
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    providers = ("cpu", "cuda")
    tags = ("onnxruntime",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, b: Symbol) -> Symbol:
        domain, total = g.choice("domain", "", "com.microsoft"), g.op.Add(x, b)
        if g.choice("operator", "BiasGelu", "FastGelu") == "BiasGelu":
            return g.op.Gelu(total, domain=domain)
        return (
            g.op.FastGelu(total, domain=domain) if domain else g.op.Gelu(total, approximate="tanh")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        # (1)
        if not shape or not isinstance(shape[-1], int) or g.try_infer_shape(m.b) != shape[-1:]:
            return self.none(m.nodes[0], msg="the bias is not a vector as long as the last axis")
        has_kernel = g.try_infer_type(m.x) != TensorProto.DOUBLE and runs(
            g, m.operator, m.x, "com.microsoft"
        )
        # (2)
        return (
            True
            if has_kernel
            else self.none(m.nodes[-1], msg=f"{m.operator} has no kernel for this element type")
        )

    def apply_pattern(self, g: PatternRewriter, x: str, b: str, operator: str) -> str:
        return str(getattr(g.op, operator)(x, b, domain="com.microsoft"))

    _start = "agraph (float[a,2] x) => (float[a,2] y) <float[2] b = {1, 2}>"
    _exact, _fast = (
        f"{_start} {{ y = com.microsoft.BiasGelu(x, b) }}",
        f"{_start} {{ y = com.microsoft.FastGelu(x, b) }}",
    )
    examples = (
        Example(f"{_start} {{ t = Add(b, x) y = com.microsoft.Gelu(t) }}", _exact),
        Example(
            f'{_start} {{ t = Add(x, b) y = Gelu <approximate = "tanh"> (t) }}', _fast, opset=20
        ),
    )
