from typing import Any

import numpy as np

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._selections import part_of


class RotaryEmbeddingPartPattern(EasyPatternOptimization):
    """RotaryEmbedding(x[..., :r], cos, sin) ++ x[..., r:] → RotaryEmbedding(x, cos, sin,
    rotary_embedding_dim=r)

    What: rotates the first r elements of each head by the attribute rotary_embedding_dim. The same
    if one Reshape before the operator merges the heads, and one after it splits them.
    Why: saves the slices of the heads and the Concat.
    Refuses when:
    1. x does not have rank 4 and a static head size. Or the slices are not the first elements of
       the heads and all other elements.
    2. the RotaryEmbedding rotates only a part of its operand itself (rotary_embedding_dim).
    3. the Reshape does not merge the heads in the way in which the operator splits them.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 23
    derives = ("heads", "size", "whole")

    def match_pattern(
        self,
        g: PatternBuilder,
        part: Symbol,
        cos: Symbol,
        sin: Symbol,
        rest: Symbol,
        joined: Symbol,
        split: Symbol,
    ) -> Symbol:
        merged, interleaved = g.option("merged"), g.capture("interleaved", optional=True)
        if merged:
            x = g.op.Reshape(part, joined)
            rotated = g.op.RotaryEmbedding(
                x, cos, sin, interleaved=interleaved, num_heads=g.capture("count")
            )
            rotated = g.op.Reshape(rotated, split)
        else:
            rotated = g.op.RotaryEmbedding(part, cos, sin, interleaved=interleaved)  # (2)
        return g.op.Concat(rotated, rest, axis=g.any_of(-1, 3))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        part, rest = g.try_infer_shape(m.part), g.try_infer_shape(m.rest)
        if part is None or rest is None or len(part) != 4 or len(rest) != 4:  # (1)
            return self.none(m.nodes[0], msg="the rank is not 4")
        if not isinstance(part[3], int) or not isinstance(rest[3], int):  # (1)
            return self.none(m.nodes[0], msg="the head sizes are unknown")
        root, start, middle = part_of(g, m.part, 3)
        size, whole, cut = part[3], part[3] + rest[3], g.node_before(m.part)
        if cut is None or g.try_infer_shape(cut.input[0]) != (*part[:3], whole):  # (1)
            return self.none(m.nodes[1], msg="the rotated tensor is not a slice of another one")
        spans = part_of(g, m.rest, 3), part_of(g, cut.input[0], 3)
        if spans != ((root, middle, start + whole), (root, start, start + whole)):  # (1)
            return self.none(
                m.nodes[1], msg="the two slices are not the first features of a head and the rest"
            )
        if not m.merged:
            return m.derive(heads=cut.input[0], size=size, whole=whole)
        joined, split = (g.try_infer_shape(m.nodes[index].output[0]) for index in (0, 2))
        if part[2] != m.count or joined != (*part[:2], m.count * size) or split != part:  # (3)
            return self.none(m.nodes[1], msg="the heads are merged in an unsupported way")
        return m.derive(heads=cut.input[0], size=size, whole=whole)

    def apply_pattern(
        self, g: PatternRewriter, heads: str, cos: str, sin: str, count: int | None, **m: Any
    ) -> str:
        attributes, whole = (
            {"interleaved": m["interleaved"] or 0, "rotary_embedding_dim": m["size"]},
            m["whole"],
        )
        if count is None:
            return g.op.RotaryEmbedding(heads, cos, sin, **attributes)
        rotated = g.op.RotaryEmbedding(
            g.op.Reshape(heads, np.array([0, 0, count * whole])),
            cos,
            sin,
            num_heads=count,
            **attributes,
        )
        return g.op.Reshape(rotated, np.array([0, 0, count, whole]))

    _start = "agraph (float[b,3,s,6] x, float[b,s,1] c, float[b,s,1] i) => (float[b,3,s,6] y)"
    examples = Example.pairs(
        _start
        + " <int64[2] sizes = {2, 4}> { p, r = Split <axis = 3> (x, sizes) t = RotaryEmbedding(p,"
        " c, i) y = Concat <axis = -1> (t, r) }",
        _start + " { y = RotaryEmbedding <interleaved = 0, rotary_embedding_dim = 2> (x, c, i) }",
        "agraph (float[b,s,3,6] x, float[b,s,1] c, float[b,s,1] i) "
        "=> (float[b,s,3,6] y) <int64[2] sizes = {2, 4}, int64[3] j = {0, 0, 6}, int64[4] k = {0, "
        "0, 3, 2}> { p, r = Split <axis = 3> (x, sizes) q = Reshape(p, j) "
        "t = RotaryEmbedding <num_heads = 3> (q, c, i) u = Reshape(t, k) "
        "y = Concat <axis = -1> (u, r) }",
        "<int64[3] j = {0, 0, 18}, int64[4] k = {0, 0, 3, 6}> { q = Reshape(x, j) "
        "t = RotaryEmbedding <interleaved = 0, num_heads = 3, rotary_embedding_dim = 2> (q, c, i) "
        "y = Reshape(t, k) }",
        opset=23,
    )
