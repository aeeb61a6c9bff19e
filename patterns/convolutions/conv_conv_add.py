"""Sums of convolutions of one input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization
from xoptim.operators.windows import SAME

from .._channels import ChannelAffine, affine_above
from .._folding import Array, doubles, rounded, weight_sum
from .._nodes import is_op, replaced_by

_AFFINE: Final = ("Mul", "Div", "Add", "Sub", "BatchNormalization")
"""Operators that scale and shift channels, if their other operands are constant."""


class ConvConvAddPattern(PatternOptimization):
    """Conv(x, v, b) + Conv(x, w, c) → Conv(x, v + w, b + c)

    What: adds the weights of the smaller window to the weights of the larger one. An operand may
    also be x itself, possibly with a scale and shift per channel: this is a 1x1 convolution. Or it
    is a convolution followed by a 1x1 convolution, as in a LoRA adapter. RepVGG and MobileOne are
    trained with such branches.
    Why: measured 0.90 of the time for windows of 3 and 1 with 64 channels, 0.80 if they are
    depthwise, and 0.84 for a window of 1 and x.
    Refuses when:
    1. neither operand is a convolution, or another node reads the result of one.
    2. the inputs, strides, groups or numbers of channels differ.
    3. the smaller window does not lie within the larger one, or the larger one belongs to two
       convolutions in a row.
    4. a weight or bias is not constant, or another node reads a weight, so that it would be stored
       twice.
    5. a new constant leaves the range of its type, or is a sum that cancels.
    """

    anchors = ("Add",)
    near = ("Conv",)
    phase = "specialize"
    priority = 6  # after the patterns that fold normalizations into the convolutions
    # The original gives NaN for an infinity times weights of opposite signs; their sum does not.
    exactness = "finite"
    min_opset = 7

    @np.errstate(all="ignore")  # numbers that are not finite are refused where they are rounded
    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        branches = [_conv(g, name) for name in node.input]
        conv = next((branch for branch in branches if branch is not None), None)
        if conv is None:  # (1) (4)
            return self.none(
                node, msg="no operand is a convolution with constant weights that only it reads"
            )
        addend = branches[1] if branches[0] is not None else None
        if addend is None:
            addend = _skip(g, node.input[0 if branches[0] is None else 1], conv)
        if addend is None or addend.key != conv.key:  # (2)
            return self.none(node, msg="the operands are not convolutions of one input")
        small, large = sorted((conv, addend), key=_window_size)
        places = _places(large, small)
        if places is None or len(large.nodes) != 1:  # (3)
            return self.none(
                node,
                msg="neither window contains the other, or the larger belongs to two convolutions",
            )
        operands = _sum(g, large, small, places)
        write = replaced_by("Conv", large.source, *operands, **large.nodes[0].attribute)
        return MatchResult(self, [*large.nodes, *small.nodes, node], write)

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
    """An operand of the Add, as one convolution.

    Attributes:
        source: the name of x.
        nodes: the nodes that compute the operand; none for x itself.
        values: returns weight and bias in float64; the bias may be one number.
        channels: the first two dimensions of the weight.
        window: the other dimensions of the weight.
        is_biased: whether the convolution has a bias.
        strides: one for each axis of the window.
        dilations: one for each axis of the window.
        pads: all begins, then all ends.
        group: number of groups.
    """

    source: str
    nodes: tuple[Node, ...]
    values: Callable[[], tuple[Array, Array]]
    channels: tuple[int, int]
    window: tuple[int, ...]
    is_biased: bool
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    group: int

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for branches whose sum may be one convolution (2)."""
        return self.source, self.strides, self.group, self.channels, len(self.window)


def _window_size(branch: _Branch) -> tuple[int, bool]:
    """A sort key: the number of elements of the window.

    Of two branches with equal windows, a single Conv comes last: its node computes the sum.
    """
    return math.prod(branch.window), len(branch.nodes) == 1 and is_op(branch.nodes[0], "Conv")


def _conv(g: GraphView, name: str) -> _Branch | None:
    """The convolution that computes a tensor; ``None`` if another operator computes it.

    A 1x1 convolution is merged with a convolution that precedes it. No other node reads their
    results and weights (1), (4).
    """
    last = _one_conv(g, name)
    if last is None or {*last.window, *last.strides} != {1} or last.group != 1 or any(last.pads):
        return last
    first = _one_conv(g, last.source)
    if first is None or first.group != 1:
        return last
    return replace(
        first,
        nodes=(*first.nodes, *last.nodes),
        values=partial(_composition, first, last),
        channels=(last.channels[0], first.channels[1]),
        is_biased=first.is_biased or last.is_biased,
    )


def _composition(first: _Branch, last: _Branch) -> tuple[Array, Array]:
    """Weight and bias of the convolution that equals ``first`` followed by the 1x1 ``last``."""
    (weight, bias), (kernel, addend) = first.values(), last.values()
    matrix = kernel.reshape(last.channels)
    bias = matrix @ np.broadcast_to(bias, len(weight)) + addend
    return np.tensordot(matrix, weight, 1), bias


