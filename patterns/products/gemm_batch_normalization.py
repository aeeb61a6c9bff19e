from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._channels import fixed_normalization, normalization
from .._folding import Array, constant, doubles, rounded
from ._products import contracts


class GemmBatchNormalizationPattern(EasyPatternOptimization):
    """BatchNormalization(Gemm(a, w, c)) → Gemm(a, w', c')

    What: multiplies the columns of the second matrix by the factors, and moves the rest into the bias; the same for MatMul.
    Why: saves one pass over the result.
    Refuses when:
    1. the second matrix is not constant, or the bias is neither constant nor the same for all rows.
    2. a parameter of the normalization is not constant, a variance is negative, a factor is not finite, or
       a mean is very large beside the deviation.
    3. a new constant leaves the range of its type.
    4. MatMul is not one of two matrices.
    5. ``beta`` is not 1, and the sum may have no terms: onnxruntime leaves ``beta`` out then.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7
    constant_operands = ("c",)  # (1)

    def match_pattern(self, g: PatternBuilder, a: Symbol, w: Constant, c: Optional) -> Symbol:
        y = g.op.MatMul(a, w) if g.option("plain") else g.op.Gemm(a, w, c, attributes=g.capture("attributes"))
        return fixed_normalization(g, y)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.c and g.get_shape(m.c)[:-1] not in ((), (1,)):  # (1)
            return self.none(m.nodes[0], msg="the bias differs by row")
        scale, shift = normalization(g, m.norm, m.epsilon)  # (2)
        if m.plain and (g.info(m.a).rank != 2 or g.info(m.w).rank != 2):  # (4)
            return self.none(m.nodes[0], msg="not a product of two matrices")
        given: dict[str, Any] = m.get("attributes", {})
        beta, turned, dtype = given.get("beta", 1.0), given.get("transB", 0), constant(g, m.w).dtype
        # (3)
        weight = rounded(doubles(g, m.w) * (scale[:, None] if turned else scale), dtype, summed=1 if turned else 0)
        bias = rounded((doubles(g, m.c) * beta).reshape(-1) * scale + shift, dtype, terms=())
        if m.c and beta != 1 and not contracts(g, m.a, m.w, given):  # (5)
            return self.none(m.nodes[0], msg="nothing may be summed")
        return m.derive(weight=weight, bias=bias, given={**given, "beta": 1.0})

    def apply_pattern(self, g: PatternRewriter, a: str, weight: Array, bias: Array, given: dict[str, Any]) -> str:
        return g.op.Gemm(a, weight, bias, **given)

    examples = (
        Example(
            "agraph (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2] c = {1, 1}, "
            "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}> "
            "{ t = Gemm <transB = 1> (x, w, c) y = BatchNormalization <epsilon = 0.25> (t, s, o, m, v) }",
            "<float[2,2] w = {2, 4, 6, 8}, float[2] c = {0, 3}> { y = Gemm <transB = 1, beta = 1.0> (x, w, c) }",
        ),
        Example(
            "agraph (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1, 2, 3, 4}, "
            "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}> "
            "{ t = MatMul(x, w) y = BatchNormalization <epsilon = 0.25> (t, s, o, m, v) }",
            "<float[2,2] w = {2, 4, 6, 8}, float[2] c = {-2, 1}> { y = Gemm <beta = 1.0> (x, w, c) }",
        ),
    )
