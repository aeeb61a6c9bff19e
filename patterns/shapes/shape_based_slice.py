from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, Optional, PatternBuilder, PatternRewriter, Symbol

from .._shapes import same_dims


class ShapeBasedSlicePattern(EasyPatternOptimization):
    """Slice(x, ...) → x, when the shape stays

    What: drops a Slice by steps of 1 whose result has the shape of x: all of x, then.
    Why: it copies the whole tensor, and the chain that computes its bounds is left without a reader.
    Refuses when:
    1. a shape is unknown, or the two differ.
    2. a step is not known to be 1: a reversed axis keeps its size too.
    """

    min_opset = 10

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, starts: Symbol, ends: Symbol, axes: Optional, steps: Optional
    ) -> Symbol:
        return g.op.Slice(x, starts, ends, axes, steps)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not same_dims(g.try_infer_shape(m.x), g.try_infer_shape(m.outputs[0])):  # (1)
            return self.none(m.nodes[0], msg="the shape changes or is unknown")
        if m.steps and set(g.get_ints(m.steps) or [0]) != {1}:  # (2)
            return self.none(m.nodes[0], msg="the steps are not known to be 1")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) <int64[1] zero = {0}, int64[1] one = {1}> "
        "{ d = Shape(x) n = Gather(d, one) s = Slice(x, zero, n, one) y = Neg(s) }",
        "{ y = Neg(x) }",
    )
