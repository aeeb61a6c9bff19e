from collections.abc import Sequence

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Symbol

from ._lowering import _Lowering
from ._repetitions import RepetitionStep, repeated, repetitions, whole_numbers


class LowerUpsamplePattern(_Lowering):
    """Upsample(x, scales) → Reshape(Expand(Unsqueeze(x))) for each axis

    What: repeats the elements along a new axis, and joins both axes.
    Why: the operator left the standard with operator set 10, and few providers know it.
    Refuses when:
    1. a scale is not a whole number, or the scales are not constants.
    2. the mode is not the nearest element.
    3. a Reshape would need sizes at run time.
    """

    exactness = "exact"
    min_opset = 9
    max_opset = 9
    derives = ("steps",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scales: Constant) -> Symbol:
        return g.op.Upsample(x, scales, mode="nearest")  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source, scales = g.try_infer_shape(m.x), g.get_computed_constant(m.scales)
        if source is None or scales is None:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown, or the scales are not constant")
        factors = whole_numbers(scales, len(source))
        if factors is None:  # (1)
            return self.none(m.nodes[0], msg="a scale is not an integer")
        return m.derive(steps=repetitions(g, source, factors))  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str, steps: Sequence[RepetitionStep]) -> str:
        return repeated(g, x, steps)

    examples = Example.only(
        "agraph (float[n,3,4,5] x) => (float[n,3,8,5] y) <float[4] k = {1, 1, 2, 1}> { "
        "y = Upsample(x, k) }",
        "<int64[5] f = {1, 1, 1, 2, 1}, int64[4] s = {0, 3, 8, 5}> "
        "{ u = Unsqueeze <axes = [3]> (x) e = Expand(u, f) y = Reshape(e, s) }",
        opset=9,
    )
