from typing import Any

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._channels import per_channel
from .._folding import Array, constant, doubles, rounded
from ._statistics import any_normalization, same_normalization


class BatchNormalizationAddPattern(EasyPatternOptimization):
    """BatchNormalization(x, scale, bias, ...) + c → BatchNormalization(x, scale, bias + c, ...)

    What: moves a constant for each channel into the bias; the same for InstanceNormalization.
    Why: saves one pass over the result.
    Refuses when:
    1. the constant differs along another axis than the channels, would change the shape, or is not finite.
    2. the sums cancel, or leave the range of their type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 9

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Symbol, o: Constant, m: Symbol, v: Symbol, c: Constant) -> Symbol:
        return g.op.Add(any_normalization(g, x, s, o, m, v), c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shift = per_channel(g.get_computed_constant(m.c), g.info(m.x).rank, constant(g, m.o).size)
        if shift is None:  # (1)
            return self.none(m.nodes[1], msg="not one for each channel")
        given, scale = doubles(g, m.o), doubles(g, m.s) if g.is_constant(m.s) else 0.0
        bias = rounded(given + shift, constant(g, m.o).dtype, terms=(given, shift), beside=scale)
        return m.derive(bias=bias) if bias is not None else self.none(m.nodes[1], msg="the sum cancels or overflows")  # (2)

    def apply_pattern(
        self, g: PatternRewriter, x: str, s: str, bias: Array, m: str, v: str, attributes: dict[str, Any], instance: bool
    ) -> str:
        return same_normalization(g, (x, s, bias), (m, v), attributes, instance)

    examples = (
        Example(
            "agraph (float[n,2,h] x, float[2] s, float[2] m, float[2] v) => (float[n,2,h] y) "
            "<float[2] o = {3, 4}, float[1,2,1] c = {2, 3}> { t = BatchNormalization(x, s, o, m, v) y = Add(c, t) }",
            "agraph (float[n,2,h] x, float[2] s, float[2] m, float[2] v) => (float[n,2,h] y) "
            "<float[2] o = {5, 7}> { y = BatchNormalization(x, s, o, m, v) }",
            ranges=(("v", 0.5, 2.0),),
        ),
    )
