from typing import Any

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._attention import is_safe_mask, number, with_hidden
from ._lowering import _Lowering


class AttentionToMultiHeadPattern(_Lowering):
    """Attention(q, k, v, mask) → com.microsoft.MultiHeadAttention(q, k, v, mask)

    What: uses the operator of ONNX Runtime, which splits the heads itself. If all keys of a query
    are masked, its result is 0 in Attention only: Where writes these zeros.
    Why: some of ONNX Runtime's providers, such as WebGPU, have a kernel of MultiHeadAttention only.
    Refuses when:
    1. the type is not float32 (checked by the matcher).
    2. q, k and v do not have three axes, or keys have fewer heads than queries.
    3. the mask is not a float32 tensor of the shape (batch or 1, heads or 1, queries, keys).
    4. the scores are capped, or are an output. Or the softmax has another precision.
    5. the attention is causal, but the numbers of queries and new keys may differ. Or there is a
       mask as well, or a mask for each head, which may hide all keys of a query.
    6. the scale is not positive.
    """

    after = {"LowerAttention": "its formula needs no contrib operator"}
    min_opset = 23
    produces = ("com.microsoft",)
    operand_types = {"q": frozenset((TensorProto.FLOAT,))}  # (1)
    derives = ("is_safe",)

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        mask: Optional,
        pk: Optional,
        pv: Optional,
    ) -> Symbol:
        return g.op.Attention(
            *(q, k, v, mask, pk, pv),
            outputs=g.variadic("results"),
            q_num_heads=g.capture("heads", optional=True),
            kv_num_heads=g.capture("shared", optional=True),
            scale=g.capture("scale", optional=True),
            is_causal=g.capture("causal", optional=True),
            softcap=g.any_of(None, 0.0),  # (4)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        shapes = [g.try_infer_shape(name) or () for name in (m.q, m.k, m.v)]
        if any(len(shape) != 3 for shape in shapes) or not m.heads or m.heads != m.shared:  # (2)
            return self.none(node, msg="an operand is not of rank 3, or keys have fewer heads")
        if any(m.results[3:]):  # (4)
            return self.none(node, msg="the scores are read as well")
        if m.causal == 1 and shapes[0][1] != shapes[1][1]:  # (5)
            return self.none(node, msg="there may be fewer queries than keys under a causal mask")
        past = (g.try_infer_shape(m.pk) or ()) if m.pk else (1, 1, 0, 1)
        if len(past) != 4:  # (2)
            return self.none(node, msg="the past keys have an unknown shape")
        full = (shapes[0][1], past[2] + shapes[1][1])
        mask = (g.try_infer_shape(m.mask) or ()) if m.mask else (1, 1, *full)
        is_float = not m.mask or g.try_infer_type(m.mask) == TensorProto.FLOAT
        fits = (
            len(mask) == 4
            and mask[2:] == full
            and mask[0] in (1, shapes[0][0])
            and mask[1] in (1, m.heads)
        )
        if not fits or not is_float:  # (3)
            return self.none(node, msg="the mask is not a float (batch, heads, queries, keys)")
        if not 0 < (1.0 if m.scale is None else m.scale) < 1e30:  # (6)
            return self.none(node, msg="the scale is not positive")
        is_safe = not m.mask or (is_safe_mask(g, m.mask) and m.causal != 1)
        if not is_safe and (m.causal == 1 or mask[1] != 1):  # (5)
            return self.none(node, msg="all keys of a query may be hidden")
        return m.derive(is_safe=is_safe)

    def apply_pattern(self, g: PatternRewriter, q: str, k: str, v: str, mask: str, **m: Any) -> Any:
        results = g.op.MultiHeadAttention(
            *(q, k, v, None, None, mask or None, m["pk"] or None, m["pv"] or None),
            domain="com.microsoft",
            outputs=len(m["results"]),
            num_heads=m["heads"],
            scale=m["scale"],
            unidirectional=m["causal"] if m["causal"] == 1 else None,
        )
        if m["is_safe"]:
            return results
        y, *cache = (results,) if isinstance(results, str) else results
        hidden = g.op.Squeeze(with_hidden(g, mask, TensorProto.FLOAT).hidden, axes=[1])
        return (g.op.Where(hidden, number(0, TensorProto.FLOAT), y), *cache)

    _start = "agraph (float[b,s,8] q, float[b,t,8] k, float[b,t,8] v"
    _square = _start.replace("s", "t")
    examples = Example.pairs(
        f"{_start}, float[1,1,s,t] m) => (float[b,s,8] y) "
        "{ y = Attention <q_num_heads = 2, kv_num_heads = 2, scale = 0.25> (q, k, v, m) }",
        "<int64[1] a = {-1}, float b = {-3.4028235e+38}, int64[1] c = {1}, float d = {0}> { "
        'e = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.25> (q, k, v, "", "", m) '
        "f = ReduceMax <keepdims = 1> (m, a) g = LessOrEqual(f, b) h = Squeeze(g, c) "
        "y = Where(h, d, e) }",
        f"{_square}, float[b,2,p,4] i, float[b,2,p,4] j) "
        "=> (float[b,t,8] y, float[b,2,u,4] kc, float[b,2,u,4] vc) { "
        "y, kc, vc = Attention <q_num_heads = 2, kv_num_heads = 2, is_causal = 1> (q, k, v, , i, "
        "j) }",
        "{ y, kc, vc = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = 1> (q, k,"
        ' v, "", "", "", i, j) }',
        opset=23,
    )
