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


class TransposeMatMulVectorPattern(EasyPatternOptimization):
    """MatMul(Transpose(x), v) → MatMul(v, x), for a vector v

    What: multiplies the vector by the matrix, and not the transposed matrix by the vector.
    Why: onnxruntime 1.32 merges such a Transpose into the MatMul, and then adds up along the other
    axis, without an error. It multiplies a vector by a matrix in 0.02 to 0.3 of the time, so that
    MatMul(v, Transpose(x)) stays as it is.
    Refuses when:
    1. v is not a vector, or the rank of x is not known.
    2. other axes than the last two change their places.
    """

    interior = "keep"
    exactness = "rounding"
    onnxruntime = "<1.33"
    operand_ranks = {"v": 1}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, v: Symbol) -> Symbol:
        return g.op.MatMul(g.op.Transpose(x, attributes=g.capture("attributes")), v)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        places = permutation(g, m.nodes[0]) or []  # (1)
        rank = len(places)
        swaps = places[-2:] == [rank - 1, rank - 2] and places[:-2] == [*range(rank - 2)]
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
