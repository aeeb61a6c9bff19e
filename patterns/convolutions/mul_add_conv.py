from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._channels import Affine, affine_above, weigh_inputs
from .._folding import Array, constant, doubles, rounded
from .._nodes import is_op, replaced_by

_STEPS: Final = ("Mul", "Div", "Add", "Sub", "BatchNormalization")


class MulAddConvPattern(PatternOptimization):
    """Conv(x · s + o, w, b) → Conv(x, w · s, b + Σ w · o)

    What: moves factors and summands of each input channel into weights and bias, any number of them
    in a row; the same for quotients, differences and BatchNormalization. Images are scaled this way
    before the first convolution.
    Why: saves a pass over the input for each.
    Refuses when:
    1. weights or bias are not constant or not finite, or the number of channels is not known.
    2. a constant differs along another axis, changes the shape or is not finite, a factor is
       extreme, or is read elsewhere; a parameter of a normalization is not constant or finite, a
       variance is negative, or a mean is far above the deviation.
    3. there is a summand, and the convolution may pad: nothing was added to these zeros.
    4. a new constant leaves the range of its type, or is a sum that cancels.
    5. the first constant scales a product of two tensors, as in Gelu and HardSwish, which runtimes
       fuse.
    """

    anchors = ("Conv",)
    near = _STEPS
    phase = "specialize"
    # a normalization between two convolutions would give the first one a bias
    before = ("ConvBatchNormalization",)
    exactness = "rounding"
    min_opset = 7
    radius = 4
    former_names = ("BatchNormalizationConv",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        weight, *bias = node.input[1:]
        shape, group = g.static_shape(weight), g.get_attribute(node, "group", 1)
        if shape is None or not all(g.is_constant(name) for name in (weight, *bias) if name):  # (1)
            return self.none(node, msg="the weight or bias is not constant")
        # (3)
        above = partial(
            affine_above, g, node.input[0], 1, shape[1] * group, shifts=not _pads(node.attribute)
        )
        affine = above(_STEPS)
        if not affine.nodes:  # (2)
            return self.none(node, msg="no operator with one constant per channel precedes it")
        # (5)
        if is_op(last := affine.nodes[-1], *_STEPS[:4]) and is_op(
            g.node_before(affine.source), "Mul"
        ):
            affine = above(_STEPS[4:])
            if not affine.nodes:
                return self.none(
                    last, msg="the factor may belong to an activation, which runtimes fuse"
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
    """Whether a convolution of these attributes may add zeros around its input."""
    return any(attributes.get("pads", ())) or attributes.get("auto_pad", "NOTSET") not in (
        "NOTSET",
        "VALID",
    )


def _absorbed(
    g: GraphView, weight: str, bias: str, group: int, affine: Affine
) -> tuple[Array, Array]:
    """Weights and bias of a Conv that computes an affine map of its input as well.

    Raises:
        Declined: when a new constant leaves the range of its type, or is a sum that cancels.
    """
    scaled, *sums = (
        weigh_inputs(g, weight, factor, group)
        for factor in (affine.scale, affine.shift, affine.size)
    )
    shift, size = (terms.reshape(len(terms), -1).sum(axis=1) for terms in (sums[0], abs(sums[1])))
    present, dtype = doubles(g, bias), constant(g, weight).dtype
    terms = (present, np.maximum(abs(shift), size))
    return rounded(scaled, dtype, summed=tuple(range(1, scaled.ndim))), rounded(
        present + shift, dtype, terms=terms
    )
