from typing import Any

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._attention import ExtraOperands, multi_head
from ._lowering import ATTENTION_FLOATS, _Lowering


class LowerContribAttentionPattern(_Lowering):
    """com.microsoft.Attention(x, w, b, padding) → Softmax(q · scale · kᵀ + mask) · v with q, k, v =
    Split(x · w + b)

    What: computes queries, keys and values by one MatMul, and splits and merges their heads by
    Reshape and Transpose. Padding, and keys after a query, become numbers that are added to the
    scores. Padding of the shape (batch) is the number of keys that are read.
    Why: only ONNX Runtime's own providers run the operator.
    Refuses when:
    1. the types are not float32 or float16, or differ.
    2. the sizes of the weight, or of heads, are unknown, or the rank of x is not 3.
    3. the padding does not have the shape (batch, keys) or (batch). Or the added mask does not have
       the shape (batch, heads, queries, keys).
    4. heads are rotated, or the cache is a buffer of fixed length.
    """

    min_opset = 15
    operand_types = {"x": ATTENTION_FLOATS, "w": ATTENTION_FLOATS, "b": ATTENTION_FLOATS}  # (1)
    derives = ("widths",)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        w: Symbol,
        b: Symbol,
        padding: Optional,
        past: Optional,
        mask: Optional,
    ) -> Symbol:
        return g.op.Attention(
            *(x, w, b, padding, past, mask),
            domain="com.microsoft",
            outputs=g.variadic("results"),
            num_heads=g.capture("heads"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape = m.nodes[0], g.try_infer_shape(m.x) or ()
        if not self.has_types(g, m):  # (1)
            return self.none(node, msg="the types differ")
        if any(m.written.get(name) for name in ("do_rotary", "past_present_share_buffer")):  # (4)
            return self.none(node, msg="do_rotary or past_present_share_buffer is set")
        widths = _widths(g, m)
        if len(shape) != 3 or widths is None:  # (2)
            return self.none(node, msg="the head sizes are unknown")
        past = (
            (g.try_infer_shape(m.past) or ())
            if m.past
            else (2, shape[0], m.heads, 0, widths[0] // m.heads)
        )
        if len(past) != 5 or past[0] != 2:  # (2)
            return self.none(node, msg="the past keys and values have an unknown shape")
        keys = past[3] + shape[1]
        padding = g.try_infer_shape(m.padding) if m.padding else (shape[0], keys)
        if padding == (shape[0],):  # lengths, which become padding of the shape (batch, keys)
            padding = (shape[0], keys)
        name = m.get("mask")
        mask = (g.try_infer_shape(name) or ()) if name else (1, 1, shape[1], keys)
        if padding != (shape[0], keys) or len(mask) != 4 or mask[2:] != (shape[1], keys):  # (3)
            return self.none(
                node, msg="the padding mask or the attention bias has an unsupported shape"
            )
        return m.derive(widths=widths)

    def has_types(self, g: GraphView, m: Match) -> bool:
        """Whether the types of the operands fit together."""
        return len({g.try_infer_type(name) for name in (m.x, m.w, m.b, m.mask) if name}) == 1

    def projected(self, g: PatternRewriter, x: str, w: str, **m: Any) -> str:
        """The product of x and w, as floats."""
        return g.op.MatMul(x, w)

    def apply_pattern(
        self, g: PatternRewriter, x: str, w: str, b: str, widths: list[int], **m: Any
    ) -> Any:
        total = g.op.Add(self.projected(g, x, w, **m), b)
        packed = g.op.Split(total, split=widths, axis=-1, outputs=3)
        past = ["", ""]
        if m["past"]:
            past = [g.op.Gather(m["past"], np.array(place), axis=0) for place in (0, 1)]
        padding = m["padding"]
        if padding and g.has_rank(padding) and g.get_rank(padding) == 1:
            padding = _padding(g, padding, x, m["past"])
        extra = ExtraOperands("", padding, m.get("mask", ""), *past)
        y, k, v = multi_head(g, packed, extra, m["heads"], widths, m["written"])
        if len(m["results"]) < 2:
            return y
        return y, g.op.Concat(g.op.Unsqueeze(k, axes=[0]), g.op.Unsqueeze(v, axes=[0]), axis=0)

    _start = "agraph (float[b,s,4] x, float[4,24] w, float[24] c"
    examples = Example.pairs(
        f"{_start}, int32[b,s] p) => (float[b,s,8] y) {{ "
        "y = com.microsoft.Attention <num_heads = 2> (x, w, c, p) }",
        "<int64[3] a = {8, 8, 8}, int64[4] b = {0, 0, 2, 4}, float d = {0.5}, int32 e = {0}, float "
        "f = {0}, float g = {-10000}, int64[2] h = {1, 2}, int64[3] i = {0, 0, 8}> { j = MatMul(x, "
        "w) k = Add(j, c) l, m, n = Split <axis = -1> (k, a) o = Reshape(l, b) q = Transpose <perm "
        "= [0, 2, 1, 3]> (o) r = Reshape(m, b) s = Transpose <perm = [0, 2, 1, 3]> (r) t = "
        "Reshape(n, b) u = Transpose <perm = [0, 2, 1, 3]> (t) v = Mul(q, d) z = Transpose <perm = "
        "[0, 1, 3, 2]> (s) a1 = MatMul(v, z) b1 = Greater(p, e) c1 = Where(b1, f, g) d1 = "
        "Unsqueeze(c1, h) e1 = Add(a1, d1) f1 = Softmax <axis = -1> (e1) g1 = MatMul(f1, u) h1 = "
        "Transpose <perm = [0, 2, 1, 3]> (g1) y = Reshape(h1, i) }",
        f"{_start}, float[2,b,2,p,4] i) => (float[b,s,8] y, float[2,b,2,u,4] z) "
        "{ y, z = com.microsoft.Attention <num_heads = 2, unidirectional = 1> (x, w, c, , i) }",
        "<int64[3] a = {8, 8, 8}, int64 b = {0}, int64 d = {1}, int64[4] e = {0, 0, 2, 4}, "
        "int64[1] f = {0}, int64[1] g = {1}, float h = {0.5}, float j = {0}, float k = "
        "{-3.4028235e+38}, int64[3] l = {0, 0, 8}> { m = MatMul(x, w) n = Add(m, c) o, p, q = "
        "Split <axis = -1> (n, a) r = Gather <axis = 0> (i, b) s = Gather <axis = 0> (i, d) t = "
        "Reshape(o, e) u = Transpose <perm = [0, 2, 1, 3]> (t) v = Reshape(p, e) a1 = Transpose "
        "<perm = [0, 2, 1, 3]> (v) b1 = Reshape(q, e) c1 = Transpose <perm = [0, 2, 1, 3]> (b1) d1 "
        "= Concat <axis = 2> (r, a1) e1 = Concat <axis = 2> (s, c1) f1 = Shape <start = 2, end = "
        "3> (r) g1 = Squeeze(f1, f) h1 = Shape <start = 2, end = 3> (u) i1 = Squeeze(h1, f) j1 = "
        "Add(g1, i1) k1 = Range(g1, j1, d) l1 = Range(b, j1, d) m1 = Unsqueeze(k1, g) n1 = "
        "LessOrEqual(l1, m1) o1 = Mul(u, h) p1 = Transpose <perm = [0, 1, 3, 2]> (d1) q1 = "
        "MatMul(o1, p1) r1 = Where(n1, j, k) s1 = Add(q1, r1) t1 = Softmax <axis = -1> (s1) u1 = "
        "MatMul(t1, e1) v1 = Transpose <perm = [0, 2, 1, 3]> (u1) y = Reshape(v1, l) w1 = "
        "Unsqueeze(d1, f) x1 = Unsqueeze(e1, f) z = Concat <axis = 0> (w1, x1) }",
        f"{_start}, float[1,2,s,s] m) => (float[b,s,8] y) {{ "
        "y = com.microsoft.Attention <num_heads = 2, qkv_hidden_sizes = [8, 8, 8], "
        "scale = 0.25> (x, w, c, , , m) }",
        "<int64[3] a = {8, 8, 8}, int64[4] b = {0, 0, 2, 4}, float d = {0.25}, "
        "int64[3] h = {0, 0, 8}> { i = MatMul(x, w) j = "
        "Add(i, c) k, l, n = Split <axis = -1> (j, a) o = Reshape(k, b) p = Transpose <perm = [0, "
        "2, 1, 3]> (o) q = Reshape(l, b) r = Transpose <perm = [0, 2, 1, 3]> (q) s = Reshape(n, b) "
        "t = Transpose <perm = [0, 2, 1, 3]> (s) u = Mul(p, d) v = Transpose <perm = [0, 1, 3, 2]> "
        "(r) z = MatMul(u, v) c1 = Add(z, m) d1 = Softmax <axis = -1> (c1) f1 = MatMul(d1, t) g1 = "
        "Transpose <perm = [0, 2, 1, 3]> (f1) y = Reshape(g1, h) }",
    )


def _padding(g: PatternRewriter, lengths: str, x: str, past: str) -> str:
    """The padding (batch, keys) of sequences with ``lengths``: 1 for a key that is read, else 0."""
    count = g.op.Squeeze(g.op.Shape(x, start=1, end=2), axes=[0])
    if past:
        count = g.op.Add(g.op.Squeeze(g.op.Shape(past, start=3, end=4), axes=[0]), count)
    places = g.op.Cast(g.op.Range(np.array(0), count, np.array(1)), to=TensorProto.INT32)
    is_read = g.op.Less(places, g.op.Unsqueeze(lengths, axes=[1]))
    return g.op.Cast(is_read, to=TensorProto.INT32)


def _widths(g: GraphView, m: Match) -> list[int] | None:
    """The number of features in all heads of queries, of keys, and of values.

    ``None`` if a number is unknown.
    """
    total = (g.try_infer_shape(m.w) or ())[-1:]
    if g.info(m.w).rank != 2 or g.info(m.b).rank != 1 or not total or not isinstance(total[0], int):
        return None
    widths = [int(width) for width in m.written.get("qkv_hidden_sizes", ())] or [total[0] // 3] * 3
    is_right = len(widths) == 3 and sum(widths) == total[0] and widths[0] == widths[1]
    if not is_right or m.heads < 1:
        return None
    return widths if all(width > 0 and width % m.heads == 0 for width in widths) else None
