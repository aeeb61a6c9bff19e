from typing import Any

from xoptim.match import EasyPatternOptimization, Example, Optional, PatternBuilder, PatternRewriter, Symbol


class TransposeGemmPattern(EasyPatternOptimization):
    """Gemm(Transpose(a), b, c) → Gemm(a, b, c, transA=1)

    What: toggles the attribute instead of copying the matrix; the same for the second operand.
    Why: each Transpose copies the whole matrix.
    Refuses when:
    1. the operand is not transposed as a matrix.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 7
    interior = "keep"

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional) -> Symbol:
        left, right = (a, g.op.Transpose(b, perm=[1, 0])) if g.option("right") else (g.op.Transpose(a, perm=[1, 0]), b)
        return g.op.Gemm(left, right, c, attributes=g.capture("attributes"))  # (1)

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, c: str, right: bool, attributes: dict[str, Any]) -> str:
        # Transposed twice is not transposed.
        flag = "transB" if right else "transA"
        return g.op.Gemm(a, b, c, **{**attributes, flag: 1 - attributes.get(flag, 0)})

    examples = (
        Example(
            "agraph (float[n,4] x, float[4,3] w, float[3] b) => (float[n,3] y) "
            "{ t = Transpose <perm = [1, 0]> (w) y = Gemm <transB = 1, alpha = 0.5> (x, t, b) }",
            "{ y = Gemm <transB = 0, alpha = 0.5> (x, w, b) }",
        ),
        Example(
            "agraph (float[4,n] x, float[4,3] w) => (float[n,3] y) { t = Transpose <perm = [1, 0]> (x) y = Gemm(t, w) }",
            "{ y = Gemm <transA = 1> (x, w) }",
        ),
    )
