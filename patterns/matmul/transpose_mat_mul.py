"""MatMul of a transposed operand, without FusedMatMul."""

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._nodes import permutation
from ._matmul import MIN_ELEMENTS, elements, times_transposed, why_not


class _TransposeMatMul(EasyPatternOptimization):
    """A MatMul that reads a Transpose."""

    exactness = "rounding"
    interior = "keep"


class TransposeMatMulReshapePattern(_TransposeMatMul):
    """MatMul(x, Transpose(w)) → Reshape(Gemm(Reshape(x), w, transB=1))

    What: merges the leading axes of x, and lets Gemm read w transposed.
    Why: w, such as an embedding, is neither transposed nor stored twice. With ORT graph
    optimizations disabled, onnxruntime transposes it in every run: one row takes 0.17 of the time,
    and 128 rows 0.57. With these optimizations, one row takes as long. For logits of many tokens
    that are a graph output, the rewrite takes 1.04 of the time, since the last Reshape copies them.
    Refuses when:
    1. x is not known to have three axes or more, or w is not a nonempty matrix of static shape.
    2. the provider has no kernel of Gemm for the type (as for integers).
    3. w is a constant of fewer than 2¹⁶ elements: onnxruntime transposes it when loading.
    """

    phase = "target"
    priority = 9  # after FusedMatMul, which is a single node and as fast, if contrib is allowed
    min_opset = 15
    providers = ("cpu",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol) -> Symbol:
        # Only the second operand: the leading axes of a transposed x cannot be merged.
        return g.op.MatMul(x, g.op.Transpose(w, perm=[1, 0]))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if (g.info(m.x).rank or 0) < 3:  # (1)
            return self.none(m.nodes[1], msg="the operand is not known to have three axes or more")
        if reason := why_not(g, m.x, m.w):  # (1) (2)
            return self.none(m.nodes[1], msg=reason)
        is_large = not g.is_constant(m.w) or elements(g, m.w) >= MIN_ELEMENTS
        return is_large or self.none(
            m.nodes[0], msg="the weight is small: onnxruntime transposes it when loading"
        )  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str) -> str:
        return times_transposed(g, x, w)

    examples = Example.only(
        "agraph (float[b,s,4] x, float[3,4] w) => (float[b,s,3] y) { "
        "t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t) }",
        "<int64[2] f = {-1, 4}, int64[1] n = {3}> { r = Reshape(x, f) "
        "p = Gemm <transB = 1> (r, w) q = Shape <start = 0, end = -1> (x) "
        "u = Concat <axis = 0> (q, n) y = Reshape <allowzero = 1> (p, u) }",
    )


class TransposeMatMulVectorPattern(_TransposeMatMul):
    """MatMul(Transpose(x), v) → MatMul(v, x), for a vector v

    What: swaps the operands, so that no Transpose is needed.
    Why: onnxruntime 1.32 fuses such a Transpose into the MatMul, and then sums along the wrong
    axis, without an error. (The opposite form MatMul(v, Transpose(x)) is left alone: swapping it
    was measured to be 3 to 50 times slower.)
    Refuses when:
    1. v is not a vector, or the rank of x is not known.
    2. the Transpose does not swap just the last two axes.
    """

    onnxruntime = "<1.33"
    operand_ranks = {"v": 1}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, v: Symbol) -> Symbol:
        return g.op.MatMul(g.op.Transpose(x, attributes=g.capture("attributes")), v)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        perm = permutation(g, m.nodes[0]) or []  # (1)
        rank = len(perm)
        swaps = perm[-2:] == [rank - 1, rank - 2] and perm[:-2] == [*range(rank - 2)]
        # (2)
        return swaps or self.none(
            m.nodes[0], msg="the Transpose does not swap just the last two axes"
        )

    def apply_pattern(self, g: PatternRewriter, x: str, v: str) -> str:
        return g.op.MatMul(v, x)

    examples = Example.pairs(
        "agraph (float[b,n,4] x, float[n] v) => (float[b,4] y) { "
        "t = Transpose <perm = [0, 2, 1]> (x) y = MatMul(t, v) }",
        "{ y = MatMul(v, x) }",
        "agraph (float[n,4] x, float[n] v) => (float[4] y) { t = Transpose(x) y = MatMul(t, v) }",
        "{ y = MatMul(v, x) }",
    )
