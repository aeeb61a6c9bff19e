import math
from collections.abc import Mapping
from typing import Any, Final

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._attention import (
    capped,
    causal_mask,
    fits,
    is_safe_mask,
    masked,
    merged_heads,
    repeated_heads,
    scores_of,
    split_heads,
    weights_of,
)
from ._lowering import ATTENTION_FLOATS, _Lowering

_MODE: Final = "qk_matmul_output_mode"
_WEIGHTS: Final = 3
"""The mode in which ``qk_matmul_output`` holds the attention weights, after the Softmax."""
_WINDOWS: Final = ("left_window_size", "right_window_size")


class LowerAttentionPattern(_Lowering):
    """Attention(q, k, v, mask) → Softmax(q · scale · kᵀ + mask) · v

    What: splits and merges heads by Reshape and Transpose, and joins earlier keys and values by
    Concat. Gather repeats key and value heads that serve several query heads. A Boolean mask, and
    is_causal, become numbers that are added to the scores. If all keys of a query are masked, its
    result and its attention weights are 0.
    Why: few runtimes have the operator.
    Refuses when:
    1. the types are not float32 or float16, or differ.
    2. the number or the size of the heads is unknown, or q, k and v do not have the same number of
       axes.
    3. the mask is neither Boolean nor of the type of q, does not have two to four axes, or is not
       known to be as long as the keys.
    4. ``nonpad_kv_seqlen`` is an operand, or ``softmax_precision`` is another type. Or the scale is
       not finite, or softcap is negative or not finite.
    5. scores after the mask are a result.
    6. a window hides keys that are far from a query (since operator set 25).
    7. the attention is causal, but the numbers of queries and new keys may differ: for a single
       query, kernels mask no key.
    """

    min_opset = 23
    operand_types = {"q": ATTENTION_FLOATS, "k": ATTENTION_FLOATS, "v": ATTENTION_FLOATS}  # (1)
    derives = ("sizes", "dtype", "is_safe")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        mask: Optional,
        past_key: Optional,
        past_value: Optional,
    ) -> Symbol:
        operands = (q, k, v, mask, past_key, past_value)
        return g.op.Attention(
            *operands, outputs=g.variadic("results"), attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, dtype = m.nodes[0], g.try_infer_type(m.q)
        if {g.try_infer_type(name) for name in (m.k, m.v)} != {dtype}:  # (1)
            return self.none(node, msg="the types differ")
        if m.written.get("softmax_precision", dtype) != dtype or not _are_finite(m.written):  # (4)
            return self.none(node, msg="softmax_precision is set, or an attribute is not finite")
        if any(m.results[3:]) and m.written.get(_MODE, 0) not in (0, 1, _WEIGHTS):  # (5)
            return self.none(node, msg="the scores after the mask are read as well")
        sizes = _sizes(g, m)
        past = [name for name in (m.past_key, m.past_value) if name]
        if sizes is None or any(g.info(name).rank != 4 for name in past):  # (2)
            return self.none(node, msg="the number or the size of the heads is unknown")
        if m.mask and not (self.is_mask(g, m.mask, dtype) and fits(g, m.mask, _keys(g, m))):  # (3)
            return self.none(
                node, msg="the mask may have an unsupported type, or be shorter than the keys"
            )
        if any(m.written.get(name, -1) != -1 for name in _WINDOWS):  # (6)
            return self.none(node, msg="a local window masks keys")
        if m.written.get("is_causal") == 1 and g.get_shape(m.q)[-2] != g.get_shape(m.k)[-2]:  # (7)
            return self.none(node, msg="there may be fewer queries than keys under a causal mask")
        return m.derive(sizes=sizes, dtype=dtype, is_safe=is_safe_mask(g, m.mask))

    def is_mask(self, g: GraphView, mask: str, dtype: int) -> bool:
        return g.try_infer_type(mask) in (TensorProto.BOOL, dtype)

    def apply_pattern(self, g: PatternRewriter, q: str, k: str, v: str, mask: str, **m: Any) -> Any:
        written, sizes, results = m["written"], m["sizes"], m["results"]
        is_packed = g.info(q).rank == 3
        if is_packed:
            q, k, v = (split_heads(g, x, *size) for x, size in zip((q, k, v), sizes, strict=True))
        if m["past_key"]:
            k = g.op.Concat(m["past_key"], k, axis=2)
            v = g.op.Concat(m["past_value"], v, axis=2)
        causal = causal_mask(g, q, k, m["past_key"]) if written.get("is_causal") == 1 else ""
        dtype = m["dtype"]
        summand = masked(g, mask, causal, dtype, is_safe=m["is_safe"])
        (heads, size), (count, _), (_, width) = sizes
        keys, values = (repeated_heads(g, x, count, heads) for x in (k, v))
        scale = written.get("scale", size**-0.5)
        raw = scores_of(g, q, keys, scale)
        scores = capped(g, raw, written.get("softcap", 0.0))
        weights = weights_of(g, scores, summand, dtype)
        y = g.op.MatMul(weights, values)
        y = merged_heads(g, y, heads * width) if is_packed else y
        shown = {0: raw, _WEIGHTS: weights}.get(written.get(_MODE, 0), scores)
        return tuple(
            new if old else None for new, old in zip((y, k, v, shown), results, strict=False)
        )

    _packed = "agraph (float[b,s,8] q, float[b,t,4] k, float[b,t,6] v"
    _split = "agraph (float[b,2,s,4] q, float[b,2,t,4] k, float[b,2,t,3] v"
    _square = _split.replace("s", "t")
    examples = Example.pairs(
        f"{_split}, float[s,t] m) => (float[b,2,s,3] y) {{ y = Attention(q, k, v, m) }}",
        "<int64[1] a = {-1}, float b = {-3.4028235e+38}, float c = {0.5}, float d = {0}> { e = "
        "ReduceMax <keepdims = 1> (m, a) f = LessOrEqual(e, b) g = Mul(q, c) h = Transpose <perm = "
        "[0, 1, 3, 2]> (k) i = MatMul(g, h) j = Add(i, m) l = Softmax <axis = -1> (j) n = Where(f, "
        "d, l) y = MatMul(n, v) }",
        f"{_packed}, bool[b,1,s,t] m) => (float[b,s,12] y, float[b,2,s,t] z) "
        "{ y, , , z = Attention <q_num_heads = 2, kv_num_heads = 1, softcap = 2.0, scale = 0.25, "
        "qk_matmul_output_mode = 1> (q, k, v, m) }",
        "<int64[4] a = {0, 0, 2, 4}, int64[4] b = {0, 0, 1, 4}, int64[4] c = {0, 0, 1, 6}, float d "
        "= {0}, float e = {-3.4028235e+38}, int64[1] f = {-1}, int64[2] g = {0, 0}, float h = "
        "{0.25}, float i = {2}, int64[3] j = {0, 0, 12}> { l = Reshape(q, a) n = Transpose <perm = "
        "[0, 2, 1, 3]> (l) o = Reshape(k, b) p = Transpose <perm = [0, 2, 1, 3]> (o) r = "
        "Reshape(v, c) s = Transpose <perm = [0, 2, 1, 3]> (r) t = Where(m, d, e) u = ReduceMax "
        "<keepdims = 1> (t, f) w = LessOrEqual(u, e) x = Gather <axis = 1> (p, g) a1 = Gather "
        "<axis = 1> (s, g) b1 = Mul(n, h) c1 = Transpose <perm = [0, 1, 3, 2]> (x) d1 = MatMul(b1, "
        "c1) e1 = Div(d1, i) f1 = Tanh(e1) z = Mul(f1, i) g1 = Add(z, t) h1 = Softmax <axis = -1> "
        "(g1) i1 = Where(w, d, h1) j1 = MatMul(i1, a1) k1 = Transpose <perm = [0, 2, 1, 3]> (j1) y "
        "= Reshape(k1, j) }",
        f"{_square}, float[b,2,p,4] i, float[b,2,p,3] j) => (float[b,2,t,3] y, float[b,2,u,4] kc,"
        ' float[b,2,u,3] vc) { y, kc, vc = Attention <is_causal = 1> (q, k, v, "", i, j) }',
        "<int64[1] a = {0}, int64 b = {1}, int64 c = {0}, int64[1] d = {1}, float e = {0}, float f "
        "= {-3.4028235e+38}, float g = {0.5}> { kc = Concat <axis = 2> (i, k) vc = Concat <axis = "
        "2> (j, v) h = Shape <start = 2, end = 3> (i) l = Squeeze(h, a) m = Shape <start = 2, end "
        "= 3> (q) n = Squeeze(m, a) o = Add(l, n) p = Range(l, o, b) r = Range(c, o, b) s = "
        "Unsqueeze(p, d) t = LessOrEqual(r, s) u = Where(t, e, f) w = Mul(q, g) x = Transpose "
        "<perm = [0, 1, 3, 2]> (kc) z = MatMul(w, x) a1 = Add(z, u) b1 = Softmax <axis = -1> (a1) "
        "y = MatMul(b1, vc) }",
        "agraph (float16[b,2,3,4] q, float16[b,2,3,4] k, float16[b,2,3,4] v) "
        "=> (float16[b,2,3,4] y) { y = Attention <is_causal = 1> (q, k, v) }",
        "<float16 a = {14336}, float16[3,3] b = {0, 64511, 64511, 0, 0, 64511, 0, 0, 0}> { c = "
        "Mul(q, a) d = Transpose <perm = [0, 1, 3, 2]> (k) e = MatMul(c, d) f = Add(e, b) g = "
        "Softmax <axis = -1> (f) y = MatMul(g, v) }",
        f"{_split}, float[s,t] m) => (float[b,2,s,3] y, float[b,2,s,t] w) "
        "{ y, , , w = Attention <qk_matmul_output_mode = 3> (q, k, v, m) }",
        "<int64[1] a = {-1}, float b = {-3.4028235e+38}, float c = {0.5}, float d = {0}> { e = "
        "ReduceMax <keepdims = 1> (m, a) f = LessOrEqual(e, b) g = Mul(q, c) h = Transpose <perm = "
        "[0, 1, 3, 2]> (k) i = MatMul(g, h) j = Add(i, m) l = Softmax <axis = -1> (j) w = Where(f, "
        "d, l) y = MatMul(w, v) }",
        opset=23,
    )


def _are_finite(written: Mapping[str, Any]) -> bool:
    """Whether scale and softcap are finite, and softcap is not negative."""
    return math.isfinite(written.get("scale", 1.0)) and 0 <= written.get("softcap", 0.0) < math.inf


def _sizes(g: GraphView, m: Match) -> list[tuple[int, int]] | None:
    """The number and the size of the heads of queries, keys and values; ``None`` if unknown."""
    counts = [m.written.get(name, 0) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    sizes: list[tuple[int, int]] = []
    shapes = [g.try_infer_shape(name) or () for name in (m.q, m.k, m.v)]
    for shape, attribute in zip(shapes, counts, strict=True):
        heads = attribute if len(shape) == 3 else shape[1] if len(shape) == 4 else 0
        last = shape[-1] if shape else 0
        if not isinstance(heads, int) or not isinstance(last, int) or heads < 1:
            return None
        size = last // heads if len(shape) == 3 else last
        sizes.append((heads, size))
    heads, count = sizes[0][0], sizes[1][0]
    agree = len({len(shape) for shape in shapes}) == 1 and count == sizes[2][0]
    return sizes if agree and heads % count == 0 and sizes[0][1] == sizes[1][1] > 0 else None


def _keys(g: GraphView, m: Match) -> Dim:
    """The number of keys, earlier keys included."""
    shape = g.get_shape(m.k)
    past = g.try_infer_shape(m.past_key) if m.past_key else None
    return shape[-2] if past is None else past[-2] + shape[-2]
