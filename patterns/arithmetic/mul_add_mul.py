import numpy as np

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import Array, constant, doubles, rounded


class MulAddMulPattern(EasyPatternOptimization):
    """(x · a + b) · c → x · (a · c) + b · c

    What: multiplies the constants of an affine map by the factor that follows.
    Why: each product reads and writes the whole tensor.
    Refuses when:
    1. a constant is not finite, or not a floating-point number.
    2. the new constants would be larger than the old ones.
    3. a new constant leaves the range of its type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Constant, b: Constant, c: Constant) -> Symbol:
        return g.op.Mul(g.op.Add(g.op.Mul(x, a), b), c)

    @np.errstate(all="ignore")  # what is not finite stays so
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        given = [constant(g, name) for name in (m.a, m.b, m.c)]
        if not all(v.dtype.kind in "fV" and np.isfinite(v.astype(np.float64)).all() for v in given):  # (1)
            return self.none(m.nodes[2], msg="a constant is not finite")
        factors, shifts = (np.asarray(doubles(g, name) * doubles(g, m.c)) for name in (m.a, m.b))
        if factors.size + shifts.size > sum(v.size for v in given):  # (2)
            return self.none(m.nodes[2], msg="the new constants would be larger")
        dtype = given[0].dtype
        return m.derive(factors=rounded(factors, dtype), shifts=rounded(shifts, dtype, terms=()))  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str, factors: Array, shifts: Array) -> str:
        return g.op.Add(g.op.Mul(x, factors), shifts)

    examples = Example.only(
        "agraph (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}, float[2] c = {5, 6}> "
        "{ t = Mul(x, a) u = Add(b, t) y = Mul(u, c) }",
        "<float[2] a = {5,12}, float[2] b = {15,24}> { t = Mul(x,a) y = Add(t,b) }",
    )
