from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.operators import has_kernel
from xoptim.match import Example, GraphView, MatchResult, Node, PatternRewriter
from xoptim.match.quantization import LARGEST, Numbers, QuantizationParameters, RangedPattern

from .._bits import are_moderate
from .._folding import Array, constant
from .._nodes import is_op
from .._pairs import conv_pair_scales
from ._quantization import (
    QuantizedMatrix,
    bias_to_int32,
    columns_to_int8,
    is_quantizable,
    least_scales,
)
from ._ranges import known_steps, quantized_tensor

_WITHOUT_WEIGHTS: Final = ("Add", "Mul", "Concat", "Sigmoid", "LeakyRelu", "GlobalAveragePool")
"""Operators without weights that have integer kernels."""
_ACTIVATIONS: Final = ("Relu", "Clip")
"""Activations that runtimes fuse with their producer: only their results are quantized."""


class Int8ConvPattern(RangedPattern):
    """Conv(x, w, b) → DequantizeLinear(QuantizeLinear(Conv(x8, w8, b32)))

    What: quantizes the input, constant weights and the result of a convolution to 8 bits, and the
    bias to 32 bits. Runtimes fuse this QDQ form to integer convolutions. Add, Mul, Concat, Sigmoid,
    LeakyRelu and GlobalAveragePool are quantized as well, so that no operator between convolutions
    stays in float32. If a Relu or Clip is the only consumer of the result, its result is quantized
    instead. Weights have a scale for each channel. Tensors have one scale, from samples, or from
    the bounds of a Clip, Sigmoid, Softmax or Tanh. If samples give the mean of each input channel,
    the bias corrects the mean error of quantized weights.
    Why: on CPUs with int8 multiplication, CNNs take a third of the time (lab/payoff.md). Weights
    take a quarter of the bytes.
    Refuses when:
    1. a tensor is constant or not float32, or weights and bias are not finite constants.
    2. the result of a following activation is quantized instead. Or the node is an activation after
       an operator that is not quantized, or whose result has other consumers.
    3. the range of a tensor is unknown, a single point, or too large. Or the scale of an operand,
       or the product of two scales, is more than 2^8 times the scale of the result.
    4. the provider has no kernel of QuantizeLinear.
    """

    phase = "target"
    providers = ("cpu",)
    bits = 8
    quantizes_activations = True
    min_opset = 13
    tags = ("int8", "extra")
    operators = ("Conv",)
    anchors = (*operators, *_WITHOUT_WEIGHTS, *_ACTIVATIONS)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        layer = g.node_before(node.input[0]) if is_op(node, *_ACTIVATIONS) else node
        # (2)
        if not is_op(layer, *self.operators, *_WITHOUT_WEIGHTS) or (
            layer is not node and not g.is_exclusive(node.input[0])
        ):
            return self.none(
                node, msg="the activation does not follow an operator that can be quantized"
            )
        # (2)
        if (
            layer is node
            and g.is_exclusive(node.output[0])
            and is_op(g.next_node(node.output[0]), *_ACTIVATIONS)
        ):
            return self.none(
                node, msg="the result of the activation that follows is quantized instead"
            )
        names = [*_tensors(layer), node.output[0]]
        # (1)
        if any(
            g.is_constant(name) or g.try_infer_type(name) != TensorProto.FLOAT for name in names
        ):
            return self.none(node, msg="a tensor is constant, or not float32")
        optional = [known_steps(g, self.observed, name) for name in names]
        steps = [tensor_steps for tensor_steps in optional if tensor_steps is not None]
        if len(steps) < len(optional):  # (3)
            return self.none(
                node, msg="the range of a tensor is unknown, or too small or too large"
            )
        if not has_kernel(g.provider, "", "QuantizeLinear", TensorProto.FLOAT, g.main_opset):  # (4)
            return self.none(node, msg="no kernel of QuantizeLinear for float32")
        channels = self.observed.channels.get(layer.input[0])
        means = None if channels is None else channels.mean
        stored = _weights(g, layer, steps[0], means) if layer.op_type in self.operators else []
        if stored is None:  # (1)
            return self.none(
                layer, msg="the weight or bias is not a finite constant, or cannot be quantized"
            )
        *operand_scales, result = (tensor_steps.scale for tensor_steps in steps)
        scales = [*operand_scales, *(matrix.scales for matrix in stored[:1]), result]
        if not are_moderate(scales, is_multiplied=bool(stored) or layer.op_type == "Mul"):  # (3)
            return self.none(
                node, msg="the range of the result is too small for the integer kernels"
            )
        return MatchResult(
            self, [layer] if layer is node else [layer, node], partial(self._replace, steps, stored)
        )

    def _replace(
        self,
        steps: list[QuantizationParameters],
        stored: list[QuantizedMatrix],
        g: PatternRewriter,
        layer: Node,
        *activation: Node,
    ) -> list[Node]:
        *operand_steps, result = steps
        operands = [
            g.op.DequantizeLinear(*quantized_tensor(g, name, tensor_steps))
            for name, tensor_steps in zip(_tensors(layer), operand_steps, strict=True)
        ]
        names = [*layer.input[len(operand_steps) :], f"{layer.output[0]}_bias"]
        for name, numbers in zip(names, stored, strict=False):
            integers = g.make_initializer("", numbers.integers, source=name)
            scales = g.make_initializer("", numbers.scales, source=f"{name}_scales")
            operands.append(g.op.DequantizeLinear(integers, scales, axis=0))
        y = _written(g, layer, operands)
        for node in activation:
            y = _written(g, node, [y, *node.input[1:]])
        last = quantized_tensor(g, y, result)
        return [*g.created, g.make_node("DequantizeLinear", last, (*activation, layer)[0].output)]

    _given = (
        "agraph (float[n,1,h,w] a) => (float[n,2,h,w] y) <float low = {-128}, float high = {127}, "
        "float bottom = {-16384}, float top = {16256}"
    )
    _stored = (
        "float one = {1}, float more = {128}, uint8 z = {128}, int8[2,1,1,1] w = {127, -127}, "
        "float[2] t = {1, 0.5}"
    )
    _one = "x = Clip(a, low, high) q = QuantizeLinear(x, one, z) d = DequantizeLinear(q, one, z)"
    _last = "m = QuantizeLinear(l, more, z) y = DequantizeLinear(m, more, z)"
    _bounds = (
        "<float low = {-128}, float high = {127}, float top = {255}, float most = {510}, float "
        "bottom = {-255}"
    )
    _ones = "float one = {1}, float two = {2}, uint8 z = {128}, uint8 o = {0}, uint8 half = {128}>"
    _two = "agraph (float[n,4] a, float[n,4] b) => (float[n,4] y)"
    _joined = "agraph (float[n,4] a, float[m,4] b) => (float[k,4] y)"
    _read = (
        "{ x = Clip(a, low, high) q = QuantizeLinear(x, one, z) d = DequantizeLinear(q, one, z) "
        "u = Clip(b, zero, top) r = QuantizeLinear(u, one, o) e = DequantizeLinear(r, one, o)"
    )
    examples = (
        *Example.pairs(
            f"{_given}, float[2,1,1,1] w = {{127, -63.5}}, float[2] b = {{3, -2}}> "
            "{ x = Clip(a, low, high) c = Conv(x, w, b) y = Clip(c, bottom, top) }",
            f"{_given}, {_stored}, int32[2] b = {{3, -4}}> {{ {_one} "
            "k = DequantizeLinear <axis = 0> (w, t) i = DequantizeLinear <axis = 0> (b, t) "
            f"c = Conv(d, k, i) l = Clip(c, bottom, top) {_last} }}",
            f"{_given}, float[2,1,1,1] w = {{127, -63.5}}> {{ x = Clip(a, low, high) "
            "c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w) y = Clip(c, bottom, top) }",
            f"{_given}, {_stored}> {{ {_one} k = DequantizeLinear <axis = 0> (w, t) "
            "c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (d, k) "
            f"l = Clip(c, bottom, top) {_last} }}",
            opset=13,
            ranges=(("a", -128, 127),),
        ),
        *Example.pairs(
            f"{_two} {_bounds}, float zero = {{0}}> {{ x = Clip(a, low, high) "
            "u = Clip(b, zero, top) s = Add(x, u) y = Clip(s, zero, most) }",
            f"{_two} {_bounds}, float zero = {{0}}, {_ones} {_read} s = Add(d, e) "
            "c = Clip(s, zero, most) m = QuantizeLinear(c, two, o) "
            "y = DequantizeLinear(m, two, o) }",
            f"{_joined} {_bounds}, float zero = {{0}}> {{ x = Clip(a, low, high) "
            "u = Clip(b, zero, top) s = Concat <axis = 0> (x, u) y = Clip(s, bottom, top) }",
            f"{_joined} {_bounds}, float zero = {{0}}, {_ones} {_read} "
            "s = Concat <axis = 0> (d, e) c = Clip(s, bottom, top) "
            "m = QuantizeLinear(c, two, half) y = DequantizeLinear(m, two, half) }",
            opset=13,
            ranges=(("a", -128, 127), ("b", 0, 255)),
        ),
    )


