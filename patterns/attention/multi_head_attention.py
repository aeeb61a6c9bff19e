from collections.abc import Sequence

from onnx import TensorProto

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, runs
from xoptim.match.trace import ANY, Scalar, Symbol

from ._formula import heads_in, is_there, merged_heads, scale_of, scores_of, scores_shape


class MultiHeadAttentionPattern(EasyPatternOptimization):
    """Softmax(q · kᵀ · scale) · v, heads split before and merged after → com.microsoft.MultiHeadAttention(q, k, v)

    What: one operator instead of eleven. From operator set 23 on, Attention replaces it up to 1024 keys.
    Why: one thread of onnxruntime's CPU provider takes 0.94 of the time for one query and 64 keys, 0.82 for 16 queries and
    keys, 0.91 for 64, 0.90 for 128, 0.83 for 512, 0.69 for 1024, and 0.69 for 2048 (8 heads of 64). With a mask it is slower
    than the formula below 512 keys.
    Refuses when:
    1. the shapes are unknown, batches or heads of q, k and v differ, or heads are not split off the last axis and merged again.
    2. an axis may be empty, which onnxruntime's kernel refuses.
    3. the factor is not a positive number, or has more than four axes.
    4. the provider has no kernel for 32-bit floats, or the type is another one.
    """

    phase = "target"
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("onnxruntime",)

    def match_pattern(
        self, g: PatternBuilder, q: Symbol, k: Symbol, v: Symbol, first: Scalar, factor: Scalar, s: Scalar
    ) -> Symbol:
        # The keys are swapped after the split or before it.

        def split(packed: Symbol, perm: Sequence[int]) -> Symbol:
            heads: Symbol = g.op.Transpose(g.op.Reshape(packed, g.symbol(), attributes=ANY), perm=perm)
            return heads

        keys = split(k, [0, 2, 3, 1]) if g.option("split_first") else merged_heads(g, k)
        queries = split(q, [0, 2, 1, 3])
        if scaled := g.choice("scaled_queries", "", "Mul", "Div"):
            queries = getattr(g.op, scaled)(queries, first)
        y = g.op.MatMul(g.op.Softmax(scores_of(g, queries, keys, factor, s), axis=g.any_of(-1, 3)), split(v, [0, 2, 1, 3]))
        return g.op.Reshape(g.op.Transpose(y, perm=[0, 2, 1, 3]), g.symbol(), attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        scores_node, y = (node for node in m.nodes if node.op_type == "MatMul")
        (q, swapped), v = scores_node.input, y.input[1]
        scores = scores_shape(g, q, swapped, v)
        shapes = [g.try_infer_shape(name) for name in (q, swapped, v, y.output[0])]
        keys = shapes[1]
        shapes[1] = None if keys is None or len(keys) != 4 else (keys[0], keys[1], keys[3], keys[2])
        heads = {heads_in(g, packed, split) for packed, split in zip((m.q, m.k, m.v, m.outputs[0]), shapes, strict=True)}
        if scores is None or len(heads) != 1 or None in heads:  # (1)
            return self.none(scores_node, msg="not the shapes of an attention whose heads are split and merged")
        if not all(is_there(g, dim) for dim in (*scores, *g.get_shape(q), *g.get_shape(v))):  # (2)
            return self.none(scores_node, msg="an axis may be empty")
        scale = scale_of(g, m, q)
        if scale is None:  # (3)
            return self.none(scores_node, msg="the scale is not a positive number, or adds axes")
        if g.try_infer_type(q) != TensorProto.FLOAT or not runs(g, "MultiHeadAttention", q, "com.microsoft"):  # (4)
            return self.none(scores_node, msg="no kernel for the type")
        return m.derive(scale=scale, heads=heads.pop())

    def apply_pattern(self, g: PatternRewriter, q: str, k: str, v: str, scale: float, heads: int) -> str:
        return g.op.MultiHeadAttention(q, k, v, num_heads=heads, scale=scale, domain="com.microsoft")

    _move = "Transpose <perm = [0, 2, 1, 3]>"
    examples = Example.pairs(
        "agraph (float[b,s,8] q, float[b,t,8] k, float[b,t,8] v) => (float[b,s,8] y) "
        "<int64[4] n = {0, 0, 2, 4}, int64[3] r = {0, 0, 8}, float two = {2}> "
        f"{{ a = Reshape(q, n) c = {_move} (a) d = Reshape(k, n) e = Transpose <perm = [0, 2, 3, 1]> (d) "
        f"f = Reshape(v, n) h = {_move} (f) p = MatMul(c, e) i = Div(p, two) w = Softmax <axis = -1> (i) "
        f"z = MatMul(w, h) t = {_move} (z) y = Reshape(t, r) }}",
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.5> (q, k, v) }",
        "agraph (float[b,3,8] q, float[b,5,8] k, float[b,5,12] v) => (float[b,3,12] y) "
        "<int64[4] n = {0, 0, 2, 4}, int64[4] l = {0, 2, 4, 5}, int64[4] u = {0, 0, 2, 6}, int64[3] r = {0, 0, -1}> "
        f"{{ a = Reshape(q, n) c = {_move} (a) d = Transpose <perm = [0, 2, 1]> (k) e = Reshape(d, l) "
        f"f = Reshape(v, u) h = {_move} (f) p = MatMul(c, e) w = Softmax <axis = 3> (p) "
        f"z = MatMul(w, h) t = {_move} (z) y = Reshape(t, r) }}",
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 1.0> (q, k, v) }",
    )
