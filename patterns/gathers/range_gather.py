from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class RangeGatherPattern(EasyPatternOptimization):
    """Gather(x, Range(0, n, 1)) → x, when the axis has n positions

    What: drops a Gather that takes everything in its place.
    Why: it copies the whole tensor.
    Refuses when:
    1. the size of the axis is not known to be n.
    """

    interior = "keep"
    min_opset = 11

    def match_pattern(self, g: PatternBuilder, x: Symbol, n: Symbol) -> Symbol:
        return g.op.Gather(x, g.op.Range(0, n, 1), axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare with the shape of the result of Range, which covers constants and symbols (1)."""
        shape, counted = g.try_infer_shape(m.x), g.try_infer_shape(m.nodes[0].output[0])
        inside = shape is not None and -len(shape) <= m.axis < len(shape)
        if shape is None or not inside or counted != (shape[m.axis],):
            return self.none(m.nodes[1], msg="not as many positions as are counted")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = Example.only(
        "agraph (float[a,b] x, bool[b] z) => (float[a,b] y) <int64 i = {0}, int64 j = {1}> "
        "{ n = Size(z) r = Range(i, n, j) t = Gather <axis = -1> (x, r) y = Neg(t) }",
        "{ y = Neg(x) }",
    )
