"""Sums of convolutions of one input."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization
from xoptim.operators.windows import SAME

from .._channels import affine_above
from .._folding import Array, constant, doubles, rounded, weight_sum
from .._nodes import is_op, replaced_by

_STEPS: Final = ("Mul", "Div", "Add", "Sub", "BatchNormalization")


class ConvConvAddPattern(PatternOptimization):
    """Conv(x, v, b) + Conv(x, w, c) → Conv(x, v + w, b + c)

    What: adds the weights of the smaller window to those of the larger one. An operand may also be
    x, scaled and shifted per channel or not, which is a window of one element; or a convolution
    followed by one of 1 by 1, as a LoRA adapter is. RepVGG and MobileOne are trained with such
    branches.
    Why: measured 0.90 of the time for windows of 3 and 1 with 64 channels, 0.80 for depthwise ones,
    and 0.84 for a window of 1 and x.
    Refuses when:
    1. neither operand is a convolution, or something else reads the result of one.
    2. the inputs, strides, groups or numbers of channels differ.
    3. the smaller window does not lie within the larger one, or the larger one is that of two
       convolutions in a row.
    4. a weight or bias is not constant, or a weight is read elsewhere: it would be stored twice.
    5. a new constant leaves the range of its type, or is a sum that cancels.
    """

    anchors = ("Add",)
    near = ("Conv",)
    phase = "specialize"
    priority = 6  # after the patterns that fold normalizations into the convolutions
    exactness = "finite"  # infinity times weights of both signs is NaN, times their sum it is not
    min_opset = 7

    @np.errstate(all="ignore")  # numbers that are not finite are refused where they are rounded
    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        branches = [_conv(g, name) for name in node.input]
        first = next((branch for branch in branches if branch is not None), None)
        if first is None:  # (1) (4)
            return self.none(node, msg="no operand is a convolution with constants of its own")
        second = branches[1] if branches[0] is not None else None
        if second is None:
            skip = node.input[1 if branches[0] is not None else 0]
            second = _skip(g, skip, first)
        if second is None or second.key != first.key:  # (2)
            return self.none(node, msg="the operands are not convolutions of one input")
        small, large = sorted((first, second), key=_rank)
        places = _places(large, small)
        if places is None or len(large.nodes) != 1:  # (3)
            return self.none(node, msg="no window of one convolution contains the other one")
        (conv,) = large.nodes
        dtype = constant(g, conv.input[1]).dtype
        weight = large.weight.copy()
        overlap = np.ix_(*map(np.arange, weight.shape[:2]), *places)
        weight[overlap] = weight_sum(weight[overlap], small.weight, dtype)  # (5)
        operands = [rounded(weight, dtype, summed=tuple(range(1, weight.ndim)))]  # (5)
        if large.biased or small.biased:
            terms = (large.bias, small.bias)
            total = np.broadcast_to(large.bias + small.bias, len(weight))
            operands.append(rounded(total, dtype, terms=terms))  # (5)
        return MatchResult(
            self,
            [*large.nodes, *small.nodes, node],
            replaced_by("Conv", large.source, *operands, **conv.attribute),
        )

    examples = Example.pairs(
        "agraph (float[n,1,h] x) => (float[n,2,h] y) <float[2,1,3] v = {1, 2, 3, 4, 5, 6}, "
        "float[2] b = {1, 2}, float[2,1,1] w = {7, 8}> { p = Conv <pads = [1, 1]> (x, v, b) "
        "q = Conv(x, w) y = Add(p, q) }",
        "<float[2,1,3] v = {1, 9, 3, 4, 13, 6}, float[2] b = {1, 2}> { "
        "y = Conv <pads = [1, 1]> (x, v, b) }",
        "agraph (float[n,2,h] x) => (float[n,2,h] y) <float[2,1,3] v = {1, 2, 3, 4, 5, 6}, "
        "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v2 = {0.75, "
        "3.75}> { p = Conv <pads = [1, 1], group = 2> (x, v) "
        "q = BatchNormalization <epsilon = 0.25> (x, s, o, m, v2) y = Add(q, p) }",
        "<float[2,1,3] v = {1, 4, 3, 4, 7, 6}, float[2] b = {-2, 1}> { "
        "y = Conv <pads = [1, 1], group = 2> (x, v, b) }",
        "agraph (float[n,2,h] x) => (float[n,2,k] y) <float[2,2,3] v = {1, 2, 3, 4, 5, 6, 7, 8, "
        "9, 8, 7, 6}, float[1,2,3] w = {1, 2, 3, 1, 2, 3}, float[2,1,1] u = {2, 3}> { "
        "p = Conv <strides = [2]> (x, v) t = Conv <strides = [2]> (x, w) q = Conv(t, u) "
        "y = Add(p, q) }",
        "<float[2,2,3] v = {3, 6, 9, 6, 9, 12, 10, 14, 18, 11, 13, 15}> { "
        "y = Conv <strides = [2]> (x, v) }",
    )


@dataclass(frozen=True)
class _Branch:
    """A convolution.

    Attributes:
        source: the name of x.
        nodes: those that compute it; none for x itself.
        weight: (M, C / group, ...) in double precision.
        bias: (M) in double precision, or zero.
        biased: whether a node adds something.
        strides: one for each axis of the window.
        dilations: the same.
        pads: all begins before all ends.
        group: number of groups.
    """

    source: str
    nodes: tuple[Node, ...]
    weight: Array
    bias: Array
    biased: bool
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    group: int

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for branches whose sum may be one convolution (2)."""
        return self.source, self.strides, self.group, self.weight.shape[:2]

    @property
    def window(self) -> tuple[int, ...]:
        """The lengths of the window."""
        return tuple(self.weight.shape[2:])


