from collections.abc import Iterator, Sequence
from typing import Any, Final

from onnx import TensorProto

from xoptim.facts.shapes import Shape
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    runs,
)
from xoptim.match.trace import ANY, Scalar, Symbol

from .._shapes import may_be_empty
from ._formula import heads_in, merged_heads, scale_of, scores_of, scores_shape
from ._mask import masks_fit_scores, stretch_mask, stretched_by

_EXPAND: Final = 8
"""The first operator set with Expand."""


class MultiHeadAttentionPattern(EasyPatternOptimization):
    """Softmax(q · kᵀ · scale + mask) · v, heads split before and merged after →
    com.microsoft.MultiHeadAttention(q, k, v, mask)

    What: one operator instead of eleven. The mask and the KV cache may be absent. From operator set
    23 on, `Attention` handles up to 1024 keys instead.
    Why: on one thread of onnxruntime's CPU provider, with 8 heads of 64 features, 16 to 512 queries
    and keys take 0.82 to 0.91 of the time, and 1024 or more 0.69. With a mask, one query takes 0.63
    to 0.71, and 16 to 512 queries and keys take 0.92 to 1.00. With a KV cache, one query takes 0.83
    to 0.94, and several queries 0.95 to 1.00.
    Refuses when:
    1. the shapes are unknown, or batches or heads of q, k and v differ. Or heads are not split off
       the last axis and merged again.
    2. a dimension may be 0, which onnxruntime's kernel refuses. (The KV cache may have length 0.)
    3. the factor is not a positive number, or has more than four axes.
    4. the type is not float32, or the provider has no kernel.
    5. the mask does not broadcast to the scores.
    6. past keys and values may differ in shape, or new queries, keys and values in number.
    7. the mask must be expanded, and the operator set lacks Expand.
    """

    phase = "target"
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("onnxruntime",)
    derives = ("cache", "stretched", "new_attributes")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        first: Scalar,
        factor: Scalar,
        s: Scalar,
    ) -> tuple[Symbol, ...]:
        # The Transpose of the keys may come before or after the Reshape that splits off the heads.

        def split(packed: Symbol, perm: Sequence[int]) -> Symbol:
            heads: Symbol = g.op.Transpose(
                g.op.Reshape(packed, g.symbol(), attributes=ANY), perm=perm
            )
            return heads

        values = split(v, [0, 2, 1, 3])
        present_tensors: tuple[Symbol, ...] = ()
        if g.option("past"):
            key_heads, axis = split(k, [0, 2, 1, 3]), g.any_of(2, -2)
            present_key = g.op.Concat(g.symbol("past_key"), key_heads, axis=axis)
            values = g.op.Concat(g.symbol("past_value"), values, axis=axis)
            keys = g.op.Transpose(present_key, perm=[0, 1, 3, 2])
            present_tensors = (present_key, values)
        else:
            is_split_first = g.option("split_first")
            keys = split(k, [0, 2, 3, 1]) if is_split_first else merged_heads(g, k, [0, 2, 1])
        queries = split(q, [0, 2, 1, 3])
        if scaled := g.choice("scaled_queries", "", "Mul", "Div"):
            queries = getattr(g.op, scaled)(queries, first)
        scores = scores_of(g, queries, keys, factor, s)
        scores = g.op.Add(scores, g.symbol("mask")) if g.option("masked") else scores
        y = g.op.MatMul(g.op.Softmax(scores, axis=g.any_of(-1, 3)), values)
        return (
            g.op.Reshape(g.op.Transpose(y, perm=[0, 2, 1, 3]), g.symbol(), attributes=ANY),
            *present_tensors,
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        scores_node, y = (node for node in m.nodes if node.op_type == "MatMul")
        (q, swapped), v = scores_node.input, y.input[1]
        scores = scores_shape(g, q, swapped, v)
        heads = set(self._heads(g, m, q, swapped, v, y.output[0]))
        if scores is None or len(heads) != 1 or None in heads:  # (1)
            return self.none(
                scores_node, msg="the shapes are unknown, or the heads are not split and merged"
            )
        if reason := may_be_empty(g, (*scores, *g.get_shape(q), *g.get_shape(v))):  # (2)
            return self.none(scores_node, msg=reason)
        scale = scale_of(g, m, q)
        if scale is None:  # (3)
            return self.none(scores_node, msg="the scale is not a positive scalar, or adds axes")
        # (4)
        if g.try_infer_type(q) != TensorProto.FLOAT or not runs(
            g, "MultiHeadAttention", q, "com.microsoft"
        ):
            return self.none(scores_node, msg="no kernel for this element type")
        masks, stretched = [m.mask] if m.masked else [], []
        if not masks_fit_scores(g, masks, scores, v):  # (5)
            return self.none(scores_node, msg="the mask does not broadcast to the scores")
        if m.masked:
            stretched = stretched_by(g, masks, scores, q, swapped)
            if any(stretched) and g.main_opset < _EXPAND:  # (7)
                return self.none(scores_node, msg="the mask must be expanded, which needs opset 8")
        if m.past and not self._cache_fits(g, m):  # (6)
            return self.none(
                scores_node, msg="the keys may differ from the values in number or head size"
            )
        cache = [m.past_key, m.past_value] if m.past else []
        attributes = {"num_heads": heads.pop(), "scale": scale}
        return m.derive(cache=cache, stretched=stretched, new_attributes=attributes)

    def _heads(
        self, g: GraphView, m: Match, q: str, swapped: str, v: str, y: str
    ) -> Iterator[int | None]:
        """The numbers of heads that queries, keys, values and the result are split into."""
        keys = g.try_infer_shape(swapped)
        split: Shape | None = (
            None if keys is None or len(keys) != 4 else (keys[0], keys[1], keys[3], keys[2])
        )
        if m.past:
            key_heads, v = (
                node.input[1] for name in m.outputs[1:] if (node := g.node_before(name)) is not None
            )
            split = g.try_infer_shape(key_heads)
        shapes = (g.try_infer_shape(q), split, g.try_infer_shape(v), g.try_infer_shape(y))
        return (
            heads_in(g, packed, shape)
            for packed, shape in zip((m.q, m.k, m.v, m.outputs[0]), shapes, strict=True)
        )

    def _cache_fits(self, g: GraphView, m: Match) -> bool:
        """Whether past keys and values have one shape, and new ones the length of the queries."""
        past = [g.try_infer_shape(name) for name in (m.past_key, m.past_value)]
        shapes = [g.try_infer_shape(name) for name in (m.q, m.k, m.v)]
        lengths = {shape[1] if shape else None for shape in shapes}
        return len(lengths) == 1 and past[0] is not None and past[0] == past[1]

    def apply_pattern(
        self, g: PatternRewriter, q: str, k: str, v: str, mask: str | None, **m: Any
    ) -> tuple[str, ...]:
        if mask:
            first_axes = list(range(4 - len(g.get_shape(mask))))
            mask = g.op.Unsqueeze(mask, axes=first_axes) if first_axes else mask
            mask = stretch_mask(g, mask, m["stretched"])
        operands = (q, k, v, None, None, mask, *m["cache"])
        y = g.op.MultiHeadAttention(
            *operands, outputs=1 + len(m["cache"]), domain="com.microsoft", **m["new_attributes"]
        )
        return (y,) if isinstance(y, str) else y

    _move = "Transpose <perm = [0, 2, 1, 3]>"
    examples = Example.pairs(
        "agraph (float[b,s,8] q, float[b,t,8] k, float[b,t,8] v) "
        "=> (float[b,s,8] y) <int64[4] n = {0, 0, 2, 4}, int64[3] r = {0, 0, 8}, "
        f"float two = {{2}}> {{ a = Reshape(q, n) c = {_move} (a) d = Reshape(k, n) "
        f"e = Transpose <perm = [0, 2, 3, 1]> (d) f = Reshape(v, n) h = {_move} (f) "
        "p = MatMul(c, e) i = Div(p, two) w = Softmax <axis = -1> (i) z = MatMul(w, h) "
        f"t = {_move} (z) y = Reshape(t, r) }}",
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.5> (q, k, v) }",
        "agraph (float[b,3,8] q, float[b,5,8] k, float[b,5,12] v) "
        "=> (float[b,3,12] y) <int64[4] n = {0, 0, 2, 4}, int64[4] l = {0, 2, 4, 5}, "
        "int64[4] u = {0, 0, 2, 6}, int64[3] r = {0, 0, -1}> { a = Reshape(q, n) "
        f"c = {_move} (a) d = Transpose <perm = [0, 2, 1]> (k) e = Reshape(d, l) "
        f"f = Reshape(v, u) h = {_move} (f) p = MatMul(c, e) w = Softmax <axis = 3> (p) "
        f"z = MatMul(w, h) t = {_move} (z) y = Reshape(t, r) }}",
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 1.0> (q, k, v) }",
        "agraph (float[b,s,8] q, float[b,t,8] k, float[b,t,8] v, float[1,t] m) "
        "=> (float[b,s,8] y) <int64[4] n = {0, 0, 2, 4}, int64[3] r = {0, 0, 8}> { "
        f"a = Reshape(q, n) c = {_move} (a) d = Reshape(k, n) "
        f"e = Transpose <perm = [0, 2, 3, 1]> (d) f = Reshape(v, n) h = {_move} (f) "
        "p = MatMul(c, e) i = Add(p, m) w = Softmax <axis = -1> (i) z = MatMul(w, h) "
        f"t = {_move} (z) y = Reshape(t, r) }}",
        "<int64[2] o = {0, 1}, int64[1] x = {1}> { n = Shape <end = 2, start = 1> (q) "
        "u = Concat <axis = 0> (n, x) l = Unsqueeze(m, o) j = Expand(l, u) "
        "y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 1.0> (q, k, v, , , j) }",
        "agraph (float[b,3,8] q, float[b,3,8] k, float[b,3,8] v, float[b,2,p,4] pk, "
        "float[b,2,p,4] pv) => (float[b,3,8] y, float[b,2,t,4] kc, "
        "float[b,2,t,4] vc) <int64[4] n = {0, 0, 2, 4}, int64[3] r = {0, 0, 8}> { "
        f"a = Reshape(q, n) c = {_move} (a) d = Reshape(k, n) e = {_move} (d) "
        f"kc = Concat <axis = 2> (pk, e) f = Reshape(v, n) h = {_move} (f) "
        "vc = Concat <axis = 2> (pv, h) g = Transpose <perm = [0, 1, 3, 2]> (kc) p = MatMul(c, g) "
        f"w = Softmax <axis = -1> (p) z = MatMul(w, vc) t = {_move} (z) y = Reshape(t, r) }}",
        "{ y, kc, vc = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 1.0> (q, k, v, , "
        ", , pk, pv) }",
    )
