from typing import Any

from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
    Variadic,
)


class MatMulGroupQueryAttentionPattern(EasyPatternOptimization):
    """com.microsoft.GroupQueryAttention(MatMul(x, wq), MatMul(x, wk), MatMul(x, wv), ...) →
    com.microsoft.GroupQueryAttention(MatMul(x, Concat(wq, wk, wv)), ...)

    What: one MatMul computes queries, keys and values, which the operator splits itself. The biases
    are concatenated like the weights.
    Why: two nodes fewer per layer. With quantized weights, one MatMulNBits quantizes x once instead
    of three times.
    Refuses when:
    1. a weight is not a constant matrix, or a bias is not a constant vector with a number for each
       column of the weight.
    2. another node reads a weight, which would then be stored twice.
    """

    phase = "target"
    priority = 21
    exactness = "rounding"
    min_opset = 13
    tags = ("onnxruntime", "genai", "extra")
    operand_ranks = {"wq": 2, "wk": 2, "wv": 2, "bq": 1, "bk": 1, "bv": 1}  # (1)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        wq: Constant,
        wk: Constant,
        wv: Constant,
        others: Variadic,
    ) -> tuple[Symbol, ...]:
        parts = [g.op.MatMul(x, weight) for weight in (wq, wk, wv)]
        if g.option("biased"):
            biases = [g.constant(name) for name in ("bq", "bk", "bv")]
            parts = [g.op.Add(part, bias) for part, bias in zip(parts, biases, strict=True)]
        outputs: tuple[Symbol, ...] = g.op.GroupQueryAttention(
            *(*parts, others),
            domain="com.microsoft",
            outputs=3,
            num_heads=g.capture("num_heads"),
            kv_num_heads=g.capture("kv_num_heads"),
            attributes=g.capture("attributes"),
        )
        return outputs

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        readers = (node for node in m.nodes if node.op_type == "MatMul")
        if not all(g.is_used_only_by(node.input[1], node) for node in readers):  # (2)
            return self.none(m.nodes[-1], msg="a weight has other consumers")
        for weight, bias in (("wq", "bq"), ("wk", "bk"), ("wv", "bv")) if m.biased else ():
            if g.try_infer_shape(getattr(m, bias)) != g.get_shape(getattr(m, weight))[1:]:  # (1)
                return self.none(m.nodes[-1], msg="a bias is not one value per column")
        return True

    def apply_pattern(
        self, g: PatternRewriter, x: str, wq: str, wk: str, wv: str, **m: Any
    ) -> tuple[str, ...]:
        packed = g.op.MatMul(x, g.op.Concat(wq, wk, wv, axis=1))
        if m["biased"]:
            packed = g.op.Add(packed, g.op.Concat(m["bq"], m["bk"], m["bv"], axis=0))
        outputs: tuple[str, ...] = g.op.GroupQueryAttention(
            *(packed, None, None, *m["others"]),
            domain="com.microsoft",
            outputs=3,
            num_heads=m["num_heads"],
            kv_num_heads=m["kv_num_heads"],
            **m["attributes"],
        )
        return outputs

    _start = (
        "agraph (float[b,1,2] x, float[b,1,p,8] e, float[b,1,p,8] f, int32[b] n, int32[1] t) "
        "=> (float[b,1,8] y, float[b,1,s,8] i, float[b,1,s,8] j)"
    )
    _weights = (
        "float[2,8] u = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2}, "
        "float[2,8] v = {1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0}, "
        "float[2,8] w = {2, 1, 2, 1, 2, 1, 2, 1, 1, 1, 2, 2, 1, 1, 2, 2}"
    )
    _packed = (
        "float[2,24] m = {1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 1, 0, 1, 0, 1, 0, 2, 1, 2, 1, 2, 1, 2, 1, "
        "9, 8, 7, 6, 5, 4, 3, 2, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 2, 2, 1, 1, 2, 2}"
    )
    _biases = (
        "float[8] ub = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] vb = {8, 7, 6, 5, 4, 3, 2, 1}, "
        "float[8] wb = {0, 1, 0, 1, 0, 1, 0, 1}"
    )
    _bias = "float[24] c = {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 0, 1, 0, 1, 0, 1}"
    _attention = "y, i, j = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1>"
    examples = Example.pairs(
        f"{_start} <{_weights}> {{ q = MatMul(x, u) k = MatMul(x, v) z = MatMul(x, w) "
        f"{_attention} (q, k, z, e, f, n, t) }}",
        f"<{_packed}> {{ q = MatMul(x, m) {_attention} (q, , , e, f, n, t) }}",
        f"{_start} <{_weights}, {_biases}> {{ q = MatMul(x, u) k = MatMul(x, v) z = MatMul(x, w) "
        "qb = Add(q, ub) kb = Add(vb, k) zb = Add(z, wb) "
        f"{_attention} (qb, kb, zb, e, f, n, t) }}",
        f"<{_packed}, {_bias}> {{ q = MatMul(x, m) qb = Add(q, c) "
        f"{_attention} (qb, , , e, f, n, t) }}",
        ranges=(("n", 0, 0), ("t", 1, 1)),
    )
