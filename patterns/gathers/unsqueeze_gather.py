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
    """Gather(x, Unsqueeze(i, first axes)) → Unsqueeze(Gather(x, i)), if the result is broadcast

    What: gathers by indices without leading axes of size 1, which exporters add for the batch.
    Why: elementwise operators broadcast an operand without leading axes: `UnsqueezeBroadcast` then
    removes the Unsqueeze.
    Refuses when:
    1. the Unsqueeze does not add the first axes, or the Gather is not along the first axis.
    2. a node that is not an elementwise operator reads the result, or the result is an output.
    """

    phase = "target"
    priority = 8

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        indices = g.op.Unsqueeze(i, axes=g.capture("axes"))
        return g.op.Gather(x, indices, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        gather = m.nodes[-1]
        if m.axes != [*range(len(m.axes))] or axis_of(g, gather) != 0:  # (1)
            return self.none(
                gather,
                msg="the Unsqueeze adds other axes, or the Gather is along another axis than 0",
            )
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
