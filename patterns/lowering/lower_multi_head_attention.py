from typing import Any

from xoptim.facts.dims import Dim
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol, Variadic

from ._attention import ExtraOperands, multi_head
from ._lowering import ATTENTION_FLOATS, _Lowering


class LowerMultiHeadAttentionPattern(_Lowering):
    """com.microsoft.MultiHeadAttention(q, k, v, b, padding, mask) → Softmax(q · scale · kᵀ + mask)
    · v, heads split and merged

    What: adds the parts of the bias, splits and merges heads by Reshape and Transpose, and joins
    earlier keys and values by Concat. Padding, and keys after a query, become numbers that are
    added to the scores.
    Why: only ONNX Runtime's own providers run the operator.
    Refuses when:
    1. the types are not float32 or float16, or differ.
    2. the shapes are unknown, or q, k and v are in one tensor.
    3. the mask is not known to have the shape (any, any, queries, keys), or the padding the shape
       (any, keys).
    4. the scores are an output, or an operand is not supported.
    5. the attention is causal, but the numbers of queries and new keys may differ: kernels hide no
       key from a single query.
    """

    min_opset = 15
    operand_types = {"q": ATTENTION_FLOATS, "k": ATTENTION_FLOATS, "v": ATTENTION_FLOATS}  # (1)
    derives = ("widths", "extra")

    def match_pattern(
        self, g: PatternBuilder, q: Symbol, k: Symbol, v: Symbol, others: Variadic
    ) -> Symbol:
        return g.op.MultiHeadAttention(
            *(q, k, v, others),
            domain="com.microsoft",
            outputs=g.variadic("results"),
            num_heads=g.capture("heads"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, dtype = m.nodes[0], g.try_infer_type(m.q)
        extra = ExtraOperands(*m.others) if len(m.others) <= len(ExtraOperands._fields) else None
        if extra is None or any(m.results[3:]):  # (4)
            return self.none(
                node, msg="the scores are read, or an unsupported optional input is given"
            )
        floats = [name for name in (m.k, m.v, extra.mask, extra.bias) if name]
        if any(g.try_infer_type(name) != dtype for name in floats):  # (1)
            return self.none(node, msg="the types differ")
        widths = _widths(g, m, extra)
        if widths is None:  # (2)
            return self.none(
                node, msg="the shapes are unknown, or q, k and v are packed into one tensor"
            )
        queries, new = g.get_shape(m.q)[1], g.get_shape(m.k)[-2]
        keys = g.get_shape(extra.past_key)[2] + new if extra.past_key else new
        if not _are_masks(g, extra, queries, keys):  # (3)
            return self.none(
                node, msg="key_padding_mask or attention_bias has an unsupported shape"
            )
        if m.written.get("unidirectional") == 1 and queries != new:  # (5)
            return self.none(node, msg="there may be fewer queries than keys under a causal mask")
        return m.derive(widths=widths, extra=extra)

    def apply_pattern(
        self, g: PatternRewriter, q: str, k: str, v: str, extra: ExtraOperands, **m: Any
    ) -> Any:
        heads, widths = m["heads"], m["widths"]
        if extra.bias:
            parts = g.op.Split(extra.bias, split=widths, axis=0, outputs=3)
            q, k, v = (g.op.Add(x, part) for x, part in zip((q, k, v), parts, strict=True))
        results = multi_head(g, (q, k, v), extra, heads, widths, m["written"])
        return results[: len(m["results"])]

    _start = "agraph (float[b,s,8] q, float[b,t,8] k, float[b,t,8] v"
    _square = _start.replace("s", "t")
    examples = Example.pairs(
        f"{_start}, float[1,1,s,t] m) => (float[b,s,8] y) "
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.25> (q, k, v, , , m) }",
        "<int64[4] a = {0, 0, 2, 4}, float b = {0.25}, int64[3] f = {0, 0, 8}> { "
        "g = Reshape(q, a) h = Transpose <perm = [0, 2, 1, 3]> (g) i = Reshape(k, a) "
        "j = Transpose <perm = [0, 2, 1, 3]> (i) l = Reshape(v, a) "
        "n = Transpose <perm = [0, 2, 1, 3]> (l) o = Mul(h, b) "
        "p = Transpose <perm = [0, 1, 3, 2]> (j) r = MatMul(o, p) u = Add(r, m) "
        "w = Softmax <axis = -1> (u) z = MatMul(w, n) a1 = Transpose <perm = [0, 2, 1, 3]> (z) "
        "y = Reshape(a1, f) }",
        f"{_start}, float[24] c, int32[b,t] p) => (float[b,s,8] y) "
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, c, p) }",
        "<int64[3] a = {8, 8, 8}, int64[4] b = {0, 0, 2, 4}, float d = {0.5}, int32 e = {0}, float "
        "f = {0}, float g = {-10000}, int64[2] h = {1, 2}, int64[3] i = {0, 0, 8}> { j, l, m = "
        "Split <axis = 0> (c, a) n = Add(q, j) o = Add(k, l) r = Add(v, m) s = Reshape(n, b) t = "
        "Transpose <perm = [0, 2, 1, 3]> (s) u = Reshape(o, b) w = Transpose <perm = [0, 2, 1, 3]> "
        "(u) x = Reshape(r, b) z = Transpose <perm = [0, 2, 1, 3]> (x) a1 = Mul(t, d) b1 = "
        "Transpose <perm = [0, 1, 3, 2]> (w) c1 = MatMul(a1, b1) d1 = Greater(p, e) e1 = Where(d1, "
        "f, g) f1 = Unsqueeze(e1, h) g1 = Add(c1, f1) h1 = Softmax <axis = -1> (g1) i1 = "
        "MatMul(h1, z) j1 = Transpose <perm = [0, 2, 1, 3]> (i1) y = Reshape(j1, i) }",
        f"{_square}, float[b,2,p,4] i, float[b,2,p,4] j) "
        "=> (float[b,t,8] y, float[b,2,u,4] kc, float[b,2,u,4] vc) { "
        "y, kc, vc = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = 1> (q, k, "
        "v, , , , i, j) }",
        "<int64[4] a = {0, 0, 2, 4}, int64[1] b = {0}, int64 c = {1}, int64 d = {0}, int64[1] e = "
        "{1}, float f = {0}, float g = {-3.4028235e+38}, float h = {0.5}, int64[3] l = {0, 0, 8}> "
        "{ m = Reshape(q, a) n = Transpose <perm = [0, 2, 1, 3]> (m) o = Reshape(k, a) p = "
        "Transpose <perm = [0, 2, 1, 3]> (o) r = Reshape(v, a) s = Transpose <perm = [0, 2, 1, 3]> "
        "(r) kc = Concat <axis = 2> (i, p) vc = Concat <axis = 2> (j, s) t = Shape <start = 2, end "
        "= 3> (i) u = Squeeze(t, b) w = Shape <start = 2, end = 3> (n) x = Squeeze(w, b) z = "
        "Add(u, x) a1 = Range(u, z, c) b1 = Range(d, z, c) c1 = Unsqueeze(a1, e) d1 = "
        "LessOrEqual(b1, c1) e1 = Where(d1, f, g) f1 = Mul(n, h) g1 = Transpose <perm = [0, 1, 3, "
        "2]> (kc) h1 = MatMul(f1, g1) i1 = Add(h1, e1) j1 = Softmax <axis = -1> (i1) k1 = "
        "MatMul(j1, vc) l1 = Transpose <perm = [0, 2, 1, 3]> (k1) y = Reshape(l1, l) }",
        "agraph (float[b,s,8] q, float[b,2,5,4] k, float[b,2,5,4] v) => (float[b,s,8] y) "
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v) }",
        "<int64[4] a = {0, 0, 2, 4}, float b = {0.5}, int64[3] c = {0, 0, 8}> { d = Reshape(q, a) "
        "e = Transpose <perm = [0, 2, 1, 3]> (d) f = Mul(e, b) g = Transpose <perm = [0, 1, 3, 2]> "
        "(k) h = MatMul(f, g) i = Softmax <axis = -1> (h) j = MatMul(i, v) l = Transpose <perm = "
        "[0, 2, 1, 3]> (j) y = Reshape(l, c) }",
    )


