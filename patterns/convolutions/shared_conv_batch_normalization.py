from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._channels import ChannelAffine, affine_of, is_inference_normalization, scale_outputs
from .._folding import Array, cancels, constant, doubles, is_moderate, median, rounded
from .._nodes import is_op

Parameters: TypeAlias = tuple[Array, ...]
_Copy: TypeAlias = tuple[Node, str, Parameters, Sequence[str]]
"""A node to write again: the node, its new first operand, its new constants, and its results."""


class SharedConvBatchNormalizationPattern(PatternOptimization):
    """c = Conv(x, w, b), BatchNormalization(c), BatchNormalization(c) → c = Conv(x, w', b'),
    BatchNormalization(c)

    What: folds one of several normalizations of a convolution into its weights. The other
    normalizations read the new result, with new parameters.
    Why: one node fewer, in the same time. The alternative, a 1x1 convolution per normalization,
    takes 1.6 times as long for two, and twice as long for three.
    Refuses when:
    1. a consumer of the convolution is not a BatchNormalization in inference mode, or there is only
       one.
    2. weights, bias or parameters are not constant, a variance is negative, or a mean is very large
       compared with its standard deviation.
    3. the folded normalization cannot be inverted: a factor is 0, tiny or very large, or a sum
       cancels.
    4. a new constant leaves the range of its type.
    """

    anchors = ("BatchNormalization",)
    near = ("Conv", "ConvTranspose")
    phase = "specialize"
    priority = 9  # after the patterns that fold what follows a normalization into it
    exactness = "rounding"
    min_opset = 7

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # This normalization is folded; the other readers of the convolution become functions of it.
        conv, readers = g.node_before(node.input[0]), g.next_nodes(node.input[0])
        # (1)
        if (
            not is_op(conv, *self.near)
            or len(readers) < 2
            or not g.is_used_only_by(node.input[0], *readers)
        ):
            return self.none(node, msg="the operand is not a convolution with several consumers")
        maps = [
            affine_of(g, reader, node.input[0])
            for reader in readers
            if is_inference_normalization(reader)
        ]  # (2)
        # (1) (2)
        if len(maps) < len(readers) or not all(map(g.is_constant, filter(None, conv.input[1:]))):
            return self.none(
                conv, msg="a consumer is not a constant normalization, or a mean is too large"
            )
        base, dtype = maps[readers.index(node)], constant(g, conv.input[1]).dtype
        if not all(_follows(affine, base, dtype) for affine in maps):  # (3)
            return self.none(
                node, msg="the other normalizations would lose precision as functions of this one"
            )
        old_bias = doubles(g, conv.input[2] if len(conv.input) > 2 else "")
        is_transposed, group = conv.op_type == "ConvTranspose", conv.attribute.get("group", 1)
        weight = scale_outputs(g, conv.input[1], base.scale, transposed=is_transposed, group=group)
        bias = base.bias(old_bias, dtype)  # (4)
        copies: list[_Copy] = [(conv, conv.input[0], (weight, bias), node.output)]
        for reader, affine in zip(readers, maps, strict=True):
            if affine is not base:
                copies.append(
                    (reader, node.output[0], _derived(g, reader, affine, base), reader.output)
                )
        return MatchResult(self, [conv, *readers], partial(self._rebase, copies))

    def _rebase(self, copies: Sequence[_Copy], g: PatternRewriter, *_: Node) -> list[Node]:
        nodes = []
        for node, source, parameters, result in copies:
            operands = [g.make_initializer("", array) for array in parameters]
            nodes.append(g.make_node(node.op_type, [source, *operands], result, **node.attribute))
        return nodes

    _first = (
        "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}"
    )
    _second = "float[2] q = {4, 2}, float[2] p = {1, 3}"
    _statistics = "float[2] m = {0, 0}, float[2] v = {1, 1}"
    _outputs = "(float[n,2,h] y, float[n,2,h] z)"
    _normalized = "BatchNormalization <epsilon = 0.25>"
    examples = Example.pairs(
        f"agraph (float[n,1,h] x) => {_outputs} <float[2,1,1] k = {{1, 2}}, {_first}, {_second}> "
        f"{{ c = Conv(x, k) y = {_normalized} (c, s, o, m, v) z = {_normalized} (c, q, p, m, v) }}",
        "<float[2,1,1] k = {2, 4}, float[2] b = {-2, 1}, float[2] q = {2.236068, 0.559017}, "
        f"float[2] p = {{1, 2.5}}, {_statistics}> {{ y = Conv(x, k, b) "
        f"z = {_normalized} (y, q, p, m, v) }}",
        f"agraph (float[n,2,h] x) => {_outputs} <float[2,1,1] k = {{1, 2}}, float[2] b = {{1, "
        "-1}, float[2] s = {2, 0}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] "
        f"v = {{0.75, 3.75}}, {_second}> {{ c = ConvTranspose <group = 2> (x, k, b) "
        f"y = {_normalized} (c, s, o, m, v) z = {_normalized} (c, q, p, m, v) }}",
        "<float[2,1,1] k = {4, 2}, float[2] b = {1, 2}, float[2] q = {0.559017, 0}, "
        f"float[2] p = {{-0.5, 1}}, {_statistics}> {{ "
        f"z = ConvTranspose <group = 2> (x, k, b) y = {_normalized} (z, q, p, m, v) }}",
    )


@np.errstate(all="ignore")
def _follows(affine: ChannelAffine, base: ChannelAffine, dtype: np.dtype) -> bool:
    """Whether normalization ``affine`` keeps its precision if it reads the output of ``base``."""
    ratio, magnitude = (
        affine.scale / base.scale,
        np.maximum(np.abs(affine.shift), median(np.abs(affine.shift))),
    )
    is_invertible = (
        bool(base.scale.all()) and is_moderate(base.scale, dtype) and is_moderate(ratio, dtype)
    )
    return is_invertible and (affine is base or not cancels([ratio * base.shift], magnitude, dtype))


def _derived(g: GraphView, node: Node, affine: ChannelAffine, base: ChannelAffine) -> Parameters:
    """The parameters that make a BatchNormalization of the result of ``base`` equal ``affine``."""
    ratio = affine.scale / base.scale
    types = [constant(g, name).dtype for name in node.input[1:]]
    scale = rounded(ratio * np.sqrt(1 + node.get_attribute("epsilon")), types[0])
    bias = rounded(affine.shift - ratio * base.shift, types[1], terms=())
    return scale, bias, np.zeros(len(ratio), types[2]), np.ones(len(ratio), types[3])
