import numpy as np

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import ANY, Constant, Symbol

from .._folding import constant


class BatchNormalizationPattern(EasyPatternOptimization):
    """BatchNormalization(x, scale, bias, mean, variance) → x when the parameters are neutral

    What: drops a normalization outside of training that multiplies by 1 and adds 0.
    Why: it copies the whole tensor.
    Refuses when:
    1. the mean or the bias is not zero, or scale and deviation, as the type rounds them, do not cancel.
    """

    exactness = "rounding"  # -0 + 0 is 0
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Constant, o: Constant, m: Constant, v: Constant) -> Symbol:
        return g.op.BatchNormalization(x, s, o, m, v, epsilon=g.capture("epsilon"), momentum=ANY)

    @np.errstate(all="ignore")  # what is not finite stays so
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        scale, bias, mean, variance = (constant(g, name) for name in (m.s, m.o, m.m, m.v))
        # In the type of the parameters: an epsilon that rounding drops leaves a deviation of exactly 1.
        inexact = (variance + variance.dtype.type(m.epsilon)).astype(scale.dtype) != 1
        if (scale != 1).any() or bias.any() or mean.any() or inexact.any():  # (1)
            return self.none(m.nodes[0], msg="a parameter is not neutral")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = Example.only(
        "agraph (float[n,2] x) => (float[n,2] y) "
        "<float[2] s = {1, 1}, float[2] o = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}> "
        "{ t = BatchNormalization <epsilon = 1e-9> (x, s, o, m, v) y = Relu(t) }",
        "{ y = Relu(x) }",
    )