def _one_conv(g: GraphView, name: str) -> _Branch | None:
    node = g.node_before(name)
    if not is_op(node, "Conv") or not g.is_exclusive(name):
        return None
    x, kernel, *bias = node.input
    shape = g.static_shape(kernel)
    if not all(g.is_constant(operand) for operand in (kernel, *filter(None, bias))):
        return None
    if not g.is_used_only_by(kernel, node) or shape is None or 0 in shape:
        return None
    outputs, inputs, *window = shape
    strides, dilations = (
        tuple(node.attribute.get(name, [1] * len(window))) for name in ("strides", "dilations")
    )
    pads = _pads(node, window, strides, dilations)
    if pads is None:
        return None
    return _Branch(
        x,
        (node,),
        lambda: (doubles(g, kernel), doubles(g, bias[0] if bias else "")),
        (outputs, inputs),
        tuple(window),
        any(bias),
        strides,
        dilations,
        pads,
        node.get_attribute("group"),
    )


def _pads(
    node: Node, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...] | None:
    """The zeros before and after each axis; ``None`` if they depend on the size of the input."""
    mode = node.attribute.get("auto_pad", "NOTSET")
    if mode not in SAME:
        return tuple(node.attribute.get("pads") or [0] * (2 * len(window)))
    if {*strides} != {1} or node.attribute.get("pads") is not None:
        return None
    totals = [(length - 1) * step for length, step in zip(window, dilations, strict=True)]
    halves = [total // 2 for total in totals]
    larger = [total - half for total, half in zip(totals, halves, strict=True)]
    return (*halves, *larger) if mode == "SAME_UPPER" else (*larger, *halves)


def _skip(g: GraphView, name: str, conv: _Branch) -> _Branch | None:
    """The input of a convolution, possibly scaled and shifted per channel, as a 1x1 convolution.

    ``None`` if the tensor does not come from the input of ``conv`` in this way.
    """
    outputs, inputs = conv.channels
    if outputs != inputs * conv.group or {*conv.strides} != {1}:
        return None
    affine = affine_above(g, name, 1, outputs, _AFFINE, shifts=True)
    if affine.source != conv.source:
        return None
    return replace(
        conv,
        nodes=affine.nodes[::-1],
        values=partial(_diagonal, affine, conv.channels, len(conv.window)),
        window=(1,) * len(conv.window),
        is_biased=affine.shifts and bool(affine.nodes),
        dilations=(1,) * len(conv.window),
        pads=(0,) * len(conv.pads),
    )


def _diagonal(affine: ChannelAffine, channels: tuple[int, int], axes: int) -> tuple[Array, Array]:
    """Weight and bias of the 1x1 convolution that scales and shifts each channel."""
    weight = np.zeros((*channels, *(1,) * axes))
    rows = np.arange(channels[0])
    weight[rows, rows % channels[1]] = affine.scale.reshape(-1, *(1,) * axes)
    return weight, affine.shift


def _places(large: _Branch, small: _Branch) -> list[list[int]] | None:
    """For each axis, where the elements of the smaller window lie in the larger window (3).

    ``None`` if they do not lie in it.
    """
    axes = len(large.window)
    places = []
    for axis, (length, window) in enumerate(zip(small.window, large.window, strict=True)):
        step, dilation = small.dilations[axis], large.dilations[axis]
        start = large.pads[axis] - small.pads[axis]
        end = large.pads[axes + axis] - small.pads[axes + axis]
        taps = [start + step * place for place in range(length)]
        # Both results have the same size if the pads differ by as much as the windows.
        difference = (window - 1) * dilation - (length - 1) * step
        if start + end != difference or any(tap % dilation for tap in taps):
            return None
        indices = [tap // dilation for tap in taps]
        if indices[0] < 0 or indices[-1] >= window:
            return None
        places.append(indices)
    return places


def _sum(
    g: GraphView, large: _Branch, small: _Branch, places: Sequence[Sequence[int]]
) -> Iterator[Array]:
    """The weight of the sum of two convolutions, and its bias if it has one (5).

    Raises:
        Declined: when a constant leaves the range of its type, or is a sum that cancels.
    """
    dtype = numpy_dtype(g.try_infer_type(large.nodes[0].input[1]))
    (weight, bias), (kernel, addend) = large.values(), small.values()
    overlap = np.ix_(*map(np.arange, large.channels), *places)
    weight[overlap] = weight_sum(weight[overlap], kernel, dtype)
    yield rounded(weight, dtype, summed=tuple(range(1, weight.ndim)))
    if large.is_biased or small.is_biased:
        total = np.broadcast_to(bias + addend, len(weight))
        yield rounded(total, dtype, terms=(bias, addend))
