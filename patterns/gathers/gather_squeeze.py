from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
)


class GatherSqueezePattern(EasyPatternOptimization):
    """Gather(x, 0, axis=k) → Squeeze(x, k), if the axis has size 1

    What: removes the axis, since 0 is its only index.
    Why: Squeeze needs no copy, and cancels an Unsqueeze that often follows.
    Refuses when:
    1. the index is not 0 or -1, as a constant of rank 0.
    2. the size of the axis is not known to be 1.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, index: Scalar) -> Symbol:
        return g.op.Gather(x, index, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        if g.info(m.index).rank != 0 or g.get_constant_scalar(m.index) not in (0, -1):  # (1)
            return self.none(m.nodes[0], msg="the index is not the scalar 0")
        fits = shape is not None and -len(shape) <= m.axis < len(shape) and shape[m.axis] == 1
        return fits or self.none(m.nodes[0], msg="the axis is not known to have size 1")  # (2)

    def apply_pattern(self, g: PatternRewriter, x: str, axis: int) -> str:
        return g.op.Squeeze(x, axes=[axis])

    examples = Example.only(
        "agraph (float[a,1] x) => (float[a] y) <int64 i = {0}> { y = Gather <axis = -1> (x, i) }",
        "<int64[1] k = {-1}> { y = Squeeze(x, k) }",
    )
