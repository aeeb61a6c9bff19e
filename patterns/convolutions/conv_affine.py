"""A convolution followed by an affine map of each output channel, or with a bias of zeros."""

from typing import Any, ClassVar

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.rewrite import Phase
from xoptim.match.trace import Constant, Optional, Symbol

from .._channels import (
    fixed_normalization,
    normalization,
    output_channels,
    per_channel,
    scale_outputs,
)
from .._folding import Array, constant, doubles, rounded


class _ConvAffine(EasyPatternOptimization):
    """A convolution and a map of each output channel, which moves into weights and bias."""

    phase: ClassVar[Phase] = "specialize"
    exactness = "rounding"
    min_opset = 7
    constant_operands = ("b",)  # (1) (2)
    derives = ("weight", "bias")

    def convolution(
        self, g: PatternBuilder, x: Symbol, w: Symbol | Constant, b: Symbol | Optional | Constant
    ) -> Symbol:
        """Conv, or ConvTranspose with the option ``transposed``.

        Captures all of its ``attributes``.
        """
        return (g.op.ConvTranspose if g.option("transposed") else g.op.Conv)(
            x, w, b, attributes=g.capture("attributes")
        )

    def affine(self, g: GraphView, m: Match) -> tuple[Array, Array | None]:
        """Factor and summand of each channel; ``None`` for no summand.

        Raises `Declined` when they are not known.
        """
        raise NotImplementedError

    def numbers(self, g: GraphView, m: Match) -> Array:
        """The constant ``c`` as one number for each output channel.

        Raises `Declined` when it is something else.
        """
        return per_channel(
            g,
            m.c,
            g.info(m.w).rank,
            output_channels(g, m.w, m.transposed, m.attributes.get("group", 1)),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        scale, shift = self.affine(g, m)
        # (3)
        weight = scale_outputs(
            g, m.w, scale, transposed=m.transposed, group=m.attributes.get("group", 1)
        )
        scaled = doubles(g, m.b) * scale
        # (3)
        bias = rounded(
            scaled if shift is None else scaled + shift, constant(g, m.w).dtype, terms=()
        )
        return m.derive(weight=weight, bias=bias if m.b or shift is not None else None)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        weight: str | Array,
        bias: Array | None,
        attributes: dict[str, Any],
        transposed: bool,
    ) -> str:
        return (g.op.ConvTranspose if transposed else g.op.Conv)(x, weight, bias, **attributes)


class ConvAddPattern(_ConvAffine):
    """Conv(x, w, b) + c → Conv(x, w, b + c)

    What: moves a constant for each output channel into the bias; the same for Conv - c and for
    ConvTranspose.
    Why: saves one pass over the result.
    Refuses when:
    1. the constant differs along another axis than the channels, would change the shape, or is not
       finite.
    2. the bias of the convolution is not constant.
    3. the sums cancel, or leave the range of their type.
    """

    derives = ("weight", "bias")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional, c: Constant
    ) -> Symbol:
        y = self.convolution(g, x, w, b)
        return g.op.Sub(y, c) if g.option("minus") else g.op.Add(y, c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        bias, shift = doubles(g, m.b), np.multiply(self.numbers(g, m), -1 if m.minus else 1)  # (1)
        # (3)
        return m.derive(
            weight=m.w, bias=rounded(bias + shift, constant(g, m.c).dtype, terms=(bias, shift))
        )

    examples = Example.pairs(
        "agraph (float[n,1,h,w] x, float[2,1,3,3] k) "
        "=> (float[n,2,a,b] y) <float[2,1,1] c = {3, 4}> { t = Conv(x, k) y = Add(c, t) }",
        "<float[2] c = {3, 4}> { y = Conv(x, k, c) }",
        "agraph (float[n,1,h] x) => (float[n,2,a] y) <float[1,2,1] k = {5, 6}, float[2] b = {1, "
        "2}, float c = {3}> { t = ConvTranspose(x, k, b) y = Sub(t, c) }",
        "<float[1,2,1] k = {5, 6}, float[2] b = {-2, -1}> { y = ConvTranspose(x, k, b) }",
    )


class ConvMulPattern(_ConvAffine):
    """Conv(x, w, b) · c → Conv(x, w · c, b · c)

    What: moves a constant for each output channel into weights and bias; the same for Conv / c and
    for ConvTranspose.
    Why: saves one pass over the result.
    Refuses when:
    1. weights or bias of the convolution are not constant.
    2. the constant differs along another axis than the channels, would change the shape, or is not
       finite.
    3. it divides by zero, or a new constant leaves the range of its type.
    """

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional, c: Constant
    ) -> Symbol:
        y = self.convolution(g, x, w, b)
        return g.op.Div(y, c) if g.option("division") else g.op.Mul(y, c)

    def affine(self, g: GraphView, m: Match) -> tuple[Array, Array | None]:
        """The constant, or its reciprocal."""
        scale = self.numbers(g, m)  # (2)
        if m.division and not scale.all():  # (3)
            raise Declined("a divisor is 0")
        return 1 / scale if m.division else scale, None

    examples = Example.pairs(
        "agraph (float[n,1,h,w] x) => (float[n,2,h,w] y) <float[2,1,1,1] k = {5, 6}, "
        "float[1,2,1,1] c = {3, 4}> { t = Conv(x, k) y = Mul(c, t) }",
        "<float[2,1,1,1] k = {15, 24}> { y = Conv(x, k) }",
        "agraph (float[n,1,h] x) => (float[n,2,h] y) <float[1,2,1] k = {6, 8}, float[2] b = {1, "
        "2}, float c = {2}> { t = ConvTranspose(x, k, b) y = Div(t, c) }",
        "<float[1,2,1] k = {3, 4}, float[2] b = {0.5, 1}> { y = ConvTranspose(x, k, b) }",
    )


