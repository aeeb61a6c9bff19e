"""Products of tensors times a number."""

from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from .._factors import scaled


class _FusedFactor(EasyPatternOptimization):
    """A number that multiplies, or divides, the result or an operand of a product."""

    phase = "target"
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)
    kernels = {"com.microsoft::FusedMatMul": "a"}  # (3)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        product = next(node for node in m.nodes if node.op_type in ("MatMul", "FusedMatMul"))
        given: dict[str, Any] = m.get("attributes", {})
        alpha = scaled(g, m.a, given.get("alpha", 1.0), m.s, division=m.division)  # (1)
        ranks = [g.info(name).rank for name in (m.a, m.b)]
        if any(rank is None or rank < 2 for rank in ranks) or (m.plain and ranks == [2, 2]):  # (2)
            return self.none(product, msg="not a product of tensors with more than two axes")
        return m.derive(fused={**given, "alpha": alpha})

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, fused: dict[str, Any]) -> str:
        return g.op.FusedMatMul(a, b, domain="com.microsoft", **fused)


class FusedMatMulDivPattern(_FusedFactor):
    """MatMul(a, b) / s → com.microsoft.FusedMatMul(a, b, alpha=1/s)

    What: multiplies while the product is computed; the same for a product with a number, and for FusedMatMul.
    Why: saves one pass over the result; measured 1.1 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the number is out of range, or a 32-bit float cannot hold the factor.
    2. both operands are matrices, for which there is Gemm, or one of them is a vector.
    3. the provider has no kernel of FusedMatMul for the type.
    """

    priority = 3

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, s: Scalar) -> Symbol:
        if g.option("plain"):
            y = g.op.MatMul(a, b)
        else:
            y = g.op.FusedMatMul(a, b, domain="com.microsoft", attributes=g.capture("attributes"))
        return g.op.Div(y, s) if g.option("division") else g.op.Mul(y, s)

    examples = (
        Example(
            "agraph (float[a,q,8] x, float[a,8,k] w) => (float[a,q,k] y) <float s = {8}> { t = MatMul(x, w) y = Div(t, s) }",
            "{ y = com.microsoft.FusedMatMul <alpha = 0.125> (x, w) }",
        ),
        Example(
            "agraph (float[a,q,8] x, float[a,k,8] w) => (float[a,q,k] y) <float[1] s = {2}> "
            "{ t = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w) y = Mul(s, t) }",
            "{ y = com.microsoft.FusedMatMul <transB = 1, alpha = 1.0> (x, w) }",
        ),
    )


class FusedMatMulx2Pattern(_FusedFactor):
    """MatMul(a · s, b) → com.microsoft.FusedMatMul(a, b, alpha=s)

    What: multiplies while the product is computed; the same for the second operand, for a / s, and for FusedMatMul.
    Why: saves one pass over the operand; measured 1.0 to 1.1 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the number is out of range, or a 32-bit float cannot hold the factor.
    2. both operands are matrices, or one of them is a vector.
    3. the provider has no kernel of FusedMatMul for the type.
    """

    priority = 10

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, s: Scalar) -> Symbol:
        # One operand; the other one in another round.
        scale = g.op.Div if g.option("division") else g.op.Mul
        left, right = (a, scale(b, s)) if g.option("right") else (scale(a, s), b)
        if g.option("plain"):
            return g.op.MatMul(left, right)
        return g.op.FusedMatMul(left, right, domain="com.microsoft", attributes=g.capture("attributes"))

    examples = (
        Example(
            "agraph (float[a,q,8] x, float[a,8,k] w) => (float[a,q,k] y) <float s = {0.5}> { t = Mul(x, s) y = MatMul(t, w) }",
            "{ y = com.microsoft.FusedMatMul <alpha = 0.5> (x, w) }",
        ),
        Example(
            "agraph (float[a,q,8] x, float[a,8,k] w) => (float[a,q,k] y) <float s = {4}> "
            "{ t = Div(w, s) y = com.microsoft.FusedMatMul <alpha = 0.5> (x, t) }",
            "{ y = com.microsoft.FusedMatMul <alpha = 0.125> (x, w) }",
        ),
    )