def _rank(branch: _Branch) -> tuple[int, bool]:
    """Larger for the branch that computes the sum: the larger window, else one node."""
    return math.prod(branch.window), len(branch.nodes) == 1 and is_op(branch.nodes[0], "Conv")


def _conv(g: GraphView, name: str) -> _Branch | None:
    """A convolution that nothing else reads, or two in a row, the second one of 1 by 1 (1), (4)."""
    branch = _one_conv(g, name)
    if branch is None or set(branch.window) != {1} or branch.group != 1:
        return branch
    first = _one_conv(g, branch.source)
    if first is None or first.group != 1 or {*branch.strides} != {1} or any(branch.pads):
        return branch
    columns = branch.weight.reshape(branch.weight.shape[:2])
    return replace(
        first,
        nodes=(*first.nodes, *branch.nodes),
        weight=np.tensordot(columns, first.weight, 1),
        bias=columns @ np.broadcast_to(first.bias, columns.shape[1]) + branch.bias,
        biased=first.biased or branch.biased,
    )


def _one_conv(g: GraphView, name: str) -> _Branch | None:
    node = g.node_before(name)
    if not is_op(node, "Conv") or not g.is_exclusive(name):
        return None
    x, kernel, *bias = node.input
    if not all(g.is_constant(operand) for operand in (kernel, *filter(None, bias))):
        return None
    weight = doubles(g, kernel)
    if not g.is_used_only_by(kernel, node) or not weight.size:
        return None
    axes = weight.ndim - 2
    strides, dilations = (
        tuple(node.attribute.get(name, [1] * axes)) for name in ("strides", "dilations")
    )
    pads = _pads(node, weight.shape[2:], strides, dilations)
    if pads is None:
        return None
    summand = doubles(g, bias[0] if bias else "")
    group = node.get_attribute("group")
    return _Branch(x, (node,), weight, summand, any(bias), strides, dilations, pads, group)


def _pads(
    node: Node, window: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Zeros before and after each axis, ``None`` where they depend on the size of the input."""
    mode = node.attribute.get("auto_pad", "NOTSET")
    if mode not in SAME:
        return tuple(node.attribute.get("pads") or [0] * (2 * len(window)))
    if {*strides} != {1} or node.attribute.get("pads") is not None:
        return None
    totals = [(length - 1) * step for length, step in zip(window, dilations, strict=True)]
    halves = [total // 2 for total in totals]
    rest = [total - half for total, half in zip(totals, halves, strict=True)]
    return (*halves, *rest) if mode == "SAME_UPPER" else (*rest, *halves)


def _skip(g: GraphView, name: str, conv: _Branch) -> _Branch | None:
    """The input of a convolution, scaled and shifted per channel or not, as a convolution."""
    outputs, channels = conv.weight.shape[0], conv.weight.shape[1] * conv.group
    if outputs != channels or {*conv.strides} != {1}:
        return None
    affine = affine_above(g, name, 1, channels, _STEPS, shifts=True)
    if affine.source != conv.source or g.info(name).rank != conv.weight.ndim:
        return None
    ones = (1,) * len(conv.window)
    weight = np.zeros((*conv.weight.shape[:2], *ones))
    rows = np.arange(channels)
    weight[rows, rows % weight.shape[1]] = affine.scale.reshape(-1, *ones)
    pads = (0,) * len(conv.pads)
    return replace(
        conv,
        nodes=affine.nodes[::-1],
        weight=weight,
        bias=affine.shift,
        biased=affine.shifts and bool(affine.nodes),
        dilations=ones,
        pads=pads,
    )


def _places(large: _Branch, small: _Branch) -> list[list[int]] | None:
    """For each axis, the elements of the larger window that read what the smaller one reads (3)."""
    axes = len(large.window)
    places = []
    for axis, (length, window) in enumerate(zip(small.window, large.window, strict=True)):
        step, dilation = small.dilations[axis], large.dilations[axis]
        start = large.pads[axis] - small.pads[axis]
        end = large.pads[axes + axis] - small.pads[axes + axis]
        taps = [start + step * place for place in range(length)]
        spare = (window - 1) * dilation - (length - 1) * step
        if start + end != spare or any(tap % dilation for tap in taps):
            return None
        indices = [tap // dilation for tap in taps]
        if indices[0] < 0 or indices[-1] >= window:
            return None
        places.append(indices)
    return places
