from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Scalar, Symbol

from .._factors import scaled
from ._products import contracts


class GemmMulPattern(EasyPatternOptimization):
    """Gemm(a, b, c) · s → Gemm(a, b, c) with alpha · s and beta · s

    What: multiplies while the product is computed; the same for division, and for MatMul of two matrices.
    Why: saves one pass over the result.
    Refuses when:
    1. the number is not finite, or a 32-bit float cannot hold the new factors.
    2. the provider has no kernel of Gemm for the type, or the operands are not matrices.
    3. there is a bias, and the sum may have no terms: onnxruntime leaves ``beta`` out then.
    """

    anchors = ("Mul", "Div")
    phase = "specialize"
    priority = 2
    exactness = "rounding"
    min_opset = 11
    operand_ranks = {"a": 2, "b": 2}  # (2)
    kernels = {"Gemm": "a"}  # (2)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional, s: Scalar) -> Symbol:
        y = g.op.MatMul(a, b) if g.option("plain") else g.op.Gemm(a, b, c, attributes=g.capture("attributes"))
        return g.op.Div(y, s) if g.option("division") else g.op.Mul(y, s)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        given: dict[str, Any] = m.get("attributes", {})
        names = ("alpha", "beta") if m.c else ("alpha",)
        factors = {name: scaled(g, m.a, given.get(name, 1.0), m.s, division=m.division) for name in names}  # (1)
        if factors.get("beta", 1.0) != 1 and not contracts(g, m.a, m.b, given):  # (3)
            return self.none(m.nodes[0], msg="nothing may be summed")
        return m.derive(attributes={**given, **factors})

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, c: str, attributes: dict[str, Any]) -> str:
        return g.op.Gemm(a, b, c, **attributes)

    examples = (
        Example(
            "agraph (float[n,4] x, float[4,3] w, float[3] b) => (float[n,3] y) <float s = {0.5}> "
            "{ t = Gemm <alpha = 3.0> (x, w, b) y = Mul(t, s) }",
            "{ y = Gemm <alpha = 1.5, beta = 0.5> (x, w, b) }",
        ),
        Example(
            "agraph (float[n,4] x, float[4,3] w) => (float[n,3] y) <float s = {4}> { t = MatMul(x, w) y = Div(t, s) }",
            "{ y = Gemm <alpha = 0.25> (x, w) }",
        ),
    )
