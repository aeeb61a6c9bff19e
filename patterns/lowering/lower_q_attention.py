from typing import Any, Final

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol

from ._q_linear import symbols
from .lower_contrib_attention import LowerContribAttentionPattern

_INTEGERS: Final = frozenset((TensorProto.UINT8, TensorProto.INT8))


class LowerQAttentionPattern(LowerContribAttentionPattern):
    """com.microsoft.QAttention(x, w, b, x_scale, w_scale) → Softmax(q · scale · kᵀ) · v with q,
    k, v = Split(MatMulInteger(x, w) · x_scale · w_scale + b)

    What: computes queries, keys and values by one MatMulInteger, and the attention as
    `LowerContribAttention` does.
    Why: only ONNX Runtime's own providers run the operator. ONNX Runtime's quantizer writes the
    operator for BERT.
    Refuses when:
    1. x is not uint8, w is not int8 or uint8, or the biases and scales are not float32.
    2. the sizes of the weight, of its scale, or of heads, are unknown, or the rank of x is not 3.
    3. the padding does not have the shape (batch, keys) or (batch).
    4. heads are rotated, or the cache is a buffer of fixed length.
    """

    operand_types = {
        "x": frozenset((TensorProto.UINT8,)),
        "w": _INTEGERS,
        "b": frozenset((TensorProto.FLOAT,)),
        "x_scale": frozenset((TensorProto.FLOAT,)),
        "w_scale": frozenset((TensorProto.FLOAT,)),
    }  # (1)
    operand_ranks = {"x_scale": 0}

    def match_pattern(self, g: PatternBuilder) -> Symbol:  # type: ignore[override]
        optional = "padding x_zero w_zero past"
        return g.op.QAttention(
            *symbols(g, f"x w b x_scale w_scale {optional}", optional=optional),
            domain="com.microsoft",
            outputs=g.variadic("results"),
            num_heads=g.capture("heads"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank, shape = g.info(m.w_scale).rank, g.try_infer_shape(m.x) or (0,)
        if rank not in (0, 1) or shape[-1] == 0:  # (2)
            return self.none(m.nodes[0], msg="the shape of the scale or of x is unknown, or empty")
        return super().validate_mapping(g, m)

    def has_types(self, g: GraphView, m: Match) -> bool:
        return True  # the matcher has checked them

    def projected(self, g: PatternRewriter, x: str, w: str, **m: Any) -> str:
        product = g.op.MatMulInteger(x, w, m["x_zero"] or None, m["w_zero"] or None)
        scale = g.op.Mul(m["x_scale"], m["w_scale"])
        return g.op.Mul(g.op.Cast(product, to=TensorProto.FLOAT), scale)

    _start = (
        "agraph (uint8[b,s,4] x, int8[4,24] w, float[24] c, float d, float e, int32[b,s] p, "
        "uint8 k, int8 n"
    )
    examples = Example.only(
        f"{_start}) => (float[b,s,8] y) {{ y = com.microsoft.QAttention <num_heads = 2> "
        "(x, w, c, d, e, p, k, n) }",
        "<int64[3] a = {8, 8, 8}, int64[4] b = {0, 0, 2, 4}, float h = {0.5}, int32 i = {0}, float "
        "f = {0}, float g = {-10000}, int64[2] j = {1, 2}, int64[3] l = {0, 0, 8}> { "
        "m1 = MatMulInteger(x, w, k, n) m2 = Mul(d, e) m3 = Cast <to = 1> (m1) m4 = Mul(m3, m2) "
        "m5 = Add(m4, c) q1, k1, v1 = Split <axis = -1> (m5, a) q2 = Reshape(q1, b) "
        "q3 = Transpose <perm = [0, 2, 1, 3]> (q2) k2 = Reshape(k1, b) "
        "k3 = Transpose <perm = [0, 2, 1, 3]> (k2) v2 = Reshape(v1, b) "
        "v3 = Transpose <perm = [0, 2, 1, 3]> (v2) q4 = Mul(q3, h) "
        "k4 = Transpose <perm = [0, 1, 3, 2]> (k3) s1 = MatMul(q4, k4) p1 = Greater(p, i) "
        "p2 = Where(p1, f, g) p3 = Unsqueeze(p2, j) s2 = Add(s1, p3) s3 = Softmax <axis = -1> (s2) "
        "o1 = MatMul(s3, v3) o2 = Transpose <perm = [0, 2, 1, 3]> (o1) y = Reshape(o2, l) }",
        ranges=(("d", 0.01, 0.02), ("e", 0.01, 0.02), ("p", 0, 1), ("n", 0, 3)),
    )
