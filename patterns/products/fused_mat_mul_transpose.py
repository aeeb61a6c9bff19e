from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._products import can_fuse


class FusedMatMulTransposePattern(EasyPatternOptimization):
    """Transpose(MatMul(a, b)) → com.microsoft.FusedMatMul(b, a, transA=1, transB=1)

    What: (a·b)ᵀ is bᵀ·aᵀ; the same for FusedMatMul.
    Why: saves a copy of the result.
    Refuses when:
    1. the permutation does not swap just the last two axes.
    2. the operands do not have the same batches (for two matrices there is Gemm; onnxruntime does not repeat the matrix on
       the left for no batch at all, and is slower when it repeats it).
    3. the provider has no kernel of FusedMatMul for the type, or the sums may have no terms: it does not return zeros then.
    """

    phase = "target"
    priority = 7
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        if g.option("plain"):
            y = g.op.MatMul(a, b)
        else:
            y = g.op.FusedMatMul(a, b, domain="com.microsoft", attributes=g.capture("attributes"))
        return g.op.Transpose(y, perm=g.capture("perm"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = len(m.perm)
        given: dict[str, Any] = m.get("attributes", {})
        batches = given.get("transBatchA") or given.get("transBatchB")
        if batches or m.perm != [*range(rank - 2), rank - 1, rank - 2]:  # (1)
            return self.none(m.nodes[1], msg="not the last two axes")
        left, right = g.try_infer_shape(m.a), g.try_infer_shape(m.b)
        if left is None or right is None or len(left) != rank or rank < 3 or left[:-2] != right[:-2]:  # (2)
            return self.none(m.nodes[0], msg="not a product of equal batches")
        if not can_fuse(g, m.a, m.b, given):  # (3)
            return self.none(m.nodes[0], msg="FusedMatMul has no kernel for the type, or nothing may be summed")
        return m.derive(fused={**given, "transA": 1 - given.get("transB", 0), "transB": 1 - given.get("transA", 0)})

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, fused: dict[str, Any]) -> str:
        return g.op.FusedMatMul(b, a, domain="com.microsoft", **fused)

    examples = (
        Example(
            "agraph (float[a,q,8] x, float[a,8,k] w) => (float[a,k,q] y) "
            "{ t = MatMul(x, w) y = Transpose <perm = [0, 2, 1]> (t) }",
            "{ y = com.microsoft.FusedMatMul <transA = 1, transB = 1> (w, x) }",
        ),
    )