def _tensors(layer: Node) -> Sequence[str]:
    """The operands that are quantized with scales from samples."""
    return layer.input[:1] if layer.op_type in Int8ConvPattern.operators else layer.input


def _weights(
    g: GraphView, layer: Node, x: QuantizationParameters, means: Numbers | None
) -> list[QuantizedMatrix] | None:
    """Quantized weights and bias, with a scale for each channel.

    ``None`` if they are not finite float32 constants, or a scale of the bias is too small or too
    large. With ``means``, the mean of each input channel, there is always a bias.
    """
    names = [name for name in layer.input[1:] if name]
    if not all(
        g.is_constant(name) and g.try_infer_type(name) == TensorProto.FLOAT for name in names
    ):
        return None
    weights, bias = [*(constant(g, name).astype(np.float64) for name in names), None][:2]
    assert weights is not None
    if not weights.size or not all(
        is_quantizable(array) for array in (weights, bias) if array is not None
    ):
        return None
    step = float(x.scale)
    least = conv_pair_scales(g, weights, layer.get_attribute("group", 1))
    if bias is not None:
        least = np.maximum(least, least_scales(bias, step))
    columns = columns_to_int8(weights.reshape(len(weights), -1).T, least)
    integers = np.ascontiguousarray(columns.integers.T).reshape(weights.shape)
    bias_scales = columns.scales * np.float64(step)
    if not ((bias_scales > 1 / LARGEST) & (bias_scales < LARGEST)).all():
        return None
    quantized = QuantizedMatrix(integers, columns.scales)
    if means is not None:
        bias = (0.0 if bias is None else bias) + _lost(weights, quantized, means)
    if bias is None:
        return [quantized]
    return [quantized, bias_to_int32(bias, bias_scales)]


def _lost(weights: Array, quantized: QuantizedMatrix, means: Numbers) -> Array:
    """The mean error of each output channel that quantized weights cause (bias correction).

    Padding at the borders is neglected. After M. Nagel et al., "Data-free quantization through
    weight equalization and bias correction", 2019, section 4.2.

    Args:
        weights: of shape (outputs, inputs / groups, ...).
        quantized: the quantized weights, with a scale for each output.
        means: the mean of each input channel.
    """
    scales = quantized.scales.astype(np.float64).reshape(-1, *[1] * (weights.ndim - 1))
    errors = (weights - quantized.integers * scales).reshape(*weights.shape[:2], -1).sum(axis=2)
    groups = means.size // errors.shape[1]
    loss: Array = np.einsum(
        "goi,gi->go", errors.reshape(groups, -1, errors.shape[1]), means.reshape(groups, -1)
    ).reshape(-1)
    return loss


def _written(g: PatternRewriter, node: Node, operands: Sequence[str]) -> str:
    """The result of a copy of a node with other operands."""
    write: Callable[..., str] = getattr(g.op, node.op_type)
    return write(*(name or None for name in operands), **node.attribute)
