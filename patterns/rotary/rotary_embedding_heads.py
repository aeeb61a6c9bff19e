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

from .._nodes import is_op


class RotaryEmbeddingHeadsPattern(EasyPatternOptimization):
    """RotaryEmbedding(Transpose(x)) → Transpose(Reshape(RotaryEmbedding(Reshape(x), num_heads=h)))

    What: rotates the heads while they are merged in the last axis. The new Reshapes cancel a
    preceding Reshape that has split the heads. Or a following Attention can split the heads itself,
    as after a normalization of each head. A single head is rotated before an Unsqueeze adds the
    axis of the heads.
    Why: an Attention that follows can split the heads itself. Measured 195 µs instead of 232 µs for
    512 tokens in 8 heads of size 64.
    Refuses when:
    1. a shape is unknown.
    2. no Reshape precedes the Transpose, and no Attention with a Transpose of its result follows:
       no node would cancel. (This does not apply to a single head.)
    """

    phase = "specialize"
    priority = 1
    min_opset = 23
    providers = ("cpu", "cuda")
    derives = ("heads", "size")

    def match_pattern(self, g: PatternBuilder, x: Symbol, cos: Symbol, sin: Symbol) -> Symbol:
        # (batch, sequence, heads, size) becomes (batch, heads, sequence, size).
        heads = (
            g.op.Unsqueeze(x, axes=[1])
            if g.option("single")
            else g.op.Transpose(x, perm=[0, 2, 1, 3])
        )
        return g.op.RotaryEmbedding(heads, cos, sin, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.outputs[0])
        # (1)
        if (
            shape is None
            or len(shape) != 4
            or not isinstance(shape[1], int)
            or not isinstance(shape[3], int)
        ):
            return self.none(m.nodes[0], msg="a shape is unknown")
        attention = None if g.is_used_more_than_once(m.outputs[0]) else g.next_node(m.outputs[0])
        is_merged = is_op(attention, "Attention") and is_op(
            g.next_node(attention.output[0]), "Transpose"
        )
        if not m.single and not is_merged and not is_op(g.node_before(m.x), "Reshape"):  # (2)
            return self.none(m.nodes[0], msg="no Reshape or Attention splits the heads")
        return m.derive(heads=shape[1], size=shape[3])

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        cos: str,
        sin: str,
        single: bool,
        heads: int,
        size: int,
        attributes: dict[str, Any],
    ) -> str:
        merged = x if single else g.op.Reshape(x, np.array([0, 0, heads * size], dtype=np.int64))
        # A tensor with an axis of the heads may have the attribute as well, which is then not read.
        rotated = g.op.RotaryEmbedding(merged, cos, sin, **{**attributes, "num_heads": heads})
        if single:
            return g.op.Unsqueeze(rotated, axes=[1])
        return g.op.Transpose(
            g.op.Reshape(rotated, np.array([0, 0, heads, size], dtype=np.int64)), perm=[0, 2, 1, 3]
        )

    _p = "int64[3] m = {0, 0, 12}, int64[4] r = {0, 0, 3, 4}>"
    _h = (
        "p = Reshape(x, m) h = RotaryEmbedding <rotary_embedding_dim = 2, num_heads = 3> (p, c, i) "
        "u = Reshape(h, r)"
    )
    examples = Example.pairs(
        "agraph (float[b,s,12] a, float[b,s,1] c, float[b,s,1] i) "
        "=> (float[b,3,s,4] y) <int64[4] n = {0, 0, 3, 4}> { x = Reshape(a, n) "
        "t = Transpose <perm = [0, 2, 1, 3]> (x) "
        "y = RotaryEmbedding <rotary_embedding_dim = 2> (t,c,i) }",
        f"<int64[4] n = {{0, 0, 3, 4}}, {_p} {{ x = Reshape(a, n) {_h} y = Transpose <perm = [0, "
        "2, 1, 3]> (u) }",
        "agraph (float[b,s,3,4] x, float[b,s,1] c, float[b,s,1] i, float[b,3,s,4] k, "
        "float[b,3,s,4] v) => (float[b,s,3,4] y) { t = Transpose <perm = [0, 2, 1, 3]> (x) "
        "q = RotaryEmbedding <rotary_embedding_dim = 2> (t, c, i) a = Attention(q, k, v) "
        "y = Transpose <perm = [0, 2, 1, 3]> (a) }",
        f"<{_p} {{ {_h} q = Transpose <perm = [0,2,1,3]> (u) a = Attention(q, k, "
        "v) y = Transpose <perm = [0,2,1,3]> (a) }",
        opset=23,
    )
