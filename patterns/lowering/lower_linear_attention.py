import math
from typing import Any, ClassVar, Final

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from .._nodes import size_along
from ._attention import repeated_heads
from ._lowering import _Lowering

_ATTRIBUTES: Final = frozenset(("q_num_heads", "kv_num_heads", "scale", "chunk_size"))


class LowerLinearAttentionPattern(_Lowering):
    """com.microsoft.LinearAttention(q, k, v, past, g, beta) → state = past · Exp(g), present =
    state + k · (v - Σ state · k) · beta, y = Σ present · q

    What: one token, by any of the four update rules; heads of queries and keys are repeated.
    Why: only ONNX Runtime's own providers run it.
    Refuses when:
    1. the number of tokens is not known to be 1, or the size or the number of heads is not known.
    2. there are more queries than states, the state is absent or several states are kept.
    3. the rate is one number for all heads, or an operand of the rule is absent.
    4. the type is not a 32-bit float.
    """

    min_opset = 13
    operand_types = {"q": frozenset((TensorProto.FLOAT,))}  # (4)
    operand_ranks = {"q": 3, "k": 3, "v": 3, "past": 4}
    derives: ClassVar[tuple[str, ...]] = ("sizes", "shared", "decays")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        past: Symbol,
        decay: Optional,
        beta: Optional,
    ) -> Any:
        return g.op.LinearAttention(
            *(q, k, v, past, decay, beta),
            domain="com.microsoft",
            outputs=2,
            update_rule=g.capture("rule"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, (_, *sizes) = m.nodes[0], g.get_shape(m.past)
        shapes = [g.get_shape(name) for name in (m.q, m.k, m.v)]
        is_known = all(isinstance(size, int) for size in (*sizes, shapes[1][2]))
        if not is_known or any(length != 1 for _, length, _ in shapes):  # (1)
            return self.none(node, msg="a size or the number of tokens is not known, or not 1")
        heads, key, _ = sizes
        shared = [m.written["q_num_heads"], shapes[1][2] // key]
        if not set(m.written) <= _ATTRIBUTES or any(heads % count for count in shared):  # (2)
            return self.none(node, msg="more queries than states, or several states")
        decays, rates = (size_along(g, name, 2) if name else 0 for name in (m.decay, m.beta))
        has_decay = not _is_gated(m.rule) or decays in (heads, heads * key)
        if not has_decay or (_is_delta(m.rule) and rates != heads):  # (3)
            return self.none(node, msg="the decay or the rate is absent, or has another size")
        return m.derive(sizes=sizes, shared=shared, decays=decays)

    def apply_pattern(
        self, g: PatternRewriter, past: str, rule: str, sizes: list[int], **m: Any
    ) -> tuple[str, str]:
        heads, key, value = sizes
        queries, keys = (
            repeated_heads(g, g.op.Reshape(m[name], [-1, count, key, 1]), count, heads)
            for name, count in zip("qk", m["shared"], strict=True)
        )
        state, change = past, g.op.Reshape(m["v"], [-1, heads, 1, value])
        if _is_gated(rule):
            factor = g.op.Reshape(g.op.Exp(m["decay"]), [-1, heads, m["decays"] // heads, 1])
            state = g.op.Mul(past, factor)
        if _is_delta(rule):
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
        f'com.microsoft.LinearAttention <{_heads}, scale = 1.0, update_rule = "gated_delta"> '
        "(q, k, v, p, g, z) }",
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


def _is_gated(rule: str) -> bool:
    return rule in ("gated", "gated_delta")


def _is_delta(rule: str) -> bool:
    return rule in ("delta", "gated_delta")
