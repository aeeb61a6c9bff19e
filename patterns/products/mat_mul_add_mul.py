import numpy as np

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._channels import per_channel
from .._folding import Array, constant, doubles, rounded


class MatMulAddMulPattern(EasyPatternOptimization):
    """(MatMul(x, w) + b) · s → MatMul(x, w · s) + b · s

    What: multiplies the columns of a weight by the factors of the columns of its result, with or without a bias, of any rank.
    Why: saves one pass over the result: layers of ConvNeXt, BEiT, DINOv2 and CaiT end so.
    Refuses when:
    1. the weight is not a matrix, is computed or in an external file, or is used elsewhere too (there would be two copies).
    2. bias or factors differ along another axis than the last one, change the shape, or a factor is not finite or very small.
    3. a new constant leaves the range of its type.
    """

    anchors = ("Mul",)
    phase = "specialize"
    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Constant, s: Constant) -> Symbol:
        product = g.op.MatMul(x, w)
        return g.op.Mul(g.op.Add(product, b) if g.option("biased") else product, s)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, rank = g.static_shape(m.w), g.info(m.x).rank
        if shape is None or len(shape) != 2 or not rank or rank < 2:  # (1)
            return self.none(m.nodes[0], msg="the weight is not a matrix")
        if not g.is_stored(m.w) or not g.is_exclusive(m.w):  # (1)
            return self.none(m.nodes[0], msg="the weight is not stored in the model itself, or used elsewhere")
        scale = per_channel(g, m.s, rank, shape[1], rank - 1)  # (2)
        bias = per_channel(g, m.b, rank, shape[1], rank - 1) if m.biased else np.zeros(())
        dtype = constant(g, m.w).dtype
        if np.abs(scale).min(initial=1) < float(np.finfo(np.float16).tiny):  # (2)
            return self.none(m.nodes[-1], msg="a factor is very small")
        weight = rounded(doubles(g, m.w) * scale, dtype, summed=0)  # (3)
        return m.derive(weight=weight, shift=rounded(bias * scale, dtype, terms=()))

    def apply_pattern(self, g: PatternRewriter, x: str, weight: Array, shift: Array, biased: bool) -> str:
        product = g.op.MatMul(x, weight)
        return g.op.Add(product, shift) if biased else product

    examples = (
        Example(
            "agraph (float[a,b,2] x) => (float[a,b,2] y) "
            "<float[2,2] w = {1, 2, 3, 4}, float[2] c = {5, 6}, float[2] s = {2, 0.5}> "
            "{ t = MatMul(x, w) u = Add(t, c) y = Mul(s, u) }",
            "<float[2,2] w = {2, 1, 6, 2}, float[2] c = {10, 3}> { t = MatMul(x, w) y = Add(t, c) }",
        ),
        Example(
            "agraph (float[a,b,2] x) => (float[a,b,2] y) <float[2,2] w = {1, 2, 3, 4}, float[1,2] s = {2, 0.5}> "
            "{ t = MatMul(x, w) y = Mul(t, s) }",
            "<float[2,2] w = {2, 1, 6, 2}> { y = MatMul(x, w) }",
        ),
    )
