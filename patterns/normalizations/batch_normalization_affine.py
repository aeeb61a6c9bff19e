"""A normalization of each channel, and an Add or Mul of a constant for each channel."""

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
)

from .._channels import per_channel
from .._folding import Array, constant, doubles, rounded


class _BatchNormalizationAffine(EasyPatternOptimization):
    """BatchNormalization or InstanceNormalization, into which a constant is folded."""

    phase = "specialize"
    exactness = "rounding"
    min_opset = 9

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

    derives = ("scale", "bias")

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        s: Symbol,
        o: Constant,
        m: Symbol,
        v: Symbol,
        c: Constant,
    ) -> Symbol:
        return g.op.Add(_any_normalization(g, x, s, o, m, v), c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shift = per_channel(g, m.c, g.info(m.x).rank, constant(g, m.o).size)  # (1)
        biases, scale = doubles(g, m.o), doubles(g, m.s) if g.is_constant(m.s) else 0.0
        # (2)
        bias = rounded(biases + shift, constant(g, m.o).dtype, terms=(biases, shift), other=scale)
        return m.derive(scale=m.s, bias=bias)

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

    derives = ("scale", "bias")

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        s: Constant,
        o: Constant,
        m: Symbol,
        v: Symbol,
        c: Constant,
    ) -> Symbol:
        # mean and variance may be computed
        return g.op.Mul(_any_normalization(g, x, s, o, m, v), c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        factor = per_channel(g, m.c, g.info(m.x).rank, constant(g, m.s).size)  # (1)
        scale = rounded(doubles(g, m.s) * factor, constant(g, m.s).dtype)  # (2)
        # (2)
        return m.derive(
            scale=scale, bias=rounded(doubles(g, m.o) * factor, constant(g, m.o).dtype, terms=())
        )

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


def _any_normalization(
    g: PatternBuilder, x: Symbol, s: Symbol | Constant, o: Constant, m: Symbol, v: Symbol
) -> Symbol:
    """BatchNormalization or InstanceNormalization, with its ``attributes``."""
    attributes = g.capture("attributes")
    if g.option("instance"):
        return g.op.InstanceNormalization(x, s, o, attributes=attributes)
    return g.op.BatchNormalization(x, s, o, m, v, attributes=attributes)
