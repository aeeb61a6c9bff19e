from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._nodes import axis_of
from .._operators import BROADCASTING


class UnsqueezeGatherPattern(EasyPatternOptimization):
    """Gather(x, Unsqueeze(i, first axes)) → Unsqueeze(Gather(x, i)), where the result is broadcast

    What: gathers by indices without axes of length 1 in front, as exporters add them for the batch.
    Why: an elementwise operator that reads the result adds these axes itself
    (`UnsqueezeBroadcastPattern`).
    Refuses when:
    1. the axes are not the first ones, or rows are not gathered along the first axis.
    2. something other than elementwise operators reads the result.
    """

    phase = "target"
    priority = 8

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        indices = g.op.Unsqueeze(i, axes=g.capture("axes"))
        return g.op.Gather(x, indices, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        gather = m.nodes[-1]
        if m.axes != [*range(len(m.axes))] or axis_of(g, gather) != 0:  # (1)
            return self.none(gather, msg="the axes are not the first ones of the result")
        result = m.outputs[0]
        consumers = g.next_nodes(result)
        # (2)
        if g.is_output(result) or not all(node.op_type in BROADCASTING for node in consumers):
            return self.none(gather, msg="not only elementwise operators read the result")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, i: str, axes: list[int]) -> str:
        return g.op.Unsqueeze(g.op.Gather(x, i), axes=axes)

    examples = Example.only(
        "agraph (int64[s] i, float[8,4] x, float[b,s,4] z) => (float[b,s,4] y) "
        "<int64[1] k = {0}> { u = Unsqueeze(i, k) r = Gather(x, u) y = Add(z, r) }",
        "<int64[1] k = {0}> { r = Gather(x, i) u = Unsqueeze(r, k) y = Add(z, u) }",
    )
