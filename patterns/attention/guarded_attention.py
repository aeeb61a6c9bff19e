from typing import ClassVar

import numpy as np

from xoptim.facts.dtypes import Exactness
from xoptim.facts.shapes import Shape
from xoptim.match import (
    ANY,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
)

from .._nodes import axis_of, is_op
from ._formula import heads_in
from ._groups import SharedHeads, key_head_indices, packed_heads, packed_keys, shared_heads
from ._mask import write_mask
from .attention import AttentionPattern


class GuardedAttentionPattern(AttentionPattern):
    """w = Softmax(q · kᵀ · scale + mask), Where(IsNaN(w), 0, w) · v → y = Attention(q, k, v, mask),
    Where(IsNaN(y), 0 · Σ v, y)

    What: applies `Attention` and `AttentionHeads` to an attention with the guard that torch's
    exporters write: if all keys of a query are masked by -infinity, its weights become 0. The guard
    moves after the operator. Where the result is NaN, it becomes 0 times the sum of the values.
    Like the original, this product is NaN if a value is infinite or NaN.
    Why: as for `Attention`; the guard also reads the result, which is smaller than the weights. On
    one thread of onnxruntime's CPU provider, with 8 heads of 64 features, one query takes 0.47 of
    the time with 64 keys, and 0.33 with 512. 16 queries and keys take 1.02, 128 take 0.84 and 1024
    take 0.70. With a KV cache and `ConcatAttention`, 0.77 to 0.96 were measured.
    Refuses when:
    1. `Attention` refuses.
    2. heads are not split off the last axis of q, k and v, or not merged again: then the new guard
       is slower below 128 keys. Keys and values may have four axes if they are appended to a KV
       cache, or have fewer heads than the queries.
    3. keys and values with four axes may differ in length (`ConcatAttention` refuses them then),
       and no heads are repeated.
    """

    priority = 2  # after the rotary embedding patterns, which join the halves of queries and keys
    exactness: ClassVar[Exactness] = "rounding"
    derives = (*AttentionPattern.derives, "packed_operands", "key_value_heads")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        factor: Scalar,
        s: Scalar,
        mask: Symbol,
    ) -> Symbol:
        queries = q
        if scaled := g.choice("scaled_queries", "", "Mul", "Div"):
            queries = getattr(g.op, scaled)(q, g.constant("first", scalar=True))
        weights = self.weights(g, self.scores(g, queries, k, factor, s), mask)
        y = g.op.MatMul(g.op.Where(g.op.IsNaN(weights), 0.0, weights), v)
        return g.op.Reshape(g.op.Transpose(y, perm=[0, 2, 1, 3]), g.symbol(), attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        scores, matmul = (node for node in m.nodes if node.op_type == "MatMul")
        result_heads = heads_in(g, m.outputs[0], g.try_infer_shape(matmul.output[0]))
        sources = (
            packed_heads(g, m.q),
            packed_keys(g, m.k, scores.input[1], m.perm),
            packed_heads(g, m.v),
        )
        operands = [source for source in sources if source is not None]
        if (
            len(operands) == 3
            and operands[0].heads == result_heads
            and operands[1].heads == operands[2].heads
        ):
            # (1)
            return super().validate_mapping(g, m) and m.derive(
                packed_operands=operands, key_value_heads=None
            )
        heads = [
            tensor for name in (m.k, m.v) if (tensor := _shared_or_cached(g, name)) is not None
        ]
        are_split = m.perm == [0, 1, 3, 2] and result_heads is not None and len(heads) == 2
        if not are_split or heads[0].shape[1] != heads[1].shape[1]:  # (2)
            return self.none(
                matmul,
                msg="the heads are not split before the attention, or not merged after it",
            )
        keys, values = (tensor.shape for tensor in heads)
        if keys[1] == result_heads and keys[2] != values[2]:  # (3)
            return self.none(matmul, msg="keys and values may differ in length")
        # (1)
        return super().validate_mapping(g, m) and m.derive(
            packed_operands=None, key_value_heads=heads
        )

    def marked(self, g: GraphView, m: Match) -> bool:
        """False: the guard replaces the NaN weights of a fully masked query by 0."""
        return False

    def replacement(self, g: PatternRewriter, match: Match) -> str:
        # Softmax makes all weights of a query NaN, or none, so the guard can look at the result.
        mask = match.mask if match.masked else None
        if match.get("two_terms"):
            mask = g.op.Add(match.bias, mask)
        mask = mask and write_mask(g, mask, **match.mask_options)
        size, target = g.get_shape(match.v)[3], np.array([0, 0, g.get_shape(match.outputs[0])[2]])
        if match.packed_operands is None:
            keys, values = (tensor.with_four_axes(g) for tensor in match.key_value_heads)
            shape = match.key_value_heads[1].shape
            heads, key_heads = g.get_shape(match.v)[1], shape[1]
            y = g.op.Attention(match.q, keys, values, mask, scale=match.scale)
            y = g.op.Reshape(g.op.Transpose(y, perm=[0, 2, 1, 3]), target)
            zeros = _zeros_or_nan(g, values, shape)
            if key_heads != heads:
                zeros = g.op.Expand(zeros, np.array([1, 1, heads // key_heads, 1]))
            return g.op.Where(g.op.IsNaN(y), g.op.Reshape(zeros, np.array([0, 1, heads * size])), y)
        (q, heads), (k, key_heads), (v, _) = match.packed_operands
        attributes = {"scale": match.scale, "q_num_heads": heads, "kv_num_heads": key_heads}
        y = g.op.Attention(q, k, v, mask, **attributes)
        zeros = _zeros_or_nan(g, v, g.get_shape(v))
        if key_heads != heads:
            head_zeros = g.op.Reshape(zeros, np.array([0, key_heads, 1, size]))
            head_zeros = g.op.Gather(head_zeros, key_head_indices(key_heads, heads), axis=1)
            zeros = g.op.Reshape(head_zeros, np.array([0, 1, heads * size]))
        return g.op.Where(g.op.IsNaN(y), zeros, y)

    _operands = "float[b,3,8] q, float[b,5,8] k, float[b,5,12] v"
    _start = f"agraph ({_operands}, bool[b,1,3,5] c) => (float[b,3,12] y)"
    _shared = "agraph (float[b,3,16] q, float[b,5,8] k, float[b,5,12] v) => (float[b,3,24] y)"
    _numbers = "float zero = {0}, int64[4] n = {0, 0, 2, -1}"
    _move = "Transpose <perm = [0, 2, 1, 3]>"
    _split = (
        f"q0 = Reshape(q, nq) q1 = {_move} (q0) k0 = Reshape(k, n) k1 = {_move} (k0) "
        f"v0 = Reshape(v, n) v1 = {_move} (v0)"
    )
    _rest = (
        f"n0 = IsNaN(w) u = Where(n0, zero, w) z = MatMul(u, vv) t = {_move} (z) y = Reshape(t, h)"
    )
    _guard = "s = MatMul(o, v) i = IsNaN(z)"
    examples = Example.pairs(
        f"{_start} <{_numbers}, int64[4] nq = {{0, 0, 2, 4}}, int64[3] h = {{0, 0, 12}}, "
        f"float low = {{-inf}}> {{ m = Where(c, zero, low) {_split} vv = Identity(v1) "
        "p = Transpose <perm = [0, 1, 3, 2]> (k1) a = MatMul(q1, p) e = Add(a, m) "
        f"w = Softmax <axis = -1> (e) {_rest} }}",
        "<float zero = {0}, float low = {-inf}, float step = {0.99999994}, float[1,5] o = {0, 0, "
        "0, 0, 0}> { m = Where(c, zero, low) l = Mul(m, step) z = Attention <scale = "
        f"1.0, q_num_heads = 2, kv_num_heads = 2> (q, k, v, l) {_guard} y = Where(i, s, z) }}",
        f"{_shared} <{_numbers}, int64[4] nq = {{0, 0, 4, 4}}, int64[4] f = {{0, 0, 1, 1}}, "
        f"int64[3] h = {{0, 0, 24}}> {{ {_split} kk = Gather <axis = 1> (k1, f) "
        "vv = Gather <axis = 1> (v1, f) p = Transpose <perm = [0, 1, 3, 2]> (kk) "
        f"a = MatMul(q1, p) w = Softmax <axis = -1> (a) {_rest} }}",
        "<float[1,5] o = {0, 0, 0, 0, 0}, int64[4] f = {0, 0, 1, 1}, int64[4] x = {0, 2, 1, 6}, "
        "int64[3] h = {0, 1, 24}> { z = Attention <scale = 1.0, q_num_heads = "
        f"4, kv_num_heads = 2> (q, k, v) {_guard} s4 = Reshape(s, x) "
        "s5 = Gather <axis = 1> (s4, f) s6 = Reshape(s5, h) y = Where(i, s6, z) }",
        "agraph (float[b,4,3,4] q, float[b,2,3,4] k, float[b,2,3,6] v, float[b,2,5,4] f, "
        "float[b,2,5,6] j) => (float[b,3,24] y, float[b,2,8,4] kc, "
        f"float[b,2,8,6] vc) <{_numbers}, int64[3] h = {{0, 0, 24}}, int64[4] r = {{0, 0, 1, "
        "1}> { kc = Concat <axis = 2> (f, k) vc = Concat <axis = 2> (j, v) "
        "kk = Gather <axis = 1> (kc, r) vv = Gather <axis = 1> (vc, r) "
        "p = Transpose <perm = [0, 1, 3, 2]> (kk) a = MatMul(q, p) "
        f"w = Softmax <axis = -1> (a) {_rest} }}",
        "<float[1,8] o = {0, 0, 0, 0, 0, 0, 0, 0}, int64[3] h = {0, 0, 24}, int64[4] e = {1, 1, "
        "2, 1}, int64[3] x = {0, 1, 24}> { kc = Concat <axis = 2> (f, k) "
        f"vc = Concat <axis = 2> (j, v) a = Attention <scale = 1.0> (q, kc, vc) t = {_move} (a) "
        "z = Reshape(t, h) s = MatMul(o, vc) s1 = Expand(s, e) s2 = Reshape(s1, x) i = IsNaN(z) "
        "y = Where(i, s2, z) }",
        opset=23,
    )


def _zeros_or_nan(g: PatternRewriter, values: str, shape: Shape) -> str:
    """0 times the sums of the values over the last axis but one: NaN where a sum is not finite.

    A MatMul with zeros is much faster than ReduceSum along this axis.
    """
    length, axis = shape[-2], len(shape) - 2
    if isinstance(length, int):
        return str(g.op.MatMul(np.zeros((1, length), dtype=np.float32), values))
    count = g.op.Concat(np.array([1]), g.op.Shape(values, start=axis, end=axis + 1), axis=0)
    return str(g.op.MatMul(g.op.ConstantOfShape(count), values))


def _shared_or_cached(g: GraphView, name: str) -> SharedHeads | None:
    """Heads (batch, heads, length, size) before they are repeated, or after a Concat with a cache.

    ``None`` for all other tensors.
    """
    shape, shared, node = g.try_infer_shape(name), shared_heads(g, name), g.node_before(name)
    if shared is not None or shape is None or len(shape) != 4:
        return shared
    is_cached = is_op(node, "Concat") and len(node.input) == 2 and axis_of(g, node) == 2
    return SharedHeads(name, shape) if is_cached else None
