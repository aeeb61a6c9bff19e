from typing import Any

import numpy as np

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import Constant, Optional, Symbol

from .._channels import fixed_normalization, normalization, per_channel
from .._folding import Array, constant, doubles, rounded
from ._matmul import contracts


class _ScaledWeight(EasyPatternOptimization):
    """A MatMul whose weight takes over the factor of each column."""

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7


class GemmBatchNormalizationPattern(_ScaledWeight):
    """BatchNormalization(Gemm(a, w, c)) → Gemm(a, w', c')

    What: multiplies the columns of the second matrix by the factors, and moves the rest into the
    bias; the same for MatMul.
    Why: saves one pass over the result.
    Refuses when:
    1. the second matrix is not constant, or the bias is neither constant nor the same for all rows.
    2. a parameter of the normalization is not constant, a variance is negative, a factor is not
       finite, or a mean is very large compared with the deviation.
    3. a new constant leaves the range of its type.
    4. MatMul is not one of two matrices.
    5. ``beta`` is not 1, and the sum may have no terms: onnxruntime ignores ``beta`` then.
    """

    constant_operands = ("c",)  # (1)
    derives = ("weight", "bias", "attributes")

    def match_pattern(self, g: PatternBuilder, a: Symbol, w: Constant, c: Optional) -> Symbol:
        y = (
            g.op.MatMul(a, w)
            if g.option("plain")
            else g.op.Gemm(a, w, c, attributes=g.capture("attributes"))
        )
        return fixed_normalization(g, y)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.c and g.get_shape(m.c)[:-1] not in ((), (1,)):  # (1)
            return self.none(m.nodes[0], msg="the bias differs from row to row")
        scale, shift = normalization(g, m.norm, m.epsilon)  # (2)
        if m.plain and (g.info(m.a).rank != 2 or g.info(m.w).rank != 2):  # (4)
            return self.none(m.nodes[0], msg="not a MatMul of two matrices")
        attributes: dict[str, Any] = m.get("attributes", {})
        beta, transposed, dtype = (
            attributes.get("beta", 1.0),
            attributes.get("transB", 0),
            constant(g, m.w).dtype,
        )
        # (3)
        weight = rounded(
            doubles(g, m.w) * (scale[:, None] if transposed else scale),
            dtype,
            summed=1 if transposed else 0,
        )
        bias = rounded((doubles(g, m.c) * beta).reshape(-1) * scale + shift, dtype, terms=())
        if m.c and beta != 1 and not contracts(g, m.a, m.w, attributes):  # (5)
            return self.none(m.nodes[0], msg="the summed dimension may be 0")
        return m.derive(weight=weight, bias=bias, attributes={**attributes, "beta": 1.0})

    def apply_pattern(
        self, g: PatternRewriter, a: str, weight: Array, bias: Array, attributes: dict[str, Any]
    ) -> str:
        return g.op.Gemm(a, weight, bias, **attributes)

    examples = Example.pairs(
        "agraph (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2] c = {1, "
        "1}, float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] "
        "v = {0.75, 3.75}> { t = Gemm <transB = 1> (x, w, c) "
        "y = BatchNormalization <epsilon = 0.25> (t, s, o, m, v) }",
        "<float[2,2] w = {2, 4, 6, 8}, float[2] c = {0, 3}> { "
        "y = Gemm <transB = 1, beta = 1.0> (x, w, c) }",
        "agraph (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1, 2, 3, 4}, "
        "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}> "
        "{ t = MatMul(x, w) y = BatchNormalization <epsilon = 0.25> (t, s, o, m, v) }",
        "<float[2,2] w = {2, 4, 6, 8}, float[2] c = {-2, 1}> { y = Gemm <beta = 1.0> (x, w, c) }",
    )


