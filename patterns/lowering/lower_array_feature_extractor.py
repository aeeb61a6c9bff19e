import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class LowerArrayFeatureExtractorPattern(_Lowering):
    """ai.onnx.ml.ArrayFeatureExtractor(x, i) → Gather(x, i, axis=-1)

    What: takes the same elements of the last axis.
    Why: only CPU providers run operators of traditional models.
    Refuses when:
    1. the rank is unknown, or 0: a vector becomes a row.
    """

    exactness = "exact"
    min_opset = 5
    derives = ("rank", "places", "flat")

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol) -> Symbol:
        return g.op.ArrayFeatureExtractor(x, i, domain="ai.onnx.ml")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        if not rank:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown")
        places = g.get_computed_constant(m.i)
        return m.derive(rank=rank, places=places, flat=g.info(m.i).rank == 1)

    def apply_pattern(
        self, g: PatternRewriter, x: str, i: str, rank: int, places: np.ndarray | None, flat: bool
    ) -> str:
        index: str | np.ndarray = i
        if places is not None:
            index = places.reshape(-1)
        elif not flat:
            index = g.op.Reshape(i, shape=[-1])
        result = g.op.Gather(x, index, axis=rank - 1)
        return g.op.Unsqueeze(result, axes=[0]) if rank == 1 else result

    examples = Example.pairs(
        "agraph (float[n,4] x) => (float[n,1] y) <int64[1] i = {3}> { "
        "y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }",
        "<int64[1] i = {3}> { y = Gather <axis = 1> (x, i) }",
        "agraph (int64[5] x, int64[n,1] i) => (int64[1,n] y) { "
        "y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }",
        "<int64[1] s = {-1}, int64[1] o = {0}> { t = Reshape(i, s) u = Gather(x, t) "
        "y = Unsqueeze(u, o) }",
        ranges=(("i", 0, 4),),
    )
