"""Rotary position embeddings of a part of each head."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._slices import part_of


class RotaryEmbeddingPartPattern(EasyPatternOptimization):
    """RotaryEmbedding(x[..., :r], cos, sin) ++ x[..., r:] → RotaryEmbedding(x, cos, sin, rotary_embedding_dim=r)

    What: leaves the rest of each head unchanged.
    Why: does not cut the heads in two and put them together again.
    Refuses when:
    1. x does not have four axes of known sizes of heads, or the parts are not its first elements and the rest.
    2. only a part of the part is turned.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 23

    def match_pattern(self, g: PatternBuilder, part: Symbol, cos: Symbol, sin: Symbol, rest: Symbol) -> Symbol:
        """Without positions."""
        turned = g.op.RotaryEmbedding(part, cos, sin, interleaved=g.capture("interleaved", optional=True))  # (2)
        return g.op.Concat(turned, rest, axis=g.any_of(-1, 3))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Find the heads."""
        part, rest = g.try_infer_shape(m.part), g.try_infer_shape(m.rest)
        if part is None or rest is None or len(part) != 4 or len(rest) != 4:  # (1)
            return self.none(m.nodes[0], msg="not four axes")
        if not isinstance(part[3], int) or not isinstance(rest[3], int):  # (1)
            return self.none(m.nodes[0], msg="the sizes are not known")
        root, start, middle = part_of(g, m.part, 3)
        heads = g.try_infer_shape(root)
        if start or part_of(g, m.rest, 3) != (root, middle, middle + rest[3]) or heads is None or heads[3] != middle + rest[3]:
            return self.none(m.nodes[1], msg="not the first elements of a head and the rest of it")  # (1)
        return m.derive(heads=root, size=middle)

    def apply_pattern(self, g: PatternRewriter, heads: str, cos: str, sin: str, interleaved: int | None, size: int) -> str:
        """The size of the part is an attribute."""
        return g.op.RotaryEmbedding(heads, cos, sin, interleaved=interleaved or 0, rotary_embedding_dim=size)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Two of six elements."""
        start = "agraph (float[b,3,s,6] x, float[b,s,1] c, float[b,s,1] i) => (float[b,3,s,6] y)"
        return (
            Example(
                start + " <int64[2] sizes = {2, 4}> { p, r = Split <axis = 3> (x, sizes) t = RotaryEmbedding(p, c, i) "
                "y = Concat <axis = -1> (t, r) }",
                start + " { y = RotaryEmbedding <interleaved = 0, rotary_embedding_dim = 2> (x, c, i) }",
                opset=23,
            ),
        )
