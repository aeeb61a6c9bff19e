import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import Exactness
from xoptim.facts.shapes import Shape
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    runs,
)
from xoptim.match.trace import Scalar, Symbol

from .._nodes import is_op
from .._shapes import may_be_empty
from ._formula import (
    MERGING,
    SEQUENCE_FIRST,
    heads_in,
    is_merged_swap,
    is_swap,
    merged_heads,
    scale_of,
    scores_of,
    scores_shape,
)
from ._groups import shared_heads
from ._mask import is_finite_mask, lies_between, masks_fit_scores, stretched_by, write_mask

_MAX_KEYS: Final = 1024
"""Number of keys above which the operator is slower than the separate nodes on onnxruntime's CPU
provider.
"""
_MAX_BIAS: Final = 64.0
"""Largest magnitude of a bias that may be added to the mask before the scores."""


class AttentionPattern(EasyPatternOptimization):
    """Softmax(q · kᵀ · scale + mask) · v → Attention(q, k, v, mask)

    What: one operator instead of four to seven; scale and mask may be absent. If two tensors are
    added to the scores, such as a position bias and a padding mask, their sum is the mask. All
    layers share it. onnxruntime needs a mask with a row for each query, so a mask with one row is
    expanded, once for all layers. If a mask hides all keys of a query by -infinity, the separate
    nodes give NaN, but onnxruntime's operator gives 0. Such a row of the mask becomes NaN. Tensors
    (length, batch, ...), as in torch.nn modules, keep their Transposes.
    Why: the separate nodes store the scores, and read them four times. With 8 heads of 64 features,
    one thread of onnxruntime's CPU provider takes 0.60 of the time for 16 queries and keys, 0.91
    for 512 and 1.08 for 2048. A mask changes this little. One query takes 0.48 with 64 keys and
    0.37 with 512.
    Refuses when:
    1. the shapes are unknown, or batches or heads of q, k and v differ: the operator does not
       broadcast batches.
    2. a dimension may be 0, which onnxruntime's kernel refuses.
    3. the number of keys is known, and greater than 1024. Grouped-query attention is an exception:
       with 2048 keys, it still takes 0.72 to 0.84 of the time.
    4. the factor is not a positive number, or has more than four axes.
    5. the mask does not broadcast to the scores.
    6. two tensors are added to the scores, and their sum would be rounded too much. The first must
       lie between -64 and 64, the second must not exceed 64.
    7. the mask may hide all keys of a query by -infinity, and the heads of the result are not
       merged. Then the operator takes 1.04 to 1.28 of the time for 4 to 128 queries and keys. (With
       merged heads, it takes 0.73 to 0.94.)
    8. the provider has no kernel, or the type is not float32: the kernel for 16 bits is less
       accurate than the separate nodes.
    """

    phase = "specialize"
    exactness: ClassVar[Exactness] = "rounding"
    min_opset = 23
    providers = ("cpu",)
    derives: ClassVar[tuple[str, ...]] = ("scale", "steps", "mask_options")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        factor: Scalar,
        s: Scalar,
        mask: Symbol,
    ) -> Symbol:
        return g.op.MatMul(self.weights(g, self.scores(g, q, k, factor, s), mask), v)

    def scores(self, g: PatternBuilder, q: Symbol, k: Symbol, factor: Scalar, s: Scalar) -> Symbol:
        """The scores without mask."""
        return scores_of(g, q, self.swapped(g, k), factor, s)

    def weights(self, g: PatternBuilder, scores: Symbol, mask: Symbol) -> Symbol:
        """The Softmax of the scores, after a mask, or a bias and a mask, is added."""
        if g.option("masked"):
            scores = g.op.Add(
                g.op.Add(scores, g.symbol("bias")) if g.option("two_terms") else scores, mask
            )
        return g.op.Softmax(scores, axis=g.any_of(-1, 3))

    def swapped(self, g: PatternBuilder, k: Symbol) -> Symbol:
        """Keys (batch, heads, size, keys), from a tensor with the features last."""
        return g.either(
            lambda: g.op.Transpose(k, perm=g.capture("perm", is_swap)),
            lambda: merged_heads(g, k, g.capture("perm", is_merged_swap)),
            name="are_merged",
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        matmul = next(node for node in m.nodes if node.op_type == "MatMul")
        swapped = matmul.input[1]
        scores = scores_shape(g, m.q, swapped, m.v)
        # (1)
        if scores is None or (m.are_merged and not self._keys_match_scores(g, m, swapped)):
            return self.none(matmul, msg="the shapes are unknown, or do not match an attention")
        if reason := may_be_empty(g, (*scores, *g.get_shape(m.q), *g.get_shape(m.v))):  # (2)
            return self.none(matmul, msg=reason)
        # (3)
        if isinstance(scores[-1], int) and scores[-1] > _MAX_KEYS and shared_heads(g, m.v) is None:
            return self.none(matmul, msg="more than 1024 keys, for which the operator is slower")
        scale = scale_of(g, m, m.q)
        if scale is None:  # (4)
            return self.none(matmul, msg="the scale is not a positive scalar, or adds axes")
        if not self._can_mask(g, m, scores):  # (5)
            return self.none(
                matmul,
                msg="the mask does not broadcast to the scores, or may hold NaN or numbers out of "
                "range",
            )
        if g.try_infer_type(m.q) != TensorProto.FLOAT or not runs(g, "Attention", m.q):  # (8)
            return self.none(matmul, msg="no precise kernel for this element type")
        if self.marked(g, m) and not is_merged(g, m.outputs[0]):  # (7)
            return self.none(
                matmul,
                msg="a query may have all keys masked, and no Transpose moves the heads back",
            )
        stretched = stretched_by(g, self.masks(m), scores, m.q, swapped)
        mask_options = {"stretched": stretched, "marked": self.marked(g, m)}
        steps = self._steps(m, g.get_shape(swapped))
        return m.derive(scale=scale, steps=steps, mask_options=mask_options)

    def _keys_match_scores(self, g: GraphView, m: Match, swapped: str) -> bool:
        """Whether the keys ``m.k`` have the heads of the scores.

        The heads are merged with the features, or, in tensors (length, batch, ...), with the batch.
        """
        batch, heads, size, keys = g.get_shape(swapped)
        if m.perm == [0, 2, 1]:
            return heads_in(g, m.k, (batch, heads, keys, size)) is not None
        is_static = isinstance(heads, int) and isinstance(size, int)
        return is_static and g.try_infer_shape(m.k) == (keys, batch * heads, size)

    def _steps(self, m: Match, swapped: Shape) -> tuple[list[Any], list[int]]:
        """The steps that make the keys (batch, heads, keys, size).

        Returns:
            the target of a Reshape, and the permutation of a Transpose after it. A step that is not
            needed is empty.
        """
        _, heads, size, _ = swapped
        if m.are_merged:
            return (
                ([0, 0, heads, size], [0, 2, 1, 3])
                if m.perm == [0, 2, 1]
                else ([0, -1, heads, size], SEQUENCE_FIRST)
            )
        batch_axis, heads_axis, size_axis, keys_axis = m.perm
        perm = [batch_axis, heads_axis, keys_axis, size_axis]
        return [], [] if perm == [0, 1, 2, 3] else perm

    def _can_mask(self, g: GraphView, m: Match, scores: Shape) -> bool:
        if m.get("two_terms") and not (
            lies_between(g, m.bias, -_MAX_BIAS, _MAX_BIAS)
            and lies_between(g, m.mask, -math.inf, _MAX_BIAS)
        ):
            # (6) the sum of bias and mask is rounded before the scores are added to it
            return False
        return masks_fit_scores(g, self.masks(m), scores, m.v)

    def masks(self, m: Match) -> list[str]:
        """The tensors that are added to the scores."""
        return [*([m.bias] if m.get("two_terms") else []), m.mask] if m.masked else []

    def marked(self, g: GraphView, m: Match) -> bool:
        """Whether the mask may hide all keys of a query by -infinity: its row becomes NaN."""
        return not all(is_finite_mask(g, name) for name in self.masks(m))

    def replacement(self, g: PatternRewriter, match: Match) -> Any:
        if match.get("two_terms"):
            match.derive(mask=g.op.Add(match.bias, match.mask))
        return super().replacement(g, match)

    def apply_pattern(
        self, g: PatternRewriter, q: str, k: str, v: str, mask: str | None, **m: Any
    ) -> str:
        k = self.keys(g, k, *m["steps"])
        return g.op.Attention(
            q, k, v, mask and write_mask(g, mask, **m["mask_options"]), scale=m["scale"]
        )

    def keys(self, g: PatternRewriter, k: str, target: list[int], perm: list[int]) -> str:
        """The keys (batch, heads, keys, size), after the steps that `_steps` returns."""
        if target:
            k = g.op.Reshape(k, np.array(target, dtype=np.int64))
        if perm:
            k = g.op.Transpose(k, perm=perm)
        return k

    _start = (
        "agraph (float[b,s,2,4] x, float[b,t,2,4] k, float[b,2,t,4] v, bool[b,1,1,t] c) "
        "=> (float[b,2,s,4] y)"
    )
    _operands = "q = Transpose <perm = [0, 2, 1, 3]> (x) m = Where(c, zero, low)"
    _first = "q = Transpose <perm = [1, 2, 0, 3]> (x) v = Transpose <perm = [1, 2, 0, 3]> (z)"
    _biased = (
        "agraph (float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,6] v, bool[b,1,3,5] c, "
        "int64[2,3,5] i) => (float[b,2,3,6] y) <float[3] t = {1, -2, 0.5}, float zero = {0}, "
        "float low = {-10000}"
    )
    _masked = (
        "agraph (float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,6] v, float[b,1,3,5] m) "
        "=> (float[b,3,2,6] y)"
    )
    examples: ClassVar[Sequence[Example]] = Example.pairs(
        f"{_start} <float eight = {{8}}, float zero = {{0}}, "
        f"float low = {{-3.4028235e38}}> {{ {_operands} p = Transpose <perm = [0, 2, 3, 1]> (k) "
        "a = MatMul(q, p) d = Div(a, eight) e = Add(d, m) w = Softmax <axis = -1> (e) "
        "y = MatMul(w, v) }",
        "<float zero = {0}, float low = {-3.4028235e38}, float step = {0.99999994}, "
        f"int64[1] one = {{1}}> {{ {_operands} p = Transpose <perm = [0, 2, 1, 3]> (k) "
        "n = Mul(m, step) s = Shape <start = 1, end = 2> (x) u = Concat <axis = 0> (s, one) "
        "l = Expand(n, u) y = Attention <scale = 0.125> (q, p, v, l) }",
        "agraph (float[b,3,5,4] q, float[b,7,12] k, float[b,3,7,2] v) "
        "=> (float[b,3,5,2] y) <int64[4] n = {-1, 3, 4, 7}, float[1] half = {0.5}> { "
        "p = Transpose <perm = [0, 2, 1]> (k) r = Reshape(p, n) a = MatMul(q, r) d = Mul(half, a) "
        "w = Softmax <axis = 3> (d) y = MatMul(w, v) }",
        "<int64[4] n = {0, 0, 3, 4}> { r = Reshape(k, n) p = Transpose <perm = [0, 2, 1, 3]> (r) "
        "y = Attention <scale = 0.5> (q, p, v) }",
        "agraph (float[s,b,2,4] x, float[t,b,2,4] k, float[t,b,2,6] z) => (float[s,b,2,6] y) { "
        f"{_first} p = Transpose <perm = [1, 2, 3, 0]> (k) a = MatMul(q, p) "
        "w = Softmax <axis = -1> (a) o = MatMul(w, v) y = Transpose <perm = [2, 0, 1, 3]> (o) }",
        f"{{ {_first} p = Transpose <perm = [1, 2, 0, 3]> (k) "
        "o = Attention <scale = 1.0> (q, p, v) y = Transpose <perm = [2, 0, 1, 3]> (o) }",
        "agraph (float[s,3,2,4] x, float[7,6,4] k, float[7,3,2,6] z) => (float[s,3,2,6] y) "
        "<int64[4] n = {-1, 2, 4, 7}> { "
        f"{_first} p = Transpose <perm = [1, 2, 0]> (k) r = Reshape(p, n) a = MatMul(q, r) "
        "w = Softmax <axis = -1> (a) o = MatMul(w, v) y = Transpose <perm = [2, 0, 1, 3]> (o) }",
        f"<int64[4] n = {{0, -1, 2, 4}}> {{ {_first} r = Reshape(k, n) "
        "p = Transpose <perm = [1, 2, 0, 3]> (r) "
        "o = Attention <scale = 1.0> (q, p, v) y = Transpose <perm = [2, 0, 1, 3]> (o) }",
        f"{_biased}> {{ e = Gather(t, i) m = Where(c, zero, low) "
        "p = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, p) d = Add(a, e) f = Add(d, m) "
        "w = Softmax <axis = -1> (f) y = MatMul(w, v) }",
        f"{_biased}, float step = {{0.99999994}}> "
        "{ e = Gather(t, i) m = Where(c, zero, low) f = Add(e, m) l = Mul(f, step) "
        "y = Attention <scale = 1.0> (q, k, v, l) }",
        f"{_masked} {{ p = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, p) e = Add(m, a) "
        "w = Softmax <axis = -1> (e) o = MatMul(w, v) y = Transpose <perm = [0, 2, 1, 3]> (o) }",
        f"{_masked} <float step = {{0.99999994}}, float zero = {{0}}, int64[1] i = {{-1}}> "
        "{ r = ReduceMax <keepdims = 1> (m, i) n = Mul(r, zero) f = Add(n, step) l = Mul(m, f) "
        "o = Attention <scale = 1.0> (q, k, v, l) y = Transpose <perm = [0, 2, 1, 3]> (o) }",
        opset=23,
        ranges=(("i", 0, 2),),
    )


def is_merged(g: GraphView, name: str) -> bool:
    """Whether a Transpose moves the heads of a result after the length, before they are merged.

    The result has the shape (batch, heads, length, size).
    """
    node = g.next_node(name)
    return is_op(node, "Transpose") and node.attribute.get("perm") in MERGING
