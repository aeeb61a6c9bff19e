"""DepthToSpace and SpaceToDepth by a Transpose between two Reshapes."""

from xoptim.facts.dims import Dim
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._flat import reshape_or_none
from ._lowering import _Lowering


class LowerDepthToSpacePattern(_Lowering):
    """DepthToSpace(x) → Reshape(Transpose(Reshape(x)))

    What: splits the two axes of a block off the channels, and moves them next to rows and columns.
    Why: several providers have no kernel of the operator.
    Refuses when:
    1. the shape is unknown, or a Reshape would need sizes at run time.
    """

    exactness = "exact"
    min_opset = 11
    derives = ("first", "perm", "last")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.DepthToSpace(x, blocksize=g.capture("block"), mode=g.capture("mode"))

    def middle(self, m: Match, shape: tuple[Dim, ...], b: int) -> tuple[list[Dim], list[int]]:
        """The six axes between the two Reshapes, and their permutation."""
        n, c, h, w = shape
        if m.mode == "DCR":
            return [n, b, b, c // (b * b), h, w], [0, 3, 4, 1, 5, 2]
        return [n, c // (b * b), b, b, h, w], [0, 1, 4, 2, 5, 3]

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source, result = g.try_infer_shape(m.x), g.infer(m.nodes[0])[0].shape
        if source is None or result is None or len(source) != 4 or m.block < 1:  # (1)
            return self.none(m.nodes[0], msg="the shape is unknown")
        sizes, perm = self.middle(m, source, m.block)
        first = reshape_or_none(g, source, tuple(sizes))  # (1)
        last = reshape_or_none(g, tuple(sizes[axis] for axis in perm), result)  # (1)
        return m.derive(first=first, perm=perm, last=last)

    def apply_pattern(
        self, g: PatternRewriter, x: str, first: list[int], perm: list[int], last: list[int]
    ) -> str:
        transposed = g.op.Transpose(g.op.Reshape(x, shape=first), perm=perm)
        return g.op.Reshape(transposed, shape=last)

    examples = Example.pairs(
        "agraph (float[n,8,3,4] x) => (float[n,2,6,8] y) { y = DepthToSpace <blocksize = 2> (x) }",
        "<int64[6] s = {0, 2, 2, 2, 3, 4}, int64[4] t = {0, 2, 6, 8}> "
        "{ a = Reshape(x, s) b = Transpose <perm = [0, 3, 4, 1, 5, 2]> (a) y = Reshape(b, t) }",
        "agraph (float[1,4,h,4] x) => (float[1,1,i,8] y) { y = DepthToSpace <blocksize = 2, mode ="
        ' "CRD"> (x) }',
        "<int64[6] s = {1, 1, 2, 2, -1, 4}, int64[4] t = {1, 1, -1, 8}> "
        "{ a = Reshape(x, s) b = Transpose <perm = [0, 1, 4, 2, 5, 3]> (a) y = Reshape(b, t) }",
    )


class LowerSpaceToDepthPattern(LowerDepthToSpacePattern):
    """SpaceToDepth(x) → Reshape(Transpose(Reshape(x)))

    What: splits the two axes of a block off rows and columns, and moves them before the channels.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.SpaceToDepth(x, blocksize=g.capture("block"))

    def middle(self, m: Match, shape: tuple[Dim, ...], b: int) -> tuple[list[Dim], list[int]]:
        n, c, h, w = shape
        return [n, c, h // b, b, w // b, b], [0, 3, 5, 1, 2, 4]

    examples = Example.only(
        "agraph (float[n,2,6,8] x) => (float[n,8,3,4] y) { y = SpaceToDepth <blocksize = 2> (x) }",
        "<int64[6] s = {0, 2, 3, 2, 4, 2}, int64[4] t = {0, 8, 3, 4}> "
        "{ a = Reshape(x, s) b = Transpose <perm = [0, 3, 5, 1, 2, 4]> (a) y = Reshape(b, t) }",
    )
