import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol, Variadic

from ._attention import SWAPPED, capped, merged_heads, number, repeated_heads, scores_of
from ._lowering import ATTENTION_FLOATS, _Lowering
from ._rotation import halves_rotated, pairs_rotated

_NUMBERS: Final = ("num_heads", "kv_num_heads", "scale", "softcap", "local_window_size")
_VALUES: Final = {
    "smooth_softmax": (0, -1),
    "qk_output": (0,),
    "do_rotary": (0, 1),
    "rotary_interleaved": (0, 1),
}
"""The values of attributes for which the pattern can write the formula."""
_MIN_OPERANDS: Final = 6
"""Minimum number of operands after the queries."""


class _Inputs(NamedTuple):
    """The operands after the queries. An absent operand is empty."""

    k: str
    v: str
    past_key: str
    past_value: str
    last: str
    total: str
    cos: str = ""
    sin: str = ""
    positions: str = ""
    bias: str = ""
    sink: str = ""


class _Sizes(NamedTuple):
    """The numbers of query heads, key and value heads, features of a head, and rotated features."""

    heads: int
    groups: int
    size: int
    rotated: int


class LowerGroupQueryAttentionPattern(_Lowering):
    """com.microsoft.GroupQueryAttention(q, k, v, past, n, total) → Softmax(q · scale · kᵀ + mask) ·
    v

    What: joins earlier and new keys and values by Concat. For each row of the batch, GatherND puts
    the new keys behind the valid earlier keys. There are n + 1 valid keys in all, followed by
    zeros. A query sees the keys up to its own position, or with a window only the last ones.
    Rotary embeddings are applied at the positions of the new keys. A sink of each head becomes one
    more score, whose weight is dropped.
    Why: only ONNX Runtime's own providers run the operator.
    Refuses when:
    1. the types are not float32 or float16, or differ.
    2. the sizes of heads are unknown, or keys and values are neither both operands nor both in q.
    3. positions, a bias or further operands are present, or the scores are a result. Or an
       attribute or its value is not supported.
    4. cos_cache or sin_cache is missing or of unknown shape, or is present without `do_rotary`. Or
       only a part of interleaved features is rotated.
    """

    min_opset = 15
    exactness = "finite"  # for a row with NaN, kernels return 0 or NaN, by the number of keys
    operand_types = {"q": ATTENTION_FLOATS}  # (1)
    derives = ("sizes", "inputs")

    def match_pattern(self, g: PatternBuilder, q: Symbol, others: Variadic) -> Symbol:
        return g.op.GroupQueryAttention(
            *(q, others),
            domain="com.microsoft",
            outputs=g.variadic("results"),
            num_heads=g.capture("heads"),
            kv_num_heads=g.capture("groups"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        if not _MIN_OPERANDS <= len(m.others) <= len(_Inputs._fields):  # (3)
            return self.none(node, msg="an unsupported optional input is given")
        inputs = _Inputs(*m.others)
        if inputs.positions or inputs.bias:  # (3)
            return self.none(node, msg="an unsupported optional input is given")
        optional = (inputs.cos, inputs.sin, inputs.sink)
        floats = [name for name in (m.q, *inputs[:4], *optional) if name]
        if len({g.try_infer_type(name) for name in floats}) > 1:  # (1)
            return self.none(node, msg="the types differ")
        if any(m.results[3:]):  # (3)
            return self.none(node, msg="the scores are read as well")
        if not _can_write_out(m.written):  # (3)
            return self.none(node, msg="an attribute is unknown, or has an unsupported value")
        pairs = (
            (inputs.k, inputs.v),
            (inputs.past_key, inputs.past_value),
            (inputs.cos, inputs.sin),
        )
        if any(bool(first) is not bool(second) for first, second in pairs):  # (2)
            return self.none(
                node, msg="only one of keys and values, or of cos_cache and sin_cache, is given"
            )
        sizes = _sizes(g, m, inputs)
        if sizes is None:  # (2)
            return self.none(node, msg="the head sizes are unknown")
        is_part = bool(m.written.get("rotary_interleaved")) and sizes.rotated not in (0, sizes.size)
        if is_part or bool(sizes.rotated) is not bool(m.written.get("do_rotary")):  # (4)
            return self.none(
                node,
                msg=("cos_cache or sin_cache is missing, or a partial rotation is interleaved"),
            )
        return m.derive(sizes=sizes, inputs=inputs)

    def apply_pattern(
        self, g: PatternRewriter, q: str, sizes: _Sizes, inputs: _Inputs, **m: Any
    ) -> Any:
        written, dtype = m["written"], g.info(q).dtype
        k, v = inputs.k, inputs.v
        if not k:
            widths = [count * sizes.size for count in (sizes.heads, sizes.groups, sizes.groups)]
            q, k, v = g.op.Split(q, split=widths, axis=-1, outputs=3)
        pairs = ((q, sizes.heads), (k, sizes.groups), (v, sizes.groups))
        q, k, v = (g.op.Reshape(x, np.array([0, 0, count, sizes.size])) for x, count in pairs)
        rows = _Rows(g, q, inputs)
        if sizes.rotated:
            angles = [
                g.op.Gather(table, rows.positions, axis=0) for table in (inputs.cos, inputs.sin)
            ]
            is_paired = bool(written.get("rotary_interleaved"))
            q = _rotated(g, q, angles, sizes.heads, sizes, is_paired=is_paired)
            k = _rotated(g, k, angles, sizes.groups, sizes, is_paired=is_paired)
        if inputs.past_key:
            k = rows.joined(inputs.past_key, k, dtype)
            v = rows.joined(inputs.past_value, v, dtype)
        queries, keys, values = (g.op.Transpose(x, perm=SWAPPED) for x in (q, k, v))
        wide = [repeated_heads(g, x, sizes.groups, sizes.heads) for x in (keys, values)]
        scores = scores_of(g, queries, wide[0], written.get("scale", 0.0) or sizes.size**-0.5)
        scores = capped(g, scores, max(written.get("softcap", 0.0), 0.0))
        visible = rows.visible(written.get("local_window_size", -1))
        # Scores may be infinite, also the scores of hidden keys, and a window may have no key.
        scores = g.op.Where(visible, scores, number(-math.inf, dtype))
        weights = _with_sink(g, scores, inputs.sink, sizes.heads)
        y = g.op.MatMul(g.op.Where(visible, weights, number(0, dtype)), wide[1])
        return (merged_heads(g, y, sizes.heads * sizes.size), keys, values)[: len(m["results"])]

    examples = (
        Example(
            "agraph (float[b,3,16] q, float[b,3,8] k, float[b,3,8] v, int32[b] n) "
            "=> (float[b,3,16] y) <int32 t = {3}> { "
            "y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, k, v, , "
            ", n, t) }",
            "<int64[4] a = {0, 0, 2, 8}, int64[4] b = {0, 0, 1, 8}, int64[2] c = {0, 0}, "
            "float d = {0.35355338}, int64[3] e = {1, 2, 3}, float f = {-inf}, float "
            "g = {0}, int64[3] h = {0, 0, 16}, int64[3] i = {0, 1, 2}, int64[1,1,3,1] "
            "j = {0, 1, 2}> { l = Reshape(q, a) m = Reshape(k, b) o = Reshape(v, b) "
            "p = Cast <to = 7> (n) r = Transpose <perm = [0, 2, 1, 3]> (l) "
            "s = Transpose <perm = [0, 2, 1, 3]> (m) t = Transpose <perm = [0, 2, 1, 3]> (o) "
            "u = Gather <axis = 1> (s, c) w = Gather <axis = 1> (t, c) x = Mul(r, d) "
            "z = Transpose <perm = [0, 1, 3, 2]> (u) a1 = MatMul(x, z) b1 = Unsqueeze(p, e) "
            "c1 = Min(j, b1) d1 = LessOrEqual(i, c1) e1 = Where(d1, a1, f) "
            "f1 = Softmax <axis = -1> (e1) g1 = Where(d1, f1, g) h1 = MatMul(g1, w) "
            "i1 = Transpose <perm = [0, 2, 1, 3]> (h1) y = Reshape(i1, h) }",
            ranges=(("n", 0, 2),),
        ),
        Example(
            "agraph (float[b,1,64] q, float[b,1,3,16] i, float[b,1,3,16] j, int32[b] n, "
            "float[9,8] c, float[9,8] s) "
            "=> (float[b,1,32] y, float[b,1,u,16] kc, float[b,1,u,16] vc) <int32 t = {4}> { "
            "y, kc, vc = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1, "
            "do_rotary = 1> (q, , , i, j, n, t, c, s) }",
            "<int64[3] a = {32, 16, 16}, int64[4] b = {0, 0, 2, 16}, int64[4] d = {0, 0, 1, 16}, "
            "int64[1] e = {0}, int64 f = {0}, int64 g = {1}, int64[1] h = {1}, int64[1] "
            "k = {2}, int64[2] l = {8, 8}, int64[2] m = {2, 3}, float o = {0}, int64[2] "
            "p = {0, 0}, float r = {0.25}, int64[2] t = {1, 3}, int64[3] u = {1, 2, 3}, float "
            "v = {-inf}, int64[3] w = {0, 0, 32}, int64 x = {3}, bool z = {0}, int64[4] "
            "a1 = {0, 1, 2, 3}> { b1, c1, d1 = Split <axis = -1> (q, a) e1 = Reshape(b1, b) "
            "f1 = Reshape(c1, d) g1 = Reshape(d1, d) h1 = Cast <to = 7> (n) i1 = Add(h1, g) "
            "j1 = Sub(i1, g) k1 = Where(z, f, j1) l1 = Unsqueeze(k1, h) m1 = Add(l1, e) "
            "n1 = Gather <axis = 0> (c, m1) o1 = Gather <axis = 0> (s, m1) p1 = Unsqueeze(n1, k) "
            "q1 = Unsqueeze(o1, k) r1, s1 = Split <axis = -1> (e1, l) t1 = Mul(r1, p1) "
            "u1 = Mul(s1, q1) v1 = Sub(t1, u1) w1 = Mul(r1, q1) x1 = Mul(s1, p1) y1 = Add(w1, x1) "
            "z1 = Concat <axis = -1> (v1, y1) a2, b2 = Split <axis = -1> (f1, l) c2 = Mul(a2, p1) "
            "d2 = Mul(b2, q1) e2 = Sub(c2, d2) f2 = Mul(a2, q1) g2 = Mul(b2, p1) h2 = Add(f2, g2) "
            "i2 = Concat <axis = -1> (e2, h2) j2 = Transpose <perm = [0, 2, 1, 3]> (i) "
            "k2 = Concat <axis = 1> (j2, i2) l2 = Sub(a1, l1) m2 = Min(l2, f) n2 = Add(m2, x) "
            "o2 = Less(l2, f) p2 = Where(o2, a1, n2) q2 = Unsqueeze(p2, k) "
            "r2 = GatherND <batch_dims = 1> (k2, q2) s2 = LessOrEqual(l2, f) "
            "t2 = Unsqueeze(s2, m) u2 = Where(t2, r2, o) v2 = Transpose <perm = [0, 2, 1, 3]> (j) "
            "w2 = Concat <axis = 1> (v2, g1) x2 = GatherND <batch_dims = 1> (w2, q2) "
            "y2 = Where(t2, x2, o) z2 = Transpose <perm = [0, 2, 1, 3]> (z1) "
            "kc = Transpose <perm = [0, 2, 1, 3]> (u2) vc = Transpose <perm = [0, 2, 1, 3]> (y2) "
            "a3 = Gather <axis = 1> (kc, p) b3 = Gather <axis = 1> (vc, p) c3 = Mul(z2, r) "
            "d3 = Transpose <perm = [0, 1, 3, 2]> (a3) e3 = MatMul(c3, d3) f3 = Unsqueeze(m1, t) "
            "g3 = Unsqueeze(h1, u) h3 = Min(f3, g3) i3 = LessOrEqual(a1, h3) "
            "j3 = Where(i3, e3, v) k3 = Softmax <axis = -1> (j3) l3 = Where(i3, k3, o) "
            "m3 = MatMul(l3, b3) n3 = Transpose <perm = [0, 2, 1, 3]> (m3) y = Reshape(n3, w) }",
            ranges=(("n", 0, 3),),
        ),
        Example(
            "agraph (float[1,2,16] q, float[1,2,8] k, float[1,2,8] v, float[1,1,5,8] i, "
            "float[1,1,5,8] j, int32[1] n, int32 t) => (float[1,2,16] y, float[1,1,u,8] kc, "
            "float[1,1,u,8] vc) { y, kc, vc = com.microsoft.GroupQueryAttention <num_heads = 2, "
            "kv_num_heads = 1, local_window_size = 2, softcap = 0.5> (q, k, v, i, j, n, t) }",
            "<int64[4] a = {0, 0, 2, 8}, int64[4] b = {0, 0, 1, 8}, int64 c = {0}, int64 d = {1}, "
            "int64[0] e = {}, int64[1] f = {1}, int64[1] g = {2}, int64[2] h = {2, 3}, float "
            "l = {0}, int64[2] m = {0, 0}, float o = {0.35355338}, float p = {0.5}, int64[2] "
            "r = {1, 3}, int64[3] s = {1, 2, 3}, int64 u = {2}, float w = {-inf}, int64[3] "
            "x = {0, 0, 16}, int64[2] z = {0, 1}, int64 a1 = {5}> { b1 = Reshape(q, a) "
            "c1 = Reshape(k, b) d1 = Reshape(v, b) e1 = Cast <to = 7> (n) f1 = Cast <to = 7> (t) "
            "g1 = Reshape(f1, e) h1 = Equal(g1, u) i1 = Add(e1, d) j1 = Sub(i1, u) "
            "k1 = Where(h1, c, j1) l1 = Unsqueeze(k1, f) m1 = Max(a1, g1) n1 = Range(c, m1, d) "
            "o1 = Add(l1, z) p1 = Transpose <perm = [0, 2, 1, 3]> (i) "
            "q1 = Concat <axis = 1> (p1, c1) r1 = Sub(n1, l1) s1 = Min(r1, d) t1 = Add(s1, a1) "
            "u1 = Less(r1, c) v1 = Where(u1, n1, t1) w1 = Unsqueeze(v1, g) "
            "x1 = GatherND <batch_dims = 1> (q1, w1) y1 = LessOrEqual(r1, d) "
            "z1 = Unsqueeze(y1, h) a2 = Where(z1, x1, l) b2 = Transpose <perm = [0, 2, 1, 3]> (j) "
            "c2 = Concat <axis = 1> (b2, d1) d2 = GatherND <batch_dims = 1> (c2, w1) "
            "e2 = Where(z1, d2, l) f2 = Transpose <perm = [0, 2, 1, 3]> (b1) "
            "kc = Transpose <perm = [0, 2, 1, 3]> (a2) vc = Transpose <perm = [0, 2, 1, 3]> (e2) "
            "g2 = Gather <axis = 1> (kc, m) h2 = Gather <axis = 1> (vc, m) i2 = Mul(f2, o) "
            "j2 = Transpose <perm = [0, 1, 3, 2]> (g2) k2 = MatMul(i2, j2) l2 = Div(k2, p) "
            "m2 = Tanh(l2) n2 = Mul(m2, p) o2 = Unsqueeze(o1, r) p2 = Unsqueeze(e1, s) "
            "q2 = Min(o2, p2) r2 = LessOrEqual(n1, q2) s2 = Sub(o2, u) t2 = Greater(n1, s2) "
            "u2 = And(r2, t2) v2 = Where(u2, n2, w) w2 = Softmax <axis = -1> (v2) "
            "x2 = Where(u2, w2, l) y2 = MatMul(x2, h2) z2 = Transpose <perm = [0, 2, 1, 3]> (y2) "
            "y = Reshape(z2, x) }",
            ranges=(
                ("n", 1, 3),
                ("t", 4, 5),
            ),
        ),
        Example(
            "agraph (float[b,3,32] q, float[b,3,16] k, float[b,3,16] v, int32[b] n, float[9,8] c, "
            "float[9,8] s) => (float[b,3,32] y) <int32 t = {3}> { y = "
            "com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1, do_rotary = 1, "
            "rotary_interleaved = 1> (q, k, v, , , n, t, c, s) }",
            "<int64[4] a = {0, 0, 2, 16}, int64[4] b = {0, 0, 1, 16}, int64[2] d = {2, 4}, "
            "int64[5] e = {0, 0, 2, 8, 2}, int64[2] f = {1, 1}, int64[5] "
            "g = {0, 0, 1, 8, 2}, int64[2] h = {0, 0}, float i = {0.25}, int64[3] "
            "j = {1, 2, 3}, float l = {-inf}, float m = {0}, int64[3] o = {0, 0, 32}, int64[3] "
            "p = {0, 1, 2}, int64[1,3] r = {0, 1, 2}, int64[1,1,3,1] t = {0, 1, 2}> { "
            "u = Reshape(q, a) w = Reshape(k, b) x = Reshape(v, b) z = Cast <to = 7> (n) "
            "a1 = Gather <axis = 0> (c, r) b1 = Gather <axis = 0> (s, r) c1 = Unsqueeze(a1, d) "
            "d1 = Unsqueeze(b1, d) e1 = Reshape(u, e) f1, g1 = Split <axis = -1> (e1, f) "
            "h1 = Mul(f1, c1) i1 = Mul(g1, d1) j1 = Sub(h1, i1) k1 = Mul(f1, d1) l1 = Mul(g1, c1) "
            "m1 = Add(k1, l1) n1 = Concat <axis = -1> (j1, m1) o1 = Reshape(n1, a) "
            "p1 = Reshape(w, g) q1, r1 = Split <axis = -1> (p1, f) s1 = Mul(q1, c1) "
            "t1 = Mul(r1, d1) u1 = Sub(s1, t1) v1 = Mul(q1, d1) w1 = Mul(r1, c1) x1 = Add(v1, w1) "
            "y1 = Concat <axis = -1> (u1, x1) z1 = Reshape(y1, b) "
            "a2 = Transpose <perm = [0, 2, 1, 3]> (o1) b2 = Transpose <perm = [0, 2, 1, 3]> (z1) "
            "c2 = Transpose <perm = [0, 2, 1, 3]> (x) d2 = Gather <axis = 1> (b2, h) "
            "e2 = Gather <axis = 1> (c2, h) f2 = Mul(a2, i) "
            "g2 = Transpose <perm = [0, 1, 3, 2]> (d2) h2 = MatMul(f2, g2) i2 = Unsqueeze(z, j) "
            "j2 = Min(t, i2) k2 = LessOrEqual(p, j2) l2 = Where(k2, h2, l) "
            "m2 = Softmax <axis = -1> (l2) n2 = Where(k2, m2, m) o2 = MatMul(n2, e2) "
            "p2 = Transpose <perm = [0, 2, 1, 3]> (o2) y = Reshape(p2, o) }",
            ranges=(("n", 0, 2),),
        ),
        Example(
            "agraph (float[b,3,16] q, float[b,3,16] k, float[b,3,16] v, int32[b] n, float[2] h) "
            "=> (float[b,3,16] y) <int32 t = {3}> { "
            "y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2> (q, k, v, , "
            ", n, t, , , , , h) }",
            "<int64[3] a = {1, 2, 3}, int64[1,1,3,1] o = {0, 1, 2}, int64[3] u = {0, 1, 2}, "
            "int64[4] s = {0, 0, 2, 8}, float e = {0.35355338}, float l = {-inf}, "
            "int64[4] c = {1, 2, 1, 1}, int64[1] i = {1}, int64[1] z = {0}, int64[1] m = {-1}, "
            "int64[1] p = {3}, float r = {0}, int64[3] w = {0, 0, 16}> { "
            "a1 = Cast <to = 7> (n) b1 = Unsqueeze(a1, a) c1 = Min(o, b1) "
            "d1 = LessOrEqual(u, c1) e1 = Reshape(q, s) f1 = Reshape(k, s) g1 = Reshape(v, s) "
            "h1 = Transpose <perm = [0, 2, 1, 3]> (e1) i1 = Transpose <perm = [0, 2, 1, 3]> (f1) "
            "j1 = Transpose <perm = [0, 2, 1, 3]> (g1) k1 = Mul(h1, e) "
            "l1 = Transpose <perm = [0, 1, 3, 2]> (i1) m1 = MatMul(k1, l1) "
            "n1 = Where(d1, m1, l) o1 = Reshape(h, c) p1 = Shape <end = 3> (n1) "
            "q1 = Concat <axis = 0> (p1, i) r1 = Expand(o1, q1) "
            "s1 = Concat <axis = -1> (n1, r1) t1 = Softmax <axis = -1> (s1) "
            "u1 = Slice(t1, z, m, p) v1 = Where(d1, u1, r) w1 = MatMul(v1, j1) "
            "x1 = Transpose <perm = [0, 2, 1, 3]> (w1) y = Reshape(x1, w) }",
            ranges=(("n", 0, 2),),
        ),
    )


class _Rows:
    """The positions of keys and queries in each row of the batch, as 64-bit integers."""

    def __init__(self, g: PatternRewriter, q: str, inputs: _Inputs) -> None:
        self._g = g
        count = g.op.Shape(q, start=1, end=2)
        self._new = g.op.Squeeze(count, axes=[0])
        zero, one = np.array(0), np.array(1)
        self._numbers = g.op.Range(zero, self._new, one)  # indices of the new keys
        last = (
            inputs.last
            if g.info(inputs.last).rank == 1
            else g.op.Reshape(inputs.last, np.array([-1]))
        )
        self._last = g.op.Cast(last, to=TensorProto.INT64)
        if not inputs.past_key:  # all keys are new
            self._all = self._numbers
            self.positions = g.op.Unsqueeze(self._numbers, axes=[0])
            """The positions of the queries, (batch or 1, queries)."""
            return
        self._length = g.op.Squeeze(g.op.Shape(inputs.past_key, start=2, end=3), axes=[0])
        total = g.op.Reshape(g.op.Cast(inputs.total, to=TensorProto.INT64), np.array([], np.int64))
        is_first = g.op.Equal(total, self._new)
        earlier = g.op.Sub(g.op.Add(self._last, one), self._new)
        self._before = g.op.Unsqueeze(g.op.Where(is_first, zero, earlier), axes=[1])  # (batch, 1)
        self._all = g.op.Range(zero, g.op.Max(self._length, total), one)

        self.positions = g.op.Add(self._before, self._numbers)

    def joined(self, past: str, new: str, dtype: int) -> str:
        """The earlier keys or values, the new ones, then zeros: (batch, keys, heads, features)."""
        g = self._g
        all_rows = g.op.Concat(g.op.Transpose(past, perm=SWAPPED), new, axis=1)
        place = g.op.Sub(self._all, self._before)
        end = g.op.Sub(self._new, np.array(1))
        new_places = g.op.Add(g.op.Min(place, end), self._length)
        places = g.op.Where(g.op.Less(place, np.array(0)), self._all, new_places)
        rows = g.op.GatherND(all_rows, g.op.Unsqueeze(places, axes=[2]), batch_dims=1)
        is_there = g.op.Unsqueeze(g.op.LessOrEqual(place, end), axes=[2, 3])
        return g.op.Where(is_there, rows, number(0, dtype))

    def visible(self, window: int) -> str:
        """Whether a query sees a key, of shape (batch, 1, queries, keys).

        A query sees the keys up to its own position and up to n, or with a window the last of
        these keys only.
        """
        g = self._g
        own = g.op.Unsqueeze(self.positions, axes=[1, 3])
        last = g.op.Min(own, g.op.Unsqueeze(self._last, axes=[1, 2, 3]))
        visible = g.op.LessOrEqual(self._all, last)
        if window > 0:
            visible = g.op.And(visible, g.op.Greater(self._all, g.op.Sub(own, np.array(window))))
        return str(visible)


def _with_sink(g: PatternRewriter, scores: str, sink: str, heads: int) -> str:
    """The weights for scores (batch, heads, queries, keys). Each head may have a sink."""
    if not sink:
        return str(g.op.Softmax(scores, axis=-1))
    column = g.op.Reshape(sink, np.array([1, heads, 1, 1]))
    shape = g.op.Concat(g.op.Shape(scores, end=3), np.array([1]), axis=0)
    extended = g.op.Concat(scores, g.op.Expand(column, shape), axis=-1)
    weights = g.op.Softmax(extended, axis=-1)
    return str(g.op.Slice(weights, np.array([0]), np.array([-1]), np.array([3])))


def _can_write_out(written: Mapping[str, Any]) -> bool:
    """Whether all attributes are known, and have values for which the nodes can be written."""
    window = written.get("local_window_size", -1)
    if window < 1 and window != -1:
        return False
    if not math.isfinite(written.get("softcap", 0.0)):
        return False
    names = written.keys() - set(_NUMBERS)
    return all(written[name] in _VALUES.get(name, ()) for name in names)


def _sizes(g: GraphView, m: Match, inputs: _Inputs) -> _Sizes | None:
    shape = g.try_infer_shape(m.q) or ()
    table = (g.try_infer_shape(inputs.cos) or ()) if inputs.cos else (0, 0)
    heads = m.heads if inputs.k else m.heads + 2 * m.groups
    if (
        len(shape) != 3
        or not isinstance(shape[2], int)
        or heads <= 0
        or shape[2] % heads
        or not shape[2]
    ):
        return None
    if len(table) != 2 or not isinstance(table[1], int) or m.groups <= 0 or m.heads % m.groups:
        return None
    if inputs.sin and g.try_infer_shape(inputs.sin) != table:
        return None
    rotated = 2 * table[1]
    return (
        _Sizes(m.heads, m.groups, shape[2] // heads, rotated)
        if rotated <= shape[2] // heads
        else None
    )


def _rotated(
    g: PatternRewriter, x: str, angles: Sequence[str], heads: int, sizes: _Sizes, *, is_paired: bool
) -> str:
    """Heads, (batch, length, heads, features), after their rotation.

    The angles are (batch or 1, length, rotated / 2).
    """
    cos, sin = (g.op.Unsqueeze(angle, axes=[2, 4] if is_paired else [2]) for angle in angles)
    if not is_paired:
        return halves_rotated(g, x, cos, sin, [sizes.rotated, sizes.size - sizes.rotated])
    pairs = g.op.Reshape(x, np.array([0, 0, heads, sizes.size // 2, 2]))
    return str(g.op.Reshape(pairs_rotated(g, pairs, cos, sin), np.array([0, 0, heads, sizes.size])))
