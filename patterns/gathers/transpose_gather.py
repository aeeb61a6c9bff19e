from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class TransposeGatherPattern(EasyPatternOptimization):
    """Gather(Transpose(x), i, axis=k) → Gather(x, i, axis=perm[k])

    What: gathers from x along the axis that the Transpose moves to k.
    Why: the Transpose copies the whole tensor, but the Gather reads only a part.
    Refuses when:
    1. the rank of the indices is unknown. Or the rank is not 0, and the Transpose moves the axis.
    2. the Transpose reorders the other axes.
    """

    interior = "keep"
    derives = ("source_axis",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, indices: Symbol) -> Symbol:
        return g.op.Gather(
            g.op.Transpose(x, perm=g.capture("perm")), indices, axis=g.capture("axis")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        axis, rank = m.axis % len(m.perm), g.info(m.indices).rank
        remaining = [source_axis for index, source_axis in enumerate(m.perm) if index != axis]
        if rank is None or (rank and m.perm[axis] != axis):  # (1)
            return self.none(
                m.nodes[1],
                msg="the rank of the indices is unknown, or not 0 and the Transpose moves the axis",
            )
        if remaining != sorted(remaining):  # (2)
            return self.none(m.nodes[0], msg="the Transpose reorders the axes that remain")
        return m.derive(source_axis=m.perm[axis])

    def apply_pattern(self, g: PatternRewriter, x: str, indices: str, source_axis: int) -> str:
        return g.op.Gather(x, indices, axis=source_axis)

    examples = Example.pairs(
        "agraph (float[a,b,3,c] x) => (float[a,b,c] y) <int64 i = {1}> "
        "{ t = Transpose <perm = [2, 0, 1, 3]> (x) y = Gather <axis = 0> (t, i) }",
        "<int64 i = {1}> { y = Gather <axis = 2> (x, i) }",
        "agraph (float[a,3] x) => (float[a] y, float[3,a] t) <int64 i = {1}> "
        "{ t = Transpose(x) y = Gather(t, i) }",
        "<int64 i = {1}> { y = Gather <axis = 1> (x, i) t = Transpose(x) }",
    )
