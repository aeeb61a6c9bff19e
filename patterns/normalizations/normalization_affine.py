"""Normalizations whose scale and bias absorb a following Add, Mul or Div."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.facts.shapes import Shape
from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Symbol,
)

from .._channels import _FollowingAffine, scaled_weights
from .._folding import Array, constant, doubles, rounded
from .._shapes import uniform_value


class _NormalizationAffine(PatternOptimization):
    """A normalization, and an Add, Mul or Div of its result."""

    exactness = "rounding"


class _ChannelNormalization(_NormalizationAffine, _FollowingAffine):
    """BatchNormalization or InstanceNormalization, into which a constant is folded."""

    min_opset = 9
    derives = ("scale", "bias")

    def normalization(self, g: PatternBuilder, *operands: Symbol | Constant) -> Symbol:
        """BatchNormalization or InstanceNormalization, with its ``attributes``."""
        attributes = g.capture("attributes")
        if g.option("instance"):
            return g.op.InstanceNormalization(*operands[:3], attributes=attributes)
        return g.op.BatchNormalization(*operands, attributes=attributes)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        old_bias = constant(g, m.o)
        affine = self.affine(g, m, g.info(m.x).rank, old_bias.size)  # (1)
        # If there is only a shift, the scale stays, and may be computed at run time.
        scale = scaled_weights(g, m.s, affine.scale) if affine.scales else m.s  # (2)
        size = doubles(g, m.s) if g.is_constant(m.s) else 0.0
        bias = affine.bias(doubles(g, m.o), old_bias.dtype, addend_size=size)  # (2)
        return m.derive(scale=scale, bias=bias)

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str | Array, bias: Array, **operands: Any
    ) -> str:
        if operands["instance"]:
            return g.op.InstanceNormalization(x, scale, bias, **operands["attributes"])
        return g.op.BatchNormalization(
            x, scale, bias, operands["m"], operands["v"], **operands["attributes"]
        )


class BatchNormalizationAddPattern(_ChannelNormalization):
    """BatchNormalization(x, scale, bias, ...) + c → BatchNormalization(x, scale, bias + c, ...)

    What: folds a constant for each channel into the bias. The same for InstanceNormalization.
    Why: saves one pass over the result.
    Refuses when:
    1. the constant differs along another axis than the channels, would change the shape, or is not
       finite.
    2. the sums cancel, or leave the range of their type.
    """

    following = ("Add",)

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
        return self.followed(g, self.normalization(g, x, s, o, m, v), c)

    examples = Example.only(
        "agraph (float[n,2,h] x, float[2] s, float[2] m, float[2] v) "
        "=> (float[n,2,h] y) <float[2] o = {3, 4}, float[1,2,1] c = {2, 3}> { "
        "t = BatchNormalization(x, s, o, m, v) y = Add(c, t) }",
        "<float[2] o = {5, 7}> { y = BatchNormalization(x, s, o, m, v) }",
        ranges=(("v", 0.5, 2.0),),
    )


class BatchNormalizationMulPattern(_ChannelNormalization):
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
        self,
        g: PatternBuilder,
        x: Symbol,
        s: Constant,
        o: Constant,
        m: Symbol,
        v: Symbol,
        c: Constant,
    ) -> Symbol:
        # Mean and variance may be computed at run time.
        return self.followed(g, self.normalization(g, x, s, o, m, v), c)

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


def trailing_shape(g: GraphView, x: str, axes: Sequence[int]) -> Shape | None:
    """The shape of the reduced axes if these are the last axes of ``x``, or ``None``."""
    shape = g.try_infer_shape(x)
    if not shape or not axes:
        return None
    first = len(shape) - len(axes)
    if sorted(axis % len(shape) for axis in axes) != list(range(first, len(shape))):
        return None
    return shape[first:]


class LayerNormalizationBiasPattern(_NormalizationAffine, EasyPatternOptimization):
    """LayerNormalization(x, scale, bias) + shift → LayerNormalization(x, scale, bias + shift)

    What: folds the shift into the bias.
    Why: saves one pass over the tensor.
    Refuses when:
    1. the shift neither has the shape of the scale, nor is a constant that broadcasts to it.
    2. there is a bias, and bias or shift is not constant. Or the bias does not have the shape of
       the scale. Or the sums cancel, or leave the range of the type.
    """

    phase = "specialize"
    after = {"LayerNormalizationScale": "a factor comes before the bias"}
    min_opset = 7
    derives = ("total",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Optional, shift: Symbol
    ) -> Symbol:
        return g.op.Add(
            g.op.LayerNormalization(x, scale, bias, attributes=g.capture("attributes")), shift
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not _same_trailing(g, m.shift, m.scale, m.x):  # (1)
            return self.none(m.nodes[1], msg="the added bias does not have the shape of the scale")
        return m.derive(total=_shifted(g, m.bias, m.shift, m.scale))  # (2)

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, total: Array | str, attributes: dict[str, Any]
    ) -> str:
        return g.op.LayerNormalization(x, scale, total, **attributes)

    examples = Example.pairs(
        "agraph (float[a,2] x, float[2] s) "
        "=> (float[a,2] y) <float[2] b = {2, 3}, float[1,2] c = {4, 5}> { "
        "t = LayerNormalization <epsilon = 0.001> (x, s, b) y = Add(c, t) }",
        "<float[2] b = {6, 8}> { y = LayerNormalization <epsilon = 0.001> (x, s, b) }",
        "agraph (float[a,2] x, float[2] s, float[2] c) => (float[a,2] y) { "
        "t = LayerNormalization(x, s) y = Add(t, c) }",
        "{ y = LayerNormalization(x, s, c) }",
        "agraph (float[a,2] x) => (float[a,2] y) <float[1,2] s = {2, 3}, float[2] b = {2, 3}, "
        "float[2] c = {4, 5}> { t = LayerNormalization(x, s, b) y = Add(t, c) }",
        "<float[1,2] s = {2, 3}, float[2] b = {6, 8}> { y = LayerNormalization(x, s, b) }",
    )


class _NormalizationScale(_NormalizationAffine, EasyPatternOptimization):
    """A normalization by an `operator` with a scale, and a following Mul or Div.

    What: folds a factor, or a constant divisor, into the scale.
    Why: saves one pass over the tensor.
    Refuses when:
    1. the factor neither has the shape of the scale, nor is a constant that broadcasts to it.
    2. the scale is not constant, or the factor is not constant and the scale is not 1. Or a product
       leaves the range of the type.
    """

    operator: ClassVar[str]
    derives = ("product",)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        start, normalize = "agraph (float[a,2] x", f"{cls.operator} <axis = -1, epsilon = 0.001>"
        cls.examples = Example.pairs(
            f"{start}) => (float[a,2] y) <float[2] s = {{2, 3}}, float[1,2] f = {{4, 5}}> "
            f"{{ t = {normalize} (x, s) y = Mul(f, t) }}",
            f"<float[2] s = {{8, 15}}> {{ y = {normalize} (x, s) }}",
            f"{start}, float[2] f) => (float[a,2] y) <float[2] s = {{1, 1}}> {{ "
            f"t = {normalize} (x, s) y = Mul(t, f) }}",
            f"{{ y = {normalize} (x, f) }}",
            f"{start}) => (float[a,2] y) <float[2] s = {{2, 3}}, float f = {{4}}> {{ "
            f"t = {normalize} (x, s) y = Div(t, f) }}",
            f"<float[2] s = {{0.5, 0.75}}> {{ y = {normalize} (x, s) }}",
            opset=max(18, cls.min_opset),
        )

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, factor: Symbol) -> Symbol:
        # (3)
        normal = getattr(g.op, self.operator)(x, scale, attributes=g.capture("attributes"))
        return g.op.Div(normal, factor) if g.option("divides") else g.op.Mul(normal, factor)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not _same_trailing(g, m.factor, m.scale, m.x):  # (1)
            return self.none(m.nodes[1], msg="the factor does not have the shape of the scale")
        # (2)
        return m.derive(product=_multiplied(g, m.scale, m.factor, is_divisor=m.divides))

    def apply_pattern(
        self, g: PatternRewriter, x: str, product: Array | str, attributes: dict[str, Any]
    ) -> str:
        return str(getattr(g.op, self.operator)(x, product, **attributes))


class LayerNormalizationScalePattern(_NormalizationScale):
    """LayerNormalization(x, scale) · factor → LayerNormalization(x, scale · factor)

    Refuses when:
    1. the factor neither has the shape of the scale, nor is a constant that broadcasts to it.
    2. the scale is not constant, or the factor is not constant and the scale is not 1. Or a product
       leaves the range of the type.
    3. there is a bias.
    """

    phase = "specialize"
    operator = "LayerNormalization"
    min_opset = 7


class RMSNormalizationMulPattern(_NormalizationScale):
    """RMSNormalization(x, scale) · factor → RMSNormalization(x, scale · factor)"""

    phase = "specialize"
    operator = "RMSNormalization"
    min_opset = 23


class SimplifiedLayerNormalizationMulPattern(_NormalizationScale):
    """SimplifiedLayerNormalization(x, scale) · factor → SimplifiedLayerNormalization(x, scale ·
    factor)

    What: folds a factor, or a constant divisor, into the scale of this operator of onnxruntime,
    which takes the place of RMSNormalization below operator set 23.
    """

    phase = "target"
    operator = "SimplifiedLayerNormalization"
    min_opset = 7
    max_opset = 22
    tags = ("onnxruntime",)
    unchecked = ("SimplifiedLayerNormalization",)


def _same_trailing(g: GraphView, parameter: str, like: str, x: str) -> bool:
    """Whether an operand has the shape of ``like``, or is a constant that broadcasts to it.

    ``x`` is the normalized tensor.
    """
    shape, target, rank = g.try_infer_shape(parameter), g.try_infer_shape(like), g.info(x).rank
    if shape is None or target is None or rank is None or len(target) > rank:
        return False
    if shape == target:
        return True
    if not g.is_constant(parameter) or len(shape) > rank:
        return False
    aligned = shape[max(0, len(shape) - len(target)) :]
    leading = shape[: len(shape) - len(aligned)]
    return all(dim == 1 for dim in leading) and all(
        dim in (1, target_dim) for dim, target_dim in zip(aligned[::-1], target[::-1], strict=False)
    )


@np.errstate(all="ignore")
def _multiplied(
    g: GraphView, parameter: str, factor: str, *, is_divisor: bool = False
) -> Array | str:
    """A parameter of a normalization times a factor, or with ``is_divisor`` divided by it.

    `_same_trailing` is true of the factor.

    Returns:
        A constant; or the factor itself, if one of the two is computed and the parameter is 1.

    Raises:
        Declined: when neither applies, or the constant leaves the range of its type.
    """
    if not g.is_constant(factor) or not g.is_constant(parameter):
        number = uniform_value(g, parameter)
        if (
            is_divisor
            or number is None
            or number != 1
            or g.try_infer_shape(factor) != g.try_infer_shape(parameter)
        ):
            raise Declined(
                f"{factor!r} or {parameter!r} is not constant, and the scale is not all ones"
            )
        return factor
    factors = 1 / doubles(g, factor) if is_divisor else doubles(g, factor)
    return scaled_weights(g, parameter, factors).reshape(constant(g, parameter).shape)


@np.errstate(all="ignore")
def _shifted(g: GraphView, bias: str, shift: str, like: str) -> Array | str:
    """The bias of a normalization, if any, plus a shift of which `_same_trailing` is true.

    Returns:
        A constant in the shape of the bias, or of the scale if there is no bias; or the shift
        itself, if it is computed and there is no bias.

    Raises:
        Declined: when the shift is computed and there is a bias, the bias does not have the shape
            of the scale, or the constant leaves the range of its type.
    """
    if not bias and not g.is_constant(shift):
        return shift
    shape, scale_shape = g.static_shape(bias or like), g.static_shape(like)
    if shape is None or not g.is_constant(shift) or (bias and not g.is_constant(bias)):
        raise Declined("a bias is not constant, or its shape is unknown")
    # `LayerNormalizationRow` writes the scale with a leading axis.
    if scale_shape not in (shape, (1, *shape)):
        raise Declined("the bias does not have the shape of the scale")
    biases, shifts = doubles(g, bias), doubles(g, shift)
    total = np.asarray(biases + shifts)
    scale = doubles(g, like) if g.is_constant(like) else 0.0
    sums = rounded(total, constant(g, shift).dtype, terms=(biases, shifts), other=scale)
    return np.broadcast_to(sums.reshape(total.shape[max(0, total.ndim - len(shape)) :]), shape)
