"""Convolutions that absorb a scale and shift per channel, or have a bias of zeros."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

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

from .._channels import (
    ChannelAffine,
    _FollowingAffine,
    affine_above,
    output_channels,
    scale_outputs,
)
from .._folding import Array, constant, doubles, rounded
from .._nodes import is_op, replaced_by

_ARITHMETIC: Final = ("Mul", "Div", "Add", "Sub")
_AFFINE: Final = (*_ARITHMETIC, "BatchNormalization")
"""Operators that scale and shift channels, if their other operands are constant."""


class _ConvAffine(PatternOptimization):
    """A convolution and a scale and shift per channel, which moves into weights and bias."""

    exactness = "rounding"
    min_opset = 7


class _ConvFollowed(_ConvAffine, _FollowingAffine):
    """A convolution followed by a scale and shift per output channel."""

    constant_operands = ("b",)  # (1) (2)
    derives = ("weight", "bias")

    def convolution(
        self, g: PatternBuilder, x: Symbol, w: Symbol | Constant, b: Symbol | Optional | Constant
    ) -> Symbol:
        """Conv, or ConvTranspose with the option ``transposed``; captures all ``attributes``."""
        return (g.op.ConvTranspose if g.option("transposed") else g.op.Conv)(
            x, w, b, attributes=g.capture("attributes")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        group = m.attributes.get("group", 1)
        channels = output_channels(g, m.w, m.transposed, group)
        # refusal 1 of ConvAdd, refusals 2 and 3 of ConvMul and ConvBatchNormalization
        affine = self.affine(g, m, g.info(m.w).rank, channels)
        weight = m.w
        if affine.scales:
            weight = scale_outputs(  # (3)
                g, m.w, affine.scale, transposed=m.transposed, group=group
            )
        # If there is only a shift (ConvAdd), the weights may be computed at run time.
        dtype = constant(g, m.w if affine.scales else m.c).dtype
        bias = affine.bias(doubles(g, m.b), dtype)  # (3)
        return m.derive(weight=weight, bias=bias if m.b or affine.shifts else None)

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


class ConvAddPattern(_ConvFollowed):
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

    following = ("Sub", "Add")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional, c: Constant
    ) -> Symbol:
        return self.followed(g, self.convolution(g, x, w, b), c)

    examples = Example.pairs(
        "agraph (float[n,1,h,w] x, float[2,1,3,3] k) "
        "=> (float[n,2,a,b] y) <float[2,1,1] c = {3, 4}> { t = Conv(x, k) y = Add(c, t) }",
        "<float[2] c = {3, 4}> { y = Conv(x, k, c) }",
        "agraph (float[n,1,h] x) => (float[n,2,a] y) <float[1,2,1] k = {5, 6}, float[2] b = {1, "
        "2}, float c = {3}> { t = ConvTranspose(x, k, b) y = Sub(t, c) }",
        "<float[1,2,1] k = {5, 6}, float[2] b = {-2, -1}> { y = ConvTranspose(x, k, b) }",
    )


class ConvMulPattern(_ConvFollowed):
    """Conv(x, w, b) · c → Conv(x, w · c, b · c)

    What: moves a constant for each output channel into weights and bias; the same for Conv / c and
    for ConvTranspose.
    Why: saves one pass over the result.
    Refuses when:
    1. weights or bias of the convolution are not constant.
    2. the constant differs along another axis than the channels, would change the shape, or is not
       finite.
    3. a divisor is 0, a factor is very large or very small, or a new constant leaves the range of
       its type.
    """

    following = ("Div", "Mul")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional, c: Constant
    ) -> Symbol:
        return self.followed(g, self.convolution(g, x, w, b), c)

    examples = Example.pairs(
        "agraph (float[n,1,h,w] x) => (float[n,2,h,w] y) <float[2,1,1,1] k = {5, 6}, "
        "float[1,2,1,1] c = {3, 4}> { t = Conv(x, k) y = Mul(c, t) }",
        "<float[2,1,1,1] k = {15, 24}> { y = Conv(x, k) }",
        "agraph (float[n,1,h] x) => (float[n,2,h] y) <float[1,2,1] k = {6, 8}, float[2] b = {1, "
        "2}, float c = {2}> { t = ConvTranspose(x, k, b) y = Div(t, c) }",
        "<float[1,2,1] k = {3, 4}, float[2] b = {0.5, 1}> { y = ConvTranspose(x, k, b) }",
    )


class ConvBatchNormalizationPattern(_ConvFollowed):
    """BatchNormalization(Conv(x, w, b)) → Conv(x, w', b')

    What: multiplies the weights by the factor of each output channel, and adds the shift to the
    bias. The same for ConvTranspose.
    Why: saves one pass over the result. onnxruntime does the same only if all parameters are
    initializers.
    Refuses when:
    1. the weights or the bias of the convolution are not constant.
    2. a parameter of the normalization is not constant, a variance is negative, or a factor is not
       finite. Or a mean is very large compared with its standard deviation.
    3. a new constant leaves the range of its type.
    """

    following = ("BatchNormalization",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional) -> Symbol:
        return self.followed(g, self.convolution(g, x, w, b))

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


class ConvBiasNullPattern(_ConvFollowed):
    """Conv(x, w, 0) → Conv(x, w)

    What: drops a bias of zeros; the same for ConvTranspose. (-0 + 0 is 0: the sign may change.)
    Why: saves an addition for each element of the result, and the constant.
    Refuses when:
    1. an element of the bias is not zero.
    """

    phase = "canonicalize"
    min_opset = 1

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol) -> Symbol:
        return self.convolution(g, x, w, g.constant("b", lambda b: not b.any()))  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(weight=m.w, bias=None)

    examples = Example.only(
        "agraph (float[n,1,h] x, float[2,1,3] w) => (float[n,2,k] y) <float[2] b = {0, 0}> { "
        "y = Conv(x, w, b) }",
        "{ y = Conv(x, w) }",
    )


class MulAddConvPattern(_ConvAffine):
    """Conv(x · s + o, w, b) → Conv(x, w · s, b + Σ w · o)

    What: moves Mul, Div, Add, Sub and BatchNormalization with constants per input channel into
    weights and bias, any number of them in a row. Preprocessing of images often writes such
    operators before the first convolution.
    Why: saves a pass over the input for each operator.
    Refuses when:
    1. weights or bias are not constant or not finite, or the number of channels is not known.
    2. a constant differs along another axis, changes the shape or is not finite. Or a factor is
       very small or large, or another node reads an intermediate result. For a normalization: a
       parameter is not constant or not finite, a variance is negative, or a mean is very large
       compared with its standard deviation.
    3. something is added, and the convolution may pad: the model adds nothing to these zeros, but
       the new bias would.
    4. a new constant leaves the range of its type, or is a sum that cancels.
    5. the first constant scales a product of two tensors, as in Gelu and HardSwish, which runtimes
       fuse.
    """

    anchors = ("Conv",)
    near = _AFFINE
    phase = "specialize"
    before = {
        "ConvBatchNormalization": "between two convolutions, it would give the first one a bias"
    }
    radius = 4
    former_names = ("BatchNormalizationConv",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        weight, *bias = node.input[1:]
        shape, group = g.static_shape(weight), g.get_attribute(node, "group", 1)
        is_valid = shape is not None and group > 0 and shape[0] % group == 0
        constants = filter(None, (weight, *bias))
        if shape is None or not is_valid or not all(map(g.is_constant, constants)):  # (1)
            return self.none(node, msg="the weight or bias is not constant")
        # (3)
        read_affine = partial(
            affine_above, g, node.input[0], 1, shape[1] * group, shifts=not _pads(node.attribute)
        )
        affine = read_affine(_AFFINE)
        if not affine.nodes:  # (2)
            return self.none(node, msg="no operator with one constant per channel precedes it")
        # (5)
        first_node = affine.nodes[-1]  # in the order of the graph
        if is_op(first_node, *_ARITHMETIC) and is_op(g.node_before(affine.source), "Mul"):
            affine = read_affine(("BatchNormalization",))
            if not affine.nodes:
                return self.none(
                    first_node, msg="the factor may belong to an activation, which runtimes fuse"
                )
        if not np.isfinite(doubles(g, weight)).all():  # (1)
            return self.none(node, msg="a weight is not finite")
        merged = _absorbed(g, weight, bias[0] if bias else "", group, affine)  # (4)
        weights = merged if any(bias) or affine.shift.any() else merged[:1]
        return MatchResult(
            self,
            [*affine.nodes[::-1], node],
            replaced_by("Conv", affine.source, *weights, **node.attribute),
        )

    examples = Example.pairs(
        "agraph (float[n,2,h] x) => (float[n,1,a] y) <float[1,2,1] k = {4, 6}, float[2,1] m = {1, "
        "3}, float[1,2,1] d = {2, 0.5}> { t = Sub(x, m) u = Div(t, d) y = Conv(u, k) }",
        "<float[1,2,1] k = {2, 12}, float[1] b = {-38}> { y = Conv(x, k, b) }",
        "agraph (float[n,1,h] x) => (float[n,1,a] y) <float[1,1,3] k = {1, 2, 3}, "
        "float[1] b = {5}, float c = {4}> { t = Mul(c, x) y = Conv <pads = [1, 1]> (t, k, b) }",
        "<float[1,1,3] k = {4, 8, 12}, float[1] b = {5}> { y = Conv <pads = [1, 1]> (x, k, b) }",
        "agraph (float[n,2,h] x) => (float[n,1,h] y) <float[1,2,1] k = {1, 2}, float[2] s = {2, "
        "4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}> { "
        "t = BatchNormalization <epsilon = 0.25> (x, s, o, m, v) y = Conv(t, k) }",
        "<float[1,2,1] k = {2, 4}, float[1] b = {0}> { y = Conv(x, k, b) }",
    )


def _pads(attributes: Mapping[str, Any]) -> bool:
    """Whether a convolution with these attributes may pad its input with zeros."""
    return any(attributes.get("pads", ())) or attributes.get("auto_pad", "NOTSET") not in (
        "NOTSET",
        "VALID",
    )


def _absorbed(
    g: GraphView, weight: str, bias: str, group: int, affine: ChannelAffine
) -> tuple[Array, Array]:
    """Weights and bias of a Conv that includes the scale and shift of its input.

    Raises:
        Declined: when a new constant leaves the range of its type, or is a sum that cancels.
    """
    scaled, shifts, sizes = (
        _weigh_inputs(g, weight, factor, group)
        for factor in (affine.scale, affine.shift, affine.size)
    )
    # The bias of an output channel adds the products of all its weights and the shifts.
    shift = shifts.reshape(len(shifts), -1).sum(axis=1)
    size = abs(sizes).reshape(len(sizes), -1).sum(axis=1)
    old_bias, dtype = doubles(g, bias), constant(g, weight).dtype
    terms = (old_bias, np.maximum(abs(shift), size))
    return (
        rounded(scaled, dtype, summed=tuple(range(1, scaled.ndim))),
        rounded(old_bias + shift, dtype, terms=terms),
    )


@np.errstate(all="ignore")
def _weigh_inputs(g: GraphView, weight: str, factor: Array, group: int) -> Array:
    """Weights of a Conv times a factor for each input channel, in float64.

    The weights have the shape (M, C / group, ...) for C input channels.
    """
    weights = doubles(g, weight)
    shape = (group, -1, *weights.shape[1:])
    weighed = weights.reshape(shape) * factor.reshape(group, 1, -1, *(1 for _ in weights.shape[2:]))
    return weighed.reshape(weights.shape)
