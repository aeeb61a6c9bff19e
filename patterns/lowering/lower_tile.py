import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering

_MOST = 64
"""Most operands of a Concat."""


class LowerTilePattern(_Lowering):
    """Tile(x, repeats) → Concat(x, x, ...) for each axis, Expand(x) where axes have length 1

    What: writes the copies one after the other.
    Why: several providers have no kernel of Tile.
    Refuses when:
    1. the repeats are not constants, one is 0 or above 64, or the rank is unknown.
    """

    exactness = "exact"
    min_opset = 8
    derives = ("expanded", "copied")

    def match_pattern(self, g: PatternBuilder, x: Symbol, repeats: Symbol) -> Symbol:
        return g.op.Tile(x, repeats)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, repeats = g.try_infer_shape(m.x), g.get_ints(m.repeats)
        if shape is None or repeats is None or len(repeats) != len(shape):  # (1)
            return self.none(m.nodes[0], msg="the repeats are not constant, or the rank is unknown")
        expanded = [r if size == 1 else 1 for r, size in zip(repeats, shape, strict=True)]
        copied = [r if size != 1 else 1 for r, size in zip(repeats, shape, strict=True)]
        if min(repeats, default=1) < 1 or max(copied, default=1) > _MOST:  # (1)
            return self.none(m.nodes[0], msg="a repeat is 0, or above 64")
        return m.derive(expanded=expanded, copied=copied)

    def apply_pattern(
        self, g: PatternRewriter, x: str, expanded: list[int], copied: list[int]
    ) -> str:
        for axis, count in enumerate(copied):
            x = g.op.Concat(*[x] * count, axis=axis) if count > 1 else x
        return g.op.Expand(x, np.array(expanded, np.int64)) if max(expanded, default=1) > 1 else x

    examples = Example.pairs(
        "agraph (float[n,2] x) => (float[n,6] y) <int64[2] r = {1, 3}> { y = Tile(x, r) }",
        "{ y = Concat <axis = 1> (x, x, x) }",
        "agraph (float[1,n] x) => (float[4,m] y) <int64[2] r = {4, 2}> { y = Tile(x, r) }",
        "<int64[2] s = {4, 1}> { t = Concat <axis = 1> (x, x) y = Expand(t, s) }",
    )
