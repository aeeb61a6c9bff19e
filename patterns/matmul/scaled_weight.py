"""MatMuls whose weight absorbs a factor for each column of the operand or of the result."""

from typing import Any

import numpy as np

from xoptim.match import (
    Example,
    GraphView,
    Match,
    MatchResult,
    Node,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
)
from xoptim.match.trace import Constant, Optional, Symbol

from .._channels import _FollowingAffine, affine_above, per_channel, scaled_weights
from .._folding import Array, doubles
from .._nodes import replaced_by
from ._matmul import contracts


class _ScaledWeight(PatternOptimization):
    """A MatMul whose weight absorbs a factor for each column."""

    exactness = "rounding"
    min_opset = 7


class GemmBatchNormalizationPattern(_ScaledWeight, _FollowingAffine):
    """BatchNormalization(Gemm(a, w, c)) → Gemm(a, w', c')

    What: multiplies the columns of the second matrix by the factors of the normalization, and moves
    its shift into the bias. The same for MatMul.
    Why: saves one pass over the result.
    Refuses when:
    1. the second matrix or the bias is not constant, or the bias differs from row to row.
    2. a parameter of the normalization is not constant, a variance is negative, or a factor is not
       finite. Or a mean is very large compared with its standard deviation.
    3. a new constant leaves the range of its type.
    4. an operand of the MatMul is not a matrix.
    5. ``beta`` is not 1, and the summed dimension may be 0: onnxruntime ignores ``beta`` then.
    """

    following = ("BatchNormalization",)
    constant_operands = ("c",)  # (1)
    derives = ("weight", "bias", "attributes")

    def match_pattern(self, g: PatternBuilder, a: Symbol, w: Constant, c: Optional) -> Symbol:
        y = (
            g.op.MatMul(a, w)
            if g.option("plain")
            else g.op.Gemm(a, w, c, attributes=g.capture("attributes"))
        )
        return self.followed(g, y)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.c and g.get_shape(m.c)[:-1] not in ((), (1,)):  # (1)
            return self.none(m.nodes[0], msg="the bias differs from row to row")
        affine = self.affine(g, m)  # (2)
        if m.plain and (g.info(m.a).rank != 2 or g.info(m.w).rank != 2):  # (4)
            return self.none(m.nodes[0], msg="not a MatMul of two matrices")
        attributes: dict[str, Any] = m.get("attributes", {})
        beta, is_transposed = attributes.get("beta", 1.0), attributes.get("transB", 0)
        factors = affine.scale[:, None] if is_transposed else affine.scale
        weight = scaled_weights(g, m.w, factors, summed=1 if is_transposed else 0)  # (3)
        bias = affine.bias((doubles(g, m.c) * beta).reshape(-1), weight.dtype)  # (3)
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


class MatMulAddMulPattern(_ScaledWeight, _FollowingAffine):
    """(MatMul(x, w) + b) · s → MatMul(x, w · s) + b · s

    What: moves a factor for each column of the result into the weight and the bias, if there is
    one. x may have any rank from 2 on.
    Why: saves one pass over the result. Layers of ConvNeXt, BEiT, DINOv2 and CaiT end this way.
    Refuses when:
    1. the weight is not a matrix, or is computed or in large external data. Or another node reads
       it, so that it would be stored twice.
    2. bias or factors differ along another axis than the last one or change the shape, or a factor
       is not finite or very small.
    3. a new constant leaves the range of its type.
    """

    anchors = ("Mul",)
    following = ("Mul",)
    derives = ("weight", "shift")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Constant, b: Constant, s: Constant
    ) -> Symbol:
        matmul = g.op.MatMul(x, w)
        return self.followed(g, g.op.Add(matmul, b) if g.option("biased") else matmul, s)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, rank = g.static_shape(m.w), g.info(m.x).rank
        if shape is None or len(shape) != 2 or not rank or rank < 2:  # (1)
            return self.none(m.nodes[0], msg="the weight is not a matrix")
        if not g.is_stored(m.w) or not g.is_exclusive(m.w):  # (1)
            return self.none(
                m.nodes[0],
                msg="the weight is computed, in more than 2 GiB of external data, or has other "
                "consumers",
            )
        affine = self.affine(g, m, rank, shape[1], rank - 1)  # (2)
        bias = per_channel(g, m.b, rank, shape[1], rank - 1) if m.biased else np.zeros(())
        if np.abs(affine.scale).min(initial=1) < float(np.finfo(np.float16).tiny):  # (2)
            return self.none(m.nodes[-1], msg="a factor is very small")
        weight = scaled_weights(g, m.w, affine.scale, summed=0)  # (3)
        return m.derive(weight=weight, shift=affine.bias(bias, weight.dtype))

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


class MulMatMulPattern(_ScaledWeight):
    """MatMul(x · s, w) → MatMul(x, s · w)

    What: moves a factor for each column of x into the rows of the weight. The same for divisors,
    and for Gemm.
    Why: saves one pass over the input. It runs last, so that patterns that recognize normalizations
    match the factors. It is in no preset: without the factor, onnxruntime's fusions of Gelu and of
    normalizations do not match.
    Refuses when:
    1. the weight is not a constant matrix, or is computed or in large external data. Or another
       node reads it, so that it would be stored twice.
    2. the weight is not finite, or the first operand is transposed.
    3. the factors differ along another axis, change the shape, or are not finite, very small or
       very large. Or another node reads the scaled tensor.
    4. a new constant leaves the range of its type.
    """

    anchors = ("MatMul", "Gemm")
    near = ("Mul", "Div")
    phase = "target"
    priority = 9
    tags = ("extra",)
    radius = 3

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        x, weight = node.input[:2]
        shape, rank = g.static_shape(weight), g.info(x).rank
        if shape is None or len(shape) != 2 or not g.is_constant(weight) or not rank:  # (1)
            return self.none(node, msg="the weight is not a constant matrix")
        if not g.is_stored(weight) or not g.is_exclusive(weight):  # (1)
            return self.none(
                node,
                msg="the weight is computed, in more than 2 GiB of external data, or has other "
                "consumers",
            )
        side = 1 if node.attribute.get("transB") else 0
        affine = affine_above(g, x, rank - 1, shape[side], ("Mul", "Div"))
        if not affine.nodes:  # (3)
            return self.none(node, msg="no multiplication by one constant per column precedes it")
        if node.attribute.get("transA") or not np.isfinite(doubles(g, weight)).all():  # (2)
            return self.none(node, msg="the left operand is transposed, or a weight is not finite")
        factors = affine.scale.reshape((1, -1) if side else (-1, 1))
        scaled = scaled_weights(g, weight, factors, summed=side)  # (4)
        matmul = replaced_by(node.op_type, affine.source, scaled, *node.input[2:], **node.attribute)
        return MatchResult(self, [*affine.nodes[::-1], node], matmul)

    examples = Example.pairs(
        "agraph (float[a,b,2] x) => (float[a,b,3] y) <float[2] s = {2, 4}, float[2,3] w = {1, 2, "
        "3, 4, 5, 6}> { t = Mul(s, x) y = MatMul(t, w) }",
        "<float[2,3] w = {2, 4, 6, 16, 20, 24}> { y = MatMul(x, w) }",
        "agraph (float[a,2] x, float[1] c) "
        "=> (float[a,1] y) <float s = {2}, float[1,2] w = {2, 4}> { t = Div(x, s) "
        "y = Gemm <transB = 1> (t, w, c) }",
        "<float[1,2] w = {1, 2}> { y = Gemm <transB = 1> (x, w, c) }",
    )
