import math
from typing import Any

from xoptim.match import Example, GraphView, Match, PatternRewriter

from ._attention import repeated_heads
from ._linear_attention import _LowerLinearAttention, is_delta, is_gated, is_step


class LowerLinearAttentionPattern(_LowerLinearAttention):
    """com.microsoft.LinearAttention(q, k, v, past, g, beta) → state = past · Exp(g), present =
    state + k · (v - Σ state · k) · beta, y = Σ present · q

    What: computes one token, by any of the four update rules. Gather repeats heads of queries and
    keys for the states that share them.
    Why: only ONNX Runtime's own providers run the operator.
    Refuses when:
    1. the number of tokens is not known to be 1, or the size or the number of heads is not known.
    2. the number of heads of queries or keys does not divide the number of states. Or the state is
       absent, or an attribute is not supported.
    3. decay or beta, if the update rule uses it, is absent or does not have one number for each
       head. (decay may also have one for each key feature of each head.)
    4. the type is not float32.
    """

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not is_step(g, m):  # (1)
            return self.none(m.nodes[0], msg="there may be several tokens")
        return super().validate_mapping(g, m)

    def apply_pattern(
        self, g: PatternRewriter, past: str, rule: str, sizes: list[int], **m: Any
    ) -> tuple[str, str]:
        heads, key, value = sizes
        queries, keys = (
            repeated_heads(g, g.op.Reshape(m[name], [-1, count, key, 1]), count, heads)
            for name, count in zip("qk", m["shared"], strict=True)
        )
        state, change = past, g.op.Reshape(m["v"], [-1, heads, 1, value])
        if is_gated(rule):
            factor = g.op.Reshape(g.op.Exp(m["decay"]), [-1, heads, m["decays"] // heads, 1])
            state = g.op.Mul(past, factor)
        if is_delta(rule):
            recalled = g.op.ReduceSum(g.op.Mul(state, keys), axes=[2], keepdims=1)
            rate = g.op.Reshape(m["beta"], [-1, heads, 1, 1])
            change = g.op.Mul(g.op.Sub(change, recalled), rate)
        present = g.op.Add(state, g.op.Mul(keys, change))
        y = g.op.ReduceSum(g.op.Mul(present, queries), axes=[2], keepdims=1)
        scale = m["written"].get("scale", 0.0) or 1 / math.sqrt(key)
        if scale != 1:
            y = g.op.Mul(y, scale)
        return g.op.Reshape(y, [-1, 1, heads * value]), present

    _start = "agraph (float[b,1,8] q, float[b,1,8] k, float[b,1,6] v, float[b,2,4,3] p"
    _results = "=> (float[b,1,6] y, float[b,2,4,3] s) {"
    _heads = "q_num_heads = 2, kv_num_heads = 2"
    _sizes = (
        "int64[4] c = {-1, 2, 4, 1}, int64[4] r = {-1, 2, 1, 3}, int64[4] i = {-1, 2, 1, 1}, "
        "int64[1] a = {2}, int64[3] t = {-1, 1, 6}"
    )
    _columns = "u = Reshape(q, c) w = Reshape(k, c) x = Reshape(v, r)"
    examples = Example.pairs(
        f"{_start}, float[b,1,2] g, float[b,1,2] z) {_results} y, s = "
        f"com.microsoft.LinearAttention <{_heads}, scale = 1.0> (q, k, v, p, g, z) }}",
        f"<{_sizes}> {{ {_columns} f = Exp(g) h = Reshape(f, i) n = Mul(p, h) m = Mul(n, w) "
        "o = ReduceSum(m, a) l = Reshape(z, i) d = Sub(x, o) e = Mul(d, l) j = Mul(w, e) "
        "s = Add(n, j) aa = Mul(s, u) ab = ReduceSum(aa, a) y = Reshape(ab, t) }",
        f"{_start.replace('1,8] ', '1,4] ')}, float[b,1,8] g) {_results} y, s = "
        'com.microsoft.LinearAttention <q_num_heads = 1, kv_num_heads = 2, update_rule = "gated"> '
        "(q, k, v, p, g) }",
        f"<{_sizes.replace('c = {-1, 2, 4', 'c = {-1, 1, 4')}, int64[2] z = {{0, 0}}, "
        "int64[4] l = {-1, 2, 4, 1}, float half = {0.5}> { "
        "a0 = Reshape(q, c) u = Gather <axis = 1> (a0, z) a1 = Reshape(k, c) "
        "w = Gather <axis = 1> (a1, z) x = Reshape(v, r) f = Exp(g) h = Reshape(f, l) "
        "n = Mul(p, h) j = Mul(w, x) s = Add(n, j) aa = Mul(s, u) ab = ReduceSum(aa, a) "
        "ac = Mul(ab, half) y = Reshape(ac, t) }",
    )
