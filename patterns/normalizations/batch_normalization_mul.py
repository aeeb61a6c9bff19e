from typing import Any

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._channels import per_channel
from .._folding import Array, constant, doubles, rounded
from ._statistics import any_normalization, same_normalization


class BatchNormalizationMulPattern(EasyPatternOptimization):
    """BatchNormalization(x, scale, bias, ...) · c → BatchNormalization(x, scale · c, bias · c, ...)

    What: moves a constant for each channel into the parameters; the same for InstanceNormalization.
    Why: saves one pass over the result.
    Refuses when:
    1. the constant differs along another axis than the channels, would change the shape, or is not finite.
    2. a new constant leaves the range of its type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 9

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Constant, o: Constant, m: Symbol, v: Symbol, c: Constant
    ) -> Symbol:
        return g.op.Mul(any_normalization(g, x, s, o, m, v), c)  # mean and variance need not be constant

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        factor = per_channel(g.get_computed_constant(m.c), g.info(m.x).rank, constant(g, m.s).size)
        if factor is None:  # (1)
            return self.none(m.nodes[1], msg="not one for each channel")
        scale = rounded(doubles(g, m.s) * factor, constant(g, m.s).dtype)
        bias = rounded(doubles(g, m.o) * factor, constant(g, m.o).dtype, terms=())
        if scale is None or bias is None:  # (2)
            return self.none(m.nodes[1], msg="a new constant leaves the range of its type")
        return m.derive(scale=scale, bias=bias)

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: Array, bias: Array, m: str, v: str, attributes: dict[str, Any], instance: bool
    ) -> str:
        return same_normalization(g, (x, scale, bias), (m, v), attributes, instance)

    examples = (
        Example(
            "agraph (float[n,2,h] x, float[2] m, float[2] v) => (float[n,2,h] y) "
            "<float[2] s = {1, 2}, float[2] o = {3, 4}, float[2,1] c = {2, 3}> "
            "{ t = BatchNormalization(x, s, o, m, v) y = Mul(t, c) }",
            "agraph (float[n,2,h] x, float[2] m, float[2] v) => (float[n,2,h] y) "
            "<float[2] s = {2, 6}, float[2] o = {6, 12}> { y = BatchNormalization(x, s, o, m, v) }",
            ranges=(("v", 0.5, 2.0),),
        ),
        Example(
            "agraph (float[n,2,h] x) => (float[n,2,h] y) "
            "<float[2] s = {1, 2}, float[2] o = {3, 4}, float[2,1] c = {2, 3}> "
            "{ t = InstanceNormalization(x, s, o) y = Mul(t, c) }",
            "agraph (float[n,2,h] x) => (float[n,2,h] y) "
            "<float[2] s = {2, 6}, float[2] o = {6, 12}> { y = InstanceNormalization(x, s, o) }",
        ),
    )