class ConvBatchNormalizationPattern(_ConvAffine):
    """BatchNormalization(Conv(x, w, b)) → Conv(x, w', b')

    What: multiplies the weights by the factor of each output channel, adds the rest to the bias;
    the same for ConvTranspose.
    Why: saves one pass over the result, and onnxruntime does it only when all parameters are plain
    initializers.
    Refuses when:
    1. the weights or the bias of the convolution are not constant.
    2. a parameter of the normalization is not constant, a variance is negative, a factor is not
       finite, or a mean is very large compared with the deviation.
    3. a new constant leaves the range of its type.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional) -> Symbol:
        return fixed_normalization(g, self.convolution(g, x, w, b))

    def affine(self, g: GraphView, m: Match) -> tuple[Array, Array | None]:
        """Scale and shift of the normalization."""
        return normalization(g, m.norm, m.epsilon)  # (2)

    _constants = (
        "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}"
    )
    _folded = "float[2] b = {-2, 1}"
    _normalize = "y = BatchNormalization <epsilon = 0.25> (c, s, o, m, v)"
    examples = Example.pairs(
        "agraph (float[n,1,h,w] x) => (float[n,2,h,w] y) <float[2,1,1,1] k = {1, 2}, "
        f"{_constants}> {{ c = Conv(x, k) {_normalize} }}",
        f"<float[2,1,1,1] k = {{2, 4}}, {_folded}> {{ y = Conv(x, k, b) }}",
        f"agraph (float[n,2,h] x) => (float[n,2,h] y) <float[2,1,1] k = {{1, 2}}, {_constants}> "
        f"{{ c = ConvTranspose <group = 2> (x, k) {_normalize} }}",
        f"<float[2,1,1] k = {{2, 4}}, {_folded}> {{ y = ConvTranspose <group = 2> (x, k, b) }}",
    )


class ConvBiasNullPattern(_ConvAffine):
    """Conv(x, w, 0) → Conv(x, w)

    What: drops a bias that adds nothing; the same for ConvTranspose. The sum of -0 and 0 is 0.
    Why: saves an addition for each element of the result, and the constant.
    Refuses when:
    1. an element of the bias is not zero.
    """

    phase = "canonicalize"
    min_opset = 1
    derives = ("weight", "bias")

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol) -> Symbol:
        return self.convolution(g, x, w, g.constant("b", lambda b: not b.any()))  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(weight=m.w, bias=None)

    examples = Example.only(
        "agraph (float[n,1,h] x, float[2,1,3] w) => (float[n,2,k] y) <float[2] b = {0, 0}> { "
        "y = Conv(x, w, b) }",
        "{ y = Conv(x, w) }",
    )
