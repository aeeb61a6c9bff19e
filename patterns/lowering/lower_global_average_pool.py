from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class LowerGlobalAveragePoolPattern(_Lowering):
    """GlobalAveragePool(x) → ReduceMean(x, axes=[2, 3])

    What: writes the mean over all axes but the first two.
    Why: some providers have ReduceMean, but not GlobalAveragePool.
    Refuses when:
    1. the rank is unknown.
    """

    min_opset = 7
    derives = ("axes",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.GlobalAveragePool(x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        if rank is None or rank < 3:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown")
        return m.derive(axes=list(range(2, rank)))

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int]) -> str:
        return g.op.ReduceMean(x, axes=axes)

    examples = Example.pairs(
        "agraph (float[n,3,4,5] x) => (float[n,3,1,1] y) { y = GlobalAveragePool(x) }",
        "<int64[2] i = {2, 3}> { y = ReduceMean(x, i) }",
        "agraph (float16[n,3,w] x) => (float16[n,3,1] y) { y = GlobalAveragePool(x) }",
        "<int64[1] i = {2}> { y = ReduceMean(x, i) }",
    )
