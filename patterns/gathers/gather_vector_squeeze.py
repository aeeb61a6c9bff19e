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


class GatherVectorSqueezePattern(EasyPatternOptimization):
    """Squeeze(Gather(x, Unsqueeze(i), axis=k), k) → Gather(x, i, axis=k)

    What: gathers by a scalar index instead of a vector of one index. If i has axes of size 1, a
    Squeeze removes them all.
    Why: one or two nodes fewer. Models choose experts this way.
    Refuses when:
    1. the rank of x or of i is unknown, or the indices are not a vector of one element.
    2. the last Squeeze removes another axis.
    """

    derives = ("rank",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        reshape = g.op.Unsqueeze if g.option("unsqueezed") else g.op.Squeeze
        return g.op.Squeeze(
            g.op.Gather(x, reshape(i, axes=g.capture("axes")), axis=g.capture("axis")),
            axes=g.capture("dropped"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank, shape = g.info(m.x).rank, g.try_infer_shape(m.i)
        if not rank or shape is None or g.try_infer_shape(m.nodes[0].output[0]) != (1,):  # (1)
            return self.none(
                m.nodes[1], msg="the indices are not a vector of one element, or a rank is unknown"
            )
        if [axis % rank for axis in m.dropped] != [axis_of(g, m.nodes[1])]:  # (2)
            return self.none(m.nodes[2], msg="the Squeeze removes another axis")
        return m.derive(rank=len(shape))

    def apply_pattern(self, g: PatternRewriter, x: str, i: str, axis: int, rank: int) -> str:
        return g.op.Gather(x, g.op.Squeeze(i, axes=list(range(rank))) if rank else i, axis=axis)

    _start = "agraph (float[a,9,b] x, int64[1,1] i) => (float[a,b] y) "
    examples = Example.pairs(
        "agraph (float[a,9,b] x, int64 i) => (float[a,b] y) <int64[1] o = {0}, int64[1] k = {1}> "
        "{ u = Unsqueeze(i, o) g = Gather <axis = 1> (x, u) y = Squeeze(g, k) }",
        "{ y = Gather <axis = 1> (x, i) }",
        _start
        + "<int64[1] o = {0}, int64[1] k = {1}> { u = Squeeze(i, o) g = Gather <axis = 1> (x, u) y"
        " = Squeeze(g, k) }",
        _start + "<int64[2] o = {0, 1}> { u = Squeeze(i, o) y = Gather <axis = 1> (x, u) }",
        ranges=(("i", 0, 8),),
    )
