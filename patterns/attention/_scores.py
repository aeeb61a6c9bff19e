"""GroupQueryAttention for attention as separate operators, with attention sinks or a softcap."""

from typing import Any, ClassVar, Final

from xoptim.match import ANY, GraphView, Match, Optional, PatternBuilder, Symbol

from ._formula import scale_of
from ._groups import shared_heads
from .group_query_attention import GroupQueryAttentionPattern

_PERM: Final = [0, 2, 1, 3]
"""Moves heads before positions, or back."""


def example(numbers: str, weights: str, attributes: str, sinks: str = "") -> tuple[str, str]:
    """The two graphs of an example, with a KV cache of one token and three new tokens.

    There are four query heads of eight features, two heads of keys, and a window of two keys.

    Args:
        numbers: constants of the graph before the rewrite, each followed by a comma.
        weights: the nodes that compute the weights ``w`` from the scores ``a`` and the mask ``m``.
        attributes: attributes of the operator, besides the heads and the window.
        sinks: a constant for the operator, ``float[4] h = {...}``; none by default.
    """
    move, sink_operands = "Transpose <perm = [0, 2, 1, 3]>", ", , , , , h" if sinks else ""
    before = (
        "agraph (float[1,3,32] q, float[1,3,16] k, float[1,3,16] v, float[1,2,1,8] e, "
        "float[1,2,1,8] f) => (float[1,3,32] y, float[1,2,4,8] i, float[1,2,4,8] j) "
        f"<{numbers}int64[4] qs = {{0, 0, 4, 8}}, int64[4] ks = {{0, 0, 2, 8}}, "
        "int64[3] ys = {0, 0, 32}, int64[4] r = {0, 0, 1, 1}, float[3,4] m = "
        "{0, 0, -1e38, -1e38, -1e38, 0, 0, -1e38, -1e38, -1e38, 0, 0}> "
        f"{{ q0 = Reshape(q, qs) qh = {move} (q0) k0 = Reshape(k, ks) kh = {move} (k0) "
        f"v0 = Reshape(v, ks) vh = {move} (v0) i = Concat <axis = -2> (e, kh) "
        "j = Concat <axis = -2> (f, vh) kk = Gather <axis = 1> (i, r) vv = Gather <axis = 1> (j, r)"
        f" p = Transpose <perm = [0, 1, 3, 2]> (kk) a = MatMul(qh, p) {weights} "
        f"u = MatMul(w, vv) t = {move} (u) y = Reshape(t, ys) }}"
    )
    after = (
        f"<{sinks}{', ' if sinks else ''}int32[1] t = {{4}}, int32[1] l = {{3}}> "
        "{ s = Shape <start = 0, end = 1> (q) n = Expand(l, s) y, i, j = "
        "com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, "
        f"{attributes}, local_window_size = 2> (q, k, v, e, f, n, t{sink_operands}) }}"
    )
    return before, after


class _ScoresGroupQueryAttention(GroupQueryAttentionPattern):
    """Attention with a cache, as separate operators."""

    exactness = "finite"
    priority = 2  # before FusedMatMul takes over the scale
    derives: ClassVar[tuple[str, ...]] = (*GroupQueryAttentionPattern.derives, "attributes")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        mask: Optional,
        past_key: Symbol,
        past_value: Symbol,
    ) -> tuple[Symbol, Symbol, Symbol]:
        # `rotated` makes the last choice: for each scaling and repetition, the engine first looks
        # for rotary embeddings, and then for the same graph without them.
        scaling = g.choice("scaling", "", "Mul", "Div")
        repetition = g.choice("repetition", "", "Gather", "Expand")
        queries, keys = self.rotated(g, q, k)
        axis = g.any_of(-2, 2)
        query_heads, key_heads, value_heads = (
            g.op.Transpose(g.op.Reshape(x, g.symbol(), attributes=ANY), perm=_PERM)
            for x in (queries, keys, v)
        )
        present_key = g.op.Concat(past_key, key_heads, axis=axis)
        present_value = g.op.Concat(past_value, value_heads, axis=axis)
        keys, values = (_repeated(g, x, repetition) for x in (present_key, present_value))
        scores = g.op.MatMul(query_heads, g.op.Transpose(keys, perm=[0, 1, 3, 2]))
        if scaling:
            scores = getattr(g.op, scaling)(scores, g.constant("s", scalar=True))
        weights = self.weights(g, scores, mask)
        merged = g.op.Transpose(g.op.MatMul(weights, values), perm=_PERM)
        y = g.op.Reshape(merged, g.symbol(), attributes=ANY)
        return y, present_key, present_value

    def weights(self, g: PatternBuilder, scores: Symbol, mask: Optional) -> Symbol:
        """The weights of the values, from the scores."""
        raise NotImplementedError


def _repeated(g: PatternBuilder, x: Symbol, repetition: str) -> Symbol:
    """Keys or values, repeated to one head for each query head."""
    repeated = x
    if repetition == "Gather":
        repeated = g.op.Gather(x, g.symbol(), axis=1)
    if repetition == "Expand":
        expanded = g.op.Expand(g.op.Unsqueeze(x, axes=[2]), g.symbol())
        repeated = g.op.Reshape(expanded, g.symbol(), attributes=ANY)
    return repeated


def attributes_of(g: GraphView, m: Match) -> dict[str, Any] | None:
    """The attributes of Attention: numbers of heads, and scale.

    ``None`` if the shapes or the scale of the match do not correspond to an Attention.
    """
    transposes = [node for node in m.nodes if node.op_type == "Transpose"]
    queries, keys, values = (g.try_infer_shape(node.output[0]) for node in transposes[:3])
    if queries is None or keys is None or values != keys:
        return None
    batch, heads, length, size = queries
    groups = keys[1]
    if keys != (batch, groups, length, size):
        return None
    head_counts = ((m.q, heads), (m.k, groups), (m.v, groups), (m.outputs[0], heads))
    if any(g.try_infer_shape(name) != (batch, length, count * size) for name, count in head_counts):
        return None
    matmuls = [node for node in m.nodes if node.op_type == "MatMul"]
    for name in (transposes[3].input[0], matmuls[1].input[1]):
        shared = shared_heads(g, name) if m.repetition else None
        if (heads if shared is None else shared.shape[1]) != groups:
            return None
    scale = scale_of(g, m, m.q)
    if scale is None:
        return None
    return {"q_num_heads": heads, "kv_num_heads": groups, "scale": scale}
