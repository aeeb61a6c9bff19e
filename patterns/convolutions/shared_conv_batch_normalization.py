from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._channels import normalization_of, scale_outputs
from .._folding import Array, cancels, constant, doubles, is_moderate, median, rounded
from .._nodes import is_op

Parameters: TypeAlias = tuple[Array, ...]
_Written: TypeAlias = tuple[Node, str, Parameters, Sequence[str]]
"""A node to write again: its first operand, the constants that are the others, and its results."""


class _Affine(NamedTuple):
    """A normalization as c · scale + shift for each channel, in double precision."""

    scale: Array
    shift: Array


class SharedConvBatchNormalizationPattern(PatternOptimization):
    """c = Conv(x, w, b), BatchNormalization(c), BatchNormalization(c) → c = Conv(x, w', b'),
    BatchNormalization(c)

    What: folds one of the normalizations into the convolution, and writes the others as functions
    of its result.
    Why: a node less, in the same time. A convolution for each normalization takes 1.6 times the
    time of one of 1 by 1 with two normalizations, and twice the time with three.
    Refuses when:
    1. something else than normalizations outside of training reads the convolution, or only one of
       them.
    2. weights, bias or parameters are not constant, a variance is negative, or a mean is very large
       next to the deviation.
    3. the normalization cannot be undone: a factor is 0, tiny or very large, or a summand takes the
       digits of another one.
    4. a new constant leaves the range of its type.
    """

    anchors = ("BatchNormalization",)
    near = ("Conv", "ConvTranspose")
    phase = "specialize"
    priority = 9  # after the patterns that fold what follows a normalization into it
    exactness = "rounding"
    min_opset = 7

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Look for a convolution whose other readers are functions of this normalization.
        conv, readers = g.node_before(node.input[0]), g.next_nodes(node.input[0])
        # (1)
        if (
            not is_op(conv, *self.near)
            or len(readers) < 2
            or not g.is_used_only_by(node.input[0], *readers)
        ):
            return self.none(node, msg="the operand is not a convolution with several consumers")
        # (1) (2)
        maps = [
            _Affine(*found) for each in readers if (found := normalization_of(g, each)) is not None
        ]
        # (1) (2)
        if len(maps) < len(readers) or not all(map(g.is_constant, filter(None, conv.input[1:]))):
            return self.none(
                conv, msg="a consumer is not a constant normalization, or a mean is too large"
            )
        base, dtype = maps[readers.index(node)], constant(g, conv.input[1]).dtype
        if not all(_follows(each, base, dtype) for each in maps):  # (3)
            return self.none(
                node, msg="the other normalizations would lose precision as functions of this one"
            )
        given, group = (
            doubles(g, conv.input[2] if len(conv.input) > 2 else ""),
            conv.attribute.get("group", 1),
        )
        weight = scale_outputs(
            g, conv.input[1], base.scale, transposed=conv.op_type == "ConvTranspose", group=group
        )
        bias = rounded(given * base.scale + base.shift, dtype, terms=())  # (4)
        written: list[_Written] = [(conv, conv.input[0], (weight, bias), node.output)]
        for each, one in zip(readers, maps, strict=True):
            if one is not base:
                written.append((each, node.output[0], _derived(g, each, one, base), each.output))
        return MatchResult(self, [conv, *readers], partial(self._rebase, written))

    def _rebase(self, written: Sequence[_Written], g: PatternRewriter, *_: Node) -> list[Node]:
        made = []
        for node, source, parameters, result in written:
            operands = [g.make_initializer("", array) for array in parameters]
            made.append(g.make_node(node.op_type, [source, *operands], result, **node.attribute))
        return made

    _first = (
        "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}"
    )
    _other = "float[2] q = {4, 2}, float[2] p = {1, 3}"
    _statistics = "float[2] m = {0, 0}, float[2] v = {1, 1}"
    _outputs = "(float[n,2,h] y, float[n,2,h] z)"
    _normalized = "BatchNormalization <epsilon = 0.25>"
    examples = Example.pairs(
        f"agraph (float[n,1,h] x) => {_outputs} <float[2,1,1] k = {{1, 2}}, {_first}, {_other}> "
        f"{{ c = Conv(x, k) y = {_normalized} (c, s, o, m, v) z = {_normalized} (c, q, p, m, v) }}",
        "<float[2,1,1] k = {2, 4}, float[2] b = {-2, 1}, float[2] q = {2.236068, 0.559017}, "
        f"float[2] p = {{1, 2.5}}, {_statistics}> {{ y = Conv(x, k, b) "
        f"z = {_normalized} (y, q, p, m, v) }}",
        f"agraph (float[n,2,h] x) => {_outputs} <float[2,1,1] k = {{1, 2}}, float[2] b = {{1, "
        "-1}, float[2] s = {2, 0}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] "
        f"v = {{0.75, 3.75}}, {_other}> {{ c = ConvTranspose <group = 2> (x, k, b) "
        f"y = {_normalized} (c, s, o, m, v) z = {_normalized} (c, q, p, m, v) }}",
        "<float[2,1,1] k = {4, 2}, float[2] b = {1, 2}, float[2] q = {0.559017, 0}, "
        f"float[2] p = {{-0.5, 1}}, {_statistics}> {{ "
        f"z = ConvTranspose <group = 2> (x, k, b) y = {_normalized} (z, q, p, m, v) }}",
    )


@np.errstate(all="ignore")
def _follows(one: _Affine, base: _Affine, dtype: np.dtype) -> bool:
    """Whether the results of a normalization keep their digits when they are computed from the
    results of another one.
    """
    ratio, usual = (
        one.scale / base.scale,
        np.maximum(np.abs(one.shift), median(np.abs(one.shift))),
    )
    undone = bool(base.scale.all()) and is_moderate(base.scale, dtype) and is_moderate(ratio, dtype)
    return undone and (one is base or not cancels([ratio * base.shift], usual, dtype))


def _derived(g: GraphView, node: Node, one: _Affine, base: _Affine) -> Parameters:
    """The parameters of a normalization of the results of another one."""
    ratio = one.scale / base.scale
    types = [constant(g, name).dtype for name in node.input[1:]]
    scale = rounded(ratio * np.sqrt(1 + node.get_attribute("epsilon")), types[0])
    bias = rounded(one.shift - ratio * base.shift, types[1], terms=())
    return scale, bias, np.zeros(len(ratio), types[2]), np.ones(len(ratio), types[3])
