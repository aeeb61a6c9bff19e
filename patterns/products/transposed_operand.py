"""Products with a tensor whose axes are permuted."""

from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._products import can_fuse


class _TransposedOperand(EasyPatternOptimization):
    """A product with a Transpose whose last two axes FusedMatMul takes over."""

    phase = "target"
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        # One operand; the other one in another round.
        turned = g.op.Transpose(b if g.option("right") else a, perm=g.capture("perm"))
        left, right = (a, turned) if g.option("right") else (turned, b)
        if g.option("plain"):
            return g.op.MatMul(left, right)
        return g.op.FusedMatMul(left, right, domain="com.microsoft", attributes=g.capture("attributes"))


class FusedMatMulPattern(_TransposedOperand):
    """MatMul(a, Transpose(b)) → com.microsoft.FusedMatMul(a, b, transB=1)

    What: the product reads matrices by columns; the same for the first operand, and for an existing FusedMatMul.
    Why: saves a copy of the operand; measured 1.0 to 1.1 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the permutation does not swap just the last two axes, or the other operand is a vector.
    2. both operands are matrices, for which there is Gemm.
    3. the provider has no kernel of FusedMatMul for the type, or the sums may have no terms: it does not return zeros then.
    """

    priority = 7

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = len(m.perm)
        other = g.info(m.a if m.right else m.b).rank
        if m.perm != [*range(rank - 2), rank - 1, rank - 2] or other is None or other < 2:  # (1)
            return self.none(m.nodes[0], msg="not the last two axes of one of two tensors")
        if m.plain and rank == other == 2:  # (2)
            return self.none(m.nodes[-1], msg="a product of matrices")
        given: dict[str, Any] = m.get("attributes", {})
        if given.get("transBatchA") or given.get("transBatchB"):
            return self.none(m.nodes[-1], msg="batches are transposed too")
        flag = "transB" if m.right else "transA"
        fused = {**given, flag: 1 - given.get(flag, 0)}
        if not can_fuse(g, m.a, m.b, fused):  # (3)
            return self.none(m.nodes[-1], msg="FusedMatMul has no kernel for the type, or nothing may be summed")
        return m.derive(fused=fused)

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, fused: dict[str, Any]) -> str:
        return g.op.FusedMatMul(a, b, domain="com.microsoft", **fused)  # transposed twice is not transposed

    examples = (
        Example(
            "agraph (float[a,h,q,8] x, float[a,h,k,8] w) => (float[a,h,q,k] y) "
            "{ t = Transpose <perm = [0, 1, 3, 2]> (w) y = MatMul(x, t) }",
            "{ y = com.microsoft.FusedMatMul <transB = 1> (x, w) }",
        ),
        Example(
            "agraph (float[a,8,q] x, float[a,8,k] w) => (float[a,q,k] y) "
            "{ t = Transpose <perm = [0, 2, 1]> (x) y = com.microsoft.FusedMatMul <alpha = 0.5> (t, w) }",
            "{ y = com.microsoft.FusedMatMul <alpha = 0.5, transA = 1> (x, w) }",
        ),
    )


class TransposeFusedMatMulBPattern(_TransposedOperand):
    """MatMul(a, Transpose(b, [0,2,3,1])) → com.microsoft.FusedMatMul(a, Transpose(b, [0,2,1,3]), transB=1)

    What: the product swaps the last two axes, so that the permutation moves whole rows; the same for the first operand.
    Why: measured 1.03 to 1.12 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the last axis does not become the last but one, or nothing would be left to permute (`FusedMatMulPattern` does that).
    2. the other operand is a vector.
    3. the provider has no kernel of FusedMatMul for the type, or the sums may have no terms: it does not return zeros then.
    """

    priority = 8

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = len(m.perm)
        rest = [*m.perm[:-2], m.perm[-1], m.perm[-2]]
        if rank < 3 or rest[-1] != rank - 1 or rest == sorted(rest):  # (1)
            return self.none(m.nodes[0], msg="rows are not scattered")
        other = g.info(m.a if m.right else m.b).rank
        if other is None or other < 2:  # (2)
            return self.none(m.nodes[1], msg="the other operand is a vector, or of unknown rank")
        given: dict[str, Any] = m.get("attributes", {})
        flag = "transB" if m.right else "transA"
        batches = given.get("transBatchA") or given.get("transBatchB")
        turned = m.nodes[0].output[0]
        if batches or not can_fuse(g, m.a if m.right else turned, turned if m.right else m.b, given):  # (3)
            return self.none(m.nodes[1], msg="FusedMatMul has no kernel for the type, or nothing may be summed")
        return m.derive(rest=rest, fused={**given, flag: 1 - given.get(flag, 0)})

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, right: bool, rest: list[int], fused: dict[str, Any]) -> str:
        turned = g.op.Transpose(b if right else a, perm=rest)
        operands = (a, turned) if right else (turned, b)
        return g.op.FusedMatMul(*operands, domain="com.microsoft", **fused)

    examples = (
        Example(
            "agraph (float[a,h,q,8] x, float[a,k,h,8] w) => (float[a,h,q,k] y) "
            "{ t = Transpose <perm = [0, 2, 3, 1]> (w) y = MatMul(x, t) }",
            "{ t = Transpose <perm = [0, 2, 1, 3]> (w) y = com.microsoft.FusedMatMul <transB = 1> (x, t) }",
        ),
    )
