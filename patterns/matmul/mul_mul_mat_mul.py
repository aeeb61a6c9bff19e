import numpy as np

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
)

from .._folding import constant, constant_pair, multiplied


class MulMulMatMulPattern(EasyPatternOptimization):
    """MatMul(a · s, b · t) → MatMul(a · (s · t), b), for scalars s and t

    What: multiplies one operand by both scalars.
    Why: saves one pass over the other operand. Attention of torch scales both queries and keys. The
    pattern runs last, so that patterns that recognize attention match both scalars.
    Refuses when:
    1. a scalar has more axes than the tensor that it multiplies, or a rank is unknown.
    2. the scalars are integers. Or they are so large or small that a product overflows or becomes 0
       in only one of the two forms.
    """

    anchors = ("MatMul",)
    phase = "target"
    priority = 9
    exactness = "rounding"
    min_opset = 7
    derives = ("factor",)

    def match_pattern(
        self, g: PatternBuilder, a: Symbol, b: Symbol, s: Scalar, t: Scalar
    ) -> Symbol:
        # A Transpose may follow the Mul of the second operand.
        right = g.op.Mul(b, t)
        if g.option("transposed"):
            right = g.op.Transpose(right, perm=g.capture("perm"))
        return g.op.MatMul(g.op.Mul(a, s), right)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        for x, number in ((m.a, m.s), (m.b, m.t)):
            rank, number_rank = g.info(x).rank, g.info(number).rank
            if rank is None or number_rank is None or number_rank > rank:  # (1)
                return self.none(
                    m.nodes[0], msg="a scalar has more axes than its tensor, or a rank is unknown"
                )
        pair = constant_pair(g, m.s, m.t)
        if pair is None or pair[0].dtype.kind in "iu":  # (2)
            return self.none(
                m.nodes[0], msg="the factors are integers, or their product is out of range"
            )
        # (2)
        return m.derive(
            factor=multiplied(pair[0].reshape(()), pair[1].reshape(()), constant(g, m.s).dtype)
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        factor: np.ndarray,
        transposed: bool,
        perm: list[int] | None,
    ) -> str:
        return g.op.MatMul(g.op.Mul(a, factor), g.op.Transpose(b, perm=perm) if transposed else b)

    examples = Example.pairs(
        "agraph (float[a,b,4] x, float[a,4,c] z) "
        "=> (float[a,b,c] y) <float s = {0.5}, float t = {0.25}> { p = Mul(x, s) q = Mul(z, t) "
        "y = MatMul(p, q) }",
        "<float s = {0.125}> { p = Mul(x, s) y = MatMul(p, z) }",
        "agraph (float[a,b,4] x, float[a,c,4] z) => (float[a,b,c] y) <float s = {0.5}> "
        "{ p = Mul(x, s) q = Mul(z, s) t = Transpose <perm = [0, 2, 1]> (q) y = MatMul(p, t) }",
        "<float s = {0.25}> { p = Mul(x, s) t = Transpose <perm = [0, 2, 1]> (z) "
        "y = MatMul(p, t) }",
    )