class MatMulReshapeBatchNormalizationPattern(_ScaledWeight):
    """BatchNormalization(Flatten(MatMul(x, w))) → Flatten(MatMul(x, w') + b), and so for Reshape

    What: multiplies the columns of the weight by the factors of the normalization, and adds the
    rest.
    Why: BatchNormalization takes channels along the second axis, so torch merges all other axes
    before it, and splits them after it: LeViT has one after each layer. The two movements are then
    adjacent and cancel.
    Refuses when:
    1. the weight is not a constant matrix stored in the model, or is used elsewhere, or there are
       more than two axes.
    2. a parameter of the normalization is not constant, a variance is negative, a factor is not
       finite, or a mean is very large compared with the deviation.
    3. a new constant leaves the range of its type.
    """

    derives = ("weight", "bias")

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, t: Symbol) -> Symbol:
        y = g.op.MatMul(x, w)
        if g.option("flat"):
            return fixed_normalization(g, g.op.Flatten(y, axis=g.capture("axis")))
        return fixed_normalization(g, g.op.Reshape(y, t, allowzero=g.capture("allowzero")))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # The columns stay in place when all axes but the last are merged.
        shape, flat = g.static_shape(m.w), g.try_infer_shape(m.nodes[1].output[0])
        # (1)
        if shape is None or len(shape) != 2 or not g.is_stored(m.w) or not g.is_exclusive(m.w):
            return self.none(
                m.nodes[0], msg="the weight is not a stored matrix, or has other consumers"
            )
        # (1)
        if flat is None or len(flat) != 2 or flat[1] != shape[1] or (g.info(m.x).rank or 0) < 2:
            return self.none(
                m.nodes[1], msg="the Reshape does not give a matrix with the same columns"
            )
        (scale, shift), dtype = normalization(g, m.norm, m.epsilon), constant(g, m.w).dtype  # (2)
        weight = rounded(doubles(g, m.w) * scale, dtype, summed=0)  # (3)
        return m.derive(weight=weight, bias=rounded(shift, dtype, terms=()))

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        weight: Array,
        bias: Array,
        flat: bool,
        t: str,
        axis: int,
        allowzero: int,
    ) -> str:
        total = g.op.Add(g.op.MatMul(x, weight), bias)
        return (
            g.op.Flatten(total, axis=axis) if flat else g.op.Reshape(total, t, allowzero=allowzero)
        )

    _before = (
        "<float[2,2] w = {1, 2, 3, 4}, float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, "
        "0}, float[2] v = {0.75, 3.75}"
    )
    _after = "<float[2,2] w = {2, 4, 6, 8}, float[2] c = {-2, 1}"
    examples = Example.pairs(
        f"agraph (float[a,b,2] x) => (float[c,2] y) {_before}> {{ t = MatMul(x, w) "
        "f = Flatten <axis = 2> (t) y = BatchNormalization <epsilon = 0.25> (f, s, o, m, v) }",
        f"agraph (float[a,b,2] x) => (float[c,2] y) {_after}> {{ t = MatMul(x, w) u = Add(t, c) "
        "y = Flatten <axis = 2> (u) }",
        f"agraph (float[a,b,2] x) => (float[c,2] y) {_before}, int64[2] z = {{-1, 2}}> {{ "
        "t = MatMul(x, w) f = Reshape(t, z) "
        "y = BatchNormalization <epsilon = 0.25> (f, s, o, m, v) }",
        f"agraph (float[a,b,2] x) => (float[c,2] y) {_after}, int64[2] z = {{-1, 2}}> "
        "{ t = MatMul(x, w) u = Add(t, c) y = Reshape(u, z) }",
    )


class MatMulAddMulPattern(_ScaledWeight):
    """(MatMul(x, w) + b) · s → MatMul(x, w · s) + b · s

    What: multiplies the columns of a weight by the factors of the columns of its result, with or
    without a bias, of any rank.
    Why: saves one pass over the result: layers of ConvNeXt, BEiT, DINOv2 and CaiT end this way.
    Refuses when:
    1. the weight is not a matrix, is computed or in an external file, or is used elsewhere as well
       (there would be two copies).
    2. bias or factors differ along another axis than the last one, change the shape, or a factor is
       not finite or very small.
    3. a new constant leaves the range of its type.
    """

    anchors = ("Mul",)
    derives = ("weight", "shift")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Constant, b: Constant, s: Constant
    ) -> Symbol:
        matmul = g.op.MatMul(x, w)
        return g.op.Mul(g.op.Add(matmul, b) if g.option("biased") else matmul, s)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, rank = g.static_shape(m.w), g.info(m.x).rank
        if shape is None or len(shape) != 2 or not rank or rank < 2:  # (1)
            return self.none(m.nodes[0], msg="the weight is not a matrix")
        if not g.is_stored(m.w) or not g.is_exclusive(m.w):  # (1)
            return self.none(
                m.nodes[0], msg="the weight is computed, in external data, or has other consumers"
            )
        scale = per_channel(g, m.s, rank, shape[1], rank - 1)  # (2)
        bias = per_channel(g, m.b, rank, shape[1], rank - 1) if m.biased else np.zeros(())
        dtype = constant(g, m.w).dtype
        if np.abs(scale).min(initial=1) < float(np.finfo(np.float16).tiny):  # (2)
            return self.none(m.nodes[-1], msg="a factor is very small")
        weight = rounded(doubles(g, m.w) * scale, dtype, summed=0)  # (3)
        return m.derive(weight=weight, shift=rounded(bias * scale, dtype, terms=()))

    def apply_pattern(
        self, g: PatternRewriter, x: str, weight: Array, shift: Array, biased: bool
    ) -> str:
        matmul = g.op.MatMul(x, weight)
        return g.op.Add(matmul, shift) if biased else matmul

    examples = Example.pairs(
        "agraph (float[a,b,2] x) => (float[a,b,2] y) <float[2,2] w = {1, 2, 3, 4}, "
        "float[2] c = {5, 6}, float[2] s = {2, 0.5}> { t = MatMul(x, w) u = Add(t, c) "
        "y = Mul(s, u) }",
        "<float[2,2] w = {2, 1, 6, 2}, float[2] c = {10, 3}> { t = MatMul(x, w) y = Add(t, c) }",
        "agraph (float[a,b,2] x) => (float[a,b,2] y) <float[2,2] w = {1, 2, 3, 4}, "
        "float[1,2] s = {2, 0.5}> { t = MatMul(x, w) y = Mul(t, s) }",
        "<float[2,2] w = {2, 1, 6, 2}> { y = MatMul(x, w) }",
    )
