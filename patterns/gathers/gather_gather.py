from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class GatherGatherPattern(EasyPatternOptimization):
    """Gather(Gather(x, i), j) → Gather(x, i[j]) for constant i and j on one axis

    What: looks up the indices j in the indices i ahead of time.
    Why: saves a copy of the rows.
    Refuses when:
    1. the axes differ, or cannot be compared because the rank is unknown.
    2. i is not a vector, or j is out of range.
    """

    derives = ("indices",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Constant, j: Constant) -> Symbol:
        return g.op.Gather(
            g.op.Gather(x, i, axis=g.capture("axis")), j, axis=g.capture("second_axis")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank, indices, positions = (
            g.info(m.x).rank,
            g.get_computed_constant(m.i),
            g.get_computed_constant(m.j),
        )
        if m.axis != m.second_axis and (not rank or m.axis % rank != m.second_axis % rank):  # (1)
            return self.none(m.nodes[1], msg="the axes differ")
        if indices is None or positions is None or indices.ndim != 1:  # (2)
            return self.none(m.nodes[0], msg="the first indices are not a vector")
        if ((positions < -indices.size) | (positions >= indices.size)).any():  # (2)
            return self.none(m.nodes[1], msg="an index is out of range")
        return m.derive(indices=indices[positions])

    def apply_pattern(self, g: PatternRewriter, x: str, axis: int, indices: object) -> str:
        return g.op.Gather(x, indices, axis=axis)

    examples = Example.only(
        "agraph (float[a,5] x) => (float[a] y) <int64[2] i = {4, 1}, int64 j = {-2}> "
        "{ t = Gather <axis = 1> (x, i) y = Gather <axis = 1> (t, j) }",
        "<int64 i = {4}> { y = Gather <axis = 1> (x, i) }",
    )
