from typing import Any, ClassVar

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from ._formula import WEIGHTS
from ._mask import write_mask
from .attention import AttentionPattern, is_merged


class WeightsAttentionPattern(AttentionPattern):
    """w = Softmax(q · kᵀ · scale + mask), y = w · v → y, , , w = Attention(q, k, v, mask)

    What: as `Attention`, if another node reads the weights. An example is torch's
    MultiheadAttention with ``need_weights``, which returns the mean of the weights.
    Why: `AttentionHeads` lets the operator split and merge the heads as well. Then, with 8 heads of
    64 features and the mean of the weights, one thread of onnxruntime's CPU provider takes 0.28 to
    0.40 of the time for one query. 16 queries and keys take 0.66 to 0.69, 128 take 0.82 to 0.87,
    and 512 take 1.00.
    Refuses when:
    1. `Attention` refuses.
    2. no other node reads the weights: `Attention` matches.
    3. the heads of the result are not merged: the operator takes 0.96 of the time for one query and
       key, but 1.02 for 128 and 1.07 for 1024.
    """

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        factor: Scalar,
        s: Scalar,
        mask: Symbol,
    ) -> Any:
        weights = self.weights(g, self.scores(g, q, k, factor, s), mask)
        return g.op.MatMul(weights, v), weights

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.is_exclusive(m.outputs[1]):  # (2)
            return self.none(m.nodes[0], msg="nothing else reads the weights")
        if not is_merged(g, m.outputs[0]):  # (3)
            return self.none(m.nodes[0], msg="no Transpose moves the heads back")
        return super().validate_mapping(g, m)  # (1)

    def apply_pattern(
        self, g: PatternRewriter, q: str, k: str, v: str, mask: str | None, **m: Any
    ) -> Any:
        k = self.keys(g, k, *m["steps"])
        names = [g.unique_name("attention_out"), "", "", g.unique_name("weights")]
        mask = mask and write_mask(g, mask, **m["mask_options"])
        attributes = {"scale": m["scale"], "qk_matmul_output_mode": WEIGHTS}
        g.op.Attention(q, k, v, mask, outputs=names, **attributes)
        return names[0], names[3]

    _mean = "z = ReduceMean <keepdims = 0> (w, a) y = Transpose <perm = [0, 2, 1, 3]> (o)"
    examples: ClassVar = Example.pairs(
        "agraph (float[b,2,3,4] q, float[b,5,2,4] k, float[b,2,5,6] v) => (float[b,3,2,6] y, "
        "float[b,3,5] z) <float two = {2}, int64[1] a = {1}> { "
        "p = Transpose <perm = [0, 2, 3, 1]> (k) s = MatMul(q, p) d = Div(s, two) "
        f"w = Softmax <axis = -1> (d) o = MatMul(w, v) {_mean} }}",
        "<int64[1] a = {1}> { p = Transpose <perm = [0, 2, 1, 3]> (k) "
        "o, , , w = Attention <scale = 0.5, qk_matmul_output_mode = 3> (q, p, v) "
        f"{_mean} }}",
        "agraph (float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,6] v, float[b,1,3,5] m) "
        "=> (float[b,3,2,6] y, float[b,2,3,5] w) { p = Transpose <perm = [0, 1, 3, 2]> (k) "
        "s = MatMul(q, p) d = Add(s, m) w = Softmax <axis = -1> (d) o = MatMul(w, v) "
        "y = Transpose <perm = [0, 2, 1, 3]> (o) }",
        "<float step = {0.99999994}, float zero = {0}, int64[1] i = {-1}> "
        "{ r = ReduceMax <keepdims = 1> (m, i) n = Mul(r, zero) f = Add(n, step) l = Mul(m, f) "
        "o, , , w = Attention <scale = 1.0, qk_matmul_output_mode = 3> (q, k, v, l) "
        "y = Transpose <perm = [0, 2, 1, 3]> (o) }",
        opset=23,
    )
