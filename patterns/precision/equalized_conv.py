from functools import partial
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternRewriter
from xoptim.match.rounding import Channels, Numbers, ScalingPattern

from .._channels import scale_outputs, weigh_inputs
from .._folding import Array, constant, doubles, rounded
from .._nodes import is_op
from ._rounding import is_roundable
from ._scaling import scales

_BETWEEN: Final = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool")
"""Operators with which a positive factor of a channel may change places."""


class EqualizedConvPattern(ScalingPattern):
    """Conv(Relu(Conv(x, v, b)), w) → Conv(Relu(Conv(x, v / s, b / s)), w · s)

    What: moves a scale of each channel from a convolution to the weights of all convolutions that read it (cross-layer
    equalization), through Relu, LeakyRelu and pools. Scales are powers of two, 1 at least, so that no digit changes, but of
    numbers that become smaller than the type holds in full.
    Why: where few channels are much larger than the others, one scale for all rounds the others to few integers. It is applied
    before convolutions are rounded to 8 bits, where the error on samples becomes smaller (docs/precision.md).
    Refuses when:
    1. weights and bias are not constants of 32-bit floats, or something else reads them.
    2. something else than convolutions reads the result.
    3. no scales are expected to make the error smaller, by the channels on samples, or without samples by the weights.
    """

    phase = "target"
    exactness = "rounding"
    providers = ("cpu",)
    tags = ("int8", "extra")
    anchors = ("Conv",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        between, y = list[Node](), node.output[0]
        while g.is_exclusive(y) and is_op(after := g.next_node(y), *_BETWEEN) and len(after.output) == 1:
            between.append(after)
            y = after.output[0]
        readers = g.next_nodes(y)
        if not readers or not g.is_used_only_by(y, *readers):  # (2)
            return self.none(node, msg="the result is read by something else than convolutions")
        if not all(is_op(each, "Conv") and each.input[0] == y and [*each.input].count(y) == 1 for each in readers):  # (2)
            return self.none(node, msg="the result is read by something else than convolutions")
        stored = [*node.input[1:], *(each.input[1] for each in readers)]
        if not all(_is_stored(g, name, node, *readers) for name in stored if name):  # (1)
            return self.none(node, msg="weights that are not constants of 32-bit floats, or are read elsewhere")
        if not all(is_roundable(constant(g, name)) for name in stored if name):
            return self.none(node, msg="numbers that are not finite, or too large")
        channels = _channels(g, node, between) if self.channels is None else self.channels.get(y)
        if channels is None or len(channels.low) != len(constant(g, node.input[1])):  # (3)
            return self.none(node, msg="no sample tells the channels")
        found = scales(channels, [_grouped(g, each) for each in readers])  # (3)
        return MatchResult(self, [node, *between, *readers], partial(self._replace, found, len(between)))

    @staticmethod
    def _replace(scale: Numbers, count: int, g: PatternRewriter, node: Node, *others: Node) -> list[Node]:
        between, readers = others[:count], others[count:]
        x, weights, bias = [*node.input, ""][:3]
        names = [x, g.make_initializer("", scale_outputs(g, weights, 1 / scale), source=weights)]
        if bias:
            smaller = rounded(doubles(g, bias) / scale, constant(g, bias).dtype, summed=0)
            names.append(g.make_initializer("", smaller, source=bias))
        y = g.unique_name(f"{node.output[0]}_equalized")
        made = [g.make_node("Conv", names, [y], **node.attribute)]
        for each in between:
            y = g.unique_name(f"{each.output[0]}_equalized")
            made.append(g.make_node(each.op_type, made[-1].output, [y], **each.attribute))
        for each in readers:
            wide = weigh_inputs(g, each.input[1], scale, each.get_attribute("group", 1))
            larger = rounded(wide, constant(g, each.input[1]).dtype, summed=tuple(range(1, wide.ndim)))
            operands = [y, g.make_initializer("", larger, source=each.input[1]), *each.input[2:]]
            made.append(g.make_node("Conv", operands, each.output, **each.attribute))
        return [*g.created, *made]

    _head, _wide = (f"agraph (float[n,1,h,w] x) => (float[n,{count},h,w] y) " for count in (1, 2))
    _nodes = "{ c = Conv(x, v, b) r = Relu(c) y = Conv(r, w) }"
    _depthwise = "{ c = Conv(x, v) r = LeakyRelu <alpha = 0.5> (c) y = Conv <group = 2> (r, w, b) }"
    examples = Example.pairs(
        f"{_head}<float[2,1,1,1] v = {{64, 1}}, float[2] b = {{16, 1}}, float[1,2,1,1] w = {{1, 1}}> {_nodes}",
        f"<float[2,1,1,1] v = {{16, 1}}, float[2] b = {{4, 1}}, float[1,2,1,1] w = {{4, 1}}> {_nodes}",
        f"{_wide}<float[2,1,1,1] v = {{64, 1}}, float[2,1,1,1] w = {{1, 1}}, float[2] b = {{3, 4}}> {_depthwise}",
        f"<float[2,1,1,1] v = {{1, 1}}, float[2,1,1,1] w = {{64, 1}}, float[2] b = {{3, 4}}> {_depthwise}",
    )


def _is_stored(g: GraphView, name: str, *nodes: Node) -> bool:
    return g.is_constant(name) and g.try_infer_type(name) == TensorProto.FLOAT and g.is_used_only_by(name, *nodes)


def _grouped(g: GraphView, node: Node) -> Array:
    """Weights of shape (groups, outputs of a group, channels of a group, taps)."""
    weights, groups = doubles(g, node.input[1]), node.get_attribute("group", 1)
    return weights.reshape(groups, len(weights) // groups, weights.shape[1], -1)


def _channels(g: GraphView, node: Node, between: list[Node]) -> Channels:
    """What the weights before a tensor tell: its channels are as large as their largest weights."""
    weights = doubles(g, node.input[1])
    reach = np.abs(weights).reshape(len(weights), -1).max(axis=1)
    low = np.zeros(len(reach)) if any(each.op_type == "Relu" for each in between) else -reach
    return Channels(low, reach, (low + reach) / 2, reach**2 / 3)
