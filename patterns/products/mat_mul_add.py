from xoptim.facts.dtypes import FLOATS
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._shapes import broadcasts_to


class MatMulAddPattern(EasyPatternOptimization):
    """Add(MatMul(a, b), c) → Gemm(a, b, c)

    What: adds the bias while the product is computed.
    Why: saves one pass over the result.
    Refuses when:
    1. a or b is not a matrix, or the type is not a floating-point one (Gemm has no kernel for integers).
    2. c would have to be broadcast otherwise than to the shape of the product.
    """

    phase = "specialize"
    priority = 2
    exactness = "rounding"
    min_opset = 7
    operand_types = {"a": FLOATS}  # (1)
    operand_ranks = {"a": 2, "b": 2}  # (1)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Symbol) -> Symbol:
        return g.op.Add(g.op.MatMul(a, b), c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        fits = broadcasts_to(g, m.c, m.nodes[0].output[0])
        return fits or self.none(m.nodes[1], msg="the bias is not known to broadcast to the product")  # (2)

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, c: str) -> str:
        return g.op.Gemm(a, b, c)

    examples = (
        Example(
            "agraph (float[n,4] x, float[4,3] w) => (float[n,3] y) <float[3] b = {1, 2, 3}> { t = MatMul(x, w) y = Add(b, t) }",
            "<float[3] b = {1, 2, 3}> { y = Gemm(x, w, b) }",
        ),
    )
