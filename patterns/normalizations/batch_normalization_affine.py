"""A normalization of each channel, and an Add or Mul of a constant for each channel."""

from typing import Any

from xoptim.match import (
    Constant,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._channels import _FollowingAffine, scaled_weights
from .._folding import Array, constant, doubles


class _BatchNormalizationAffine(_FollowingAffine):
    """BatchNormalization or InstanceNormalization, into which a constant is folded."""

    min_opset = 9
    derives = ("scale", "bias")

    def normalization(
        self,
        g: PatternBuilder,
        x: Symbol,
        s: Symbol | Constant,
        o: Constant,
        m: Symbol,
        v: Symbol,
    ) -> Symbol:
        """BatchNormalization or InstanceNormalization, with its ``attributes``."""
        attributes = g.capture("attributes")
        if g.option("instance"):
            return g.op.InstanceNormalization(x, s, o, attributes=attributes)
        return g.op.BatchNormalization(x, s, o, m, v, attributes=attributes)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        biases = constant(g, m.o)
        affine = self.affine(g, m, g.info(m.x).rank, biases.size)  # (1)
        scale = scaled_weights(g, m.s, affine.scale) if affine.scales else m.s  # (2)
        size = doubles(g, m.s) if g.is_constant(m.s) else 0.0
        bias = affine.bias(doubles(g, m.o), biases.dtype, addend_size=size)  # (2)
        return m.derive(scale=scale, bias=bias)

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str | Array, bias: Array, **operands: Any
    ) -> str:
        if operands["instance"]:
            return g.op.InstanceNormalization(x, scale, bias, **operands["attributes"])
        return g.op.BatchNormalization(
            x, scale, bias, operands["m"], operands["v"], **operands["attributes"]
        )


class BatchNormalizationAddPattern(_BatchNormalizationAffine):
    """BatchNormalization(x, scale, bias, ...) + c → BatchNormalization(x, scale, bias + c, ...)

    What: folds a constant for each channel into the bias; the same for InstanceNormalization.
    Why: saves one pass over the result.
    Refuses when:
    1. the constant differs along another axis than the channels, would change the shape, or is not
       finite.
    2. the sums cancel, or leave the range of their type.
    """

    following = ("Add",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Symbol, o: Constant, m: Symbol, v: Symbol
    ) -> Symbol:
        return self.followed(g, self.normalization(g, x, s, o, m, v))

    examples = Example.only(
        "agraph (float[n,2,h] x, float[2] s, float[2] m, float[2] v) "
        "=> (float[n,2,h] y) <float[2] o = {3, 4}, float[1,2,1] c = {2, 3}> { "
        "t = BatchNormalization(x, s, o, m, v) y = Add(c, t) }",
        "<float[2] o = {5, 7}> { y = BatchNormalization(x, s, o, m, v) }",
        ranges=(("v", 0.5, 2.0),),
    )


class BatchNormalizationMulPattern(_BatchNormalizationAffine):
    """BatchNormalization(x, scale, bias, ...) · c → BatchNormalization(x, scale · c, bias · c, ...)

    What: folds a constant for each channel into scale and bias; the same for InstanceNormalization.
    Why: saves one pass over the result.
    Refuses when:
    1. the constant differs along another axis than the channels, would change the shape, or is not
       finite.
    2. a new constant leaves the range of its type.
    """

    following = ("Mul",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Constant, o: Constant, m: Symbol, v: Symbol
    ) -> Symbol:
        # mean and variance may be computed
        return self.followed(g, self.normalization(g, x, s, o, m, v))

    examples = Example.pairs(
        "agraph (float[n,2,h] x, float[2] m, float[2] v) "
        "=> (float[n,2,h] y) <float[2] s = {1, 2}, float[2] o = {3, 4}, float[2,1] c = {2, 3}> { "
        "t = BatchNormalization(x, s, o, m, v) y = Mul(t, c) }",
        "<float[2] s = {2, 6}, float[2] o = {6, 12}> { y = BatchNormalization(x, s, o, m, v) }",
        "agraph (float[n,2,h] x) => (float[n,2,h] y) <float[2] s = {1, 2}, float[2] o = {3, 4}, "
        "float[2,1] c = {2, 3}> { t = InstanceNormalization(x, s, o) y = Mul(t, c) }",
        "<float[2] s = {2, 6}, float[2] o = {6, 12}> { y = InstanceNormalization(x, s, o) }",
        ranges=(("v", 0.5, 2.0),),
    )