def _widths(g: GraphView, m: Match, extra: ExtraOperands) -> list[int] | None:
    """The number of features in all heads of queries, of keys, and of values.

    ``None`` if a number is unknown.
    """
    shapes = [g.try_infer_shape(name) or () for name in (m.q, m.k, m.v)]
    ranks = [len(shape) for shape in shapes]
    is_shaped = m.heads > 0 and ranks in ([3, 3, 3], [3, 4, 4])
    if not is_shaped or (extra.bias and (ranks[1] == 4 or g.info(extra.bias).rank != 1)):
        return None
    widths = [shape[2] if len(shape) == 3 else shape[1] * shape[3] for shape in shapes]
    static = [
        width for width in widths if isinstance(width, int) and width > 0 and width % m.heads == 0
    ]
    past = [name for name in (extra.past_key, extra.past_value) if name]
    is_known = (
        len(static) == 3 and static[0] == static[1] and all(g.info(name).rank == 4 for name in past)
    )
    return static if is_known else None


def _are_masks(g: GraphView, extra: ExtraOperands, queries: Dim, keys: Dim) -> bool:
    """Whether mask and padding, if any, are as long as the queries and keys."""
    mask = (g.try_infer_shape(extra.mask) or ()) if extra.mask else (1, 1, queries, keys)
    padding = (g.try_infer_shape(extra.padding) or ()) if extra.padding else (1, keys)
    if len(mask) != 4 or len(padding) != 2:
        return False
    return mask[2:] == (queries, keys) and padding[1] == keys
