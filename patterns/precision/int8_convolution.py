from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Node

from .._folding import constant
from ._layers import _RoundedLayer
from ._rounding import LARGEST, Rounded, Steps, columns_to_int8, is_roundable

_MOST_BIAS = 2.0**29
"""Largest integer of a bias, so that sums stay within 32 bits."""


class Int8ConvolutionPattern(_RoundedLayer):
    """Conv(x, w, b) → DequantizeLinear(QuantizeLinear(Conv(DequantizeLinear(QuantizeLinear(x)), …)))

    What: rounds a tensor, constant weights and the result of a convolution to 8 bits, the bias to 32 bits, in the form from
    which runtimes make convolutions of integers. The result is rounded after a Relu or Clip, if one alone reads it. Weights
    have a scale for each channel; tensors have one that samples determine, or the bounds of a Clip, Sigmoid, Softmax or Tanh.
    Why: where the processor multiplies integers of 8 bits, networks of convolutions take a third of the time
    (docs/payoff.md). Weights take a quarter of the bytes.
    Refuses when:
    1. the tensor is constant or not of 32-bit floats, or weights and bias are not constants that are finite.
    2. it is the convolution before an activation that is rounded, or an activation of something else.
    3. the range of a tensor is not known, or one point, or leaves the type.
    4. the provider has no kernel that quantizes.
    """

    anchors = ("Conv", "Relu", "Clip")
    operators = ("Conv",)

    def tensors(self, layer: Node) -> Sequence[str]:
        return layer.input[:1]

    def stored(self, g: GraphView, layer: Node, x: Steps) -> list[Rounded] | None:
        names = [name for name in layer.input[1:] if name]
        if not all(g.is_constant(name) and g.try_infer_type(name) == TensorProto.FLOAT for name in names):
            return None
        weights, bias = [*(constant(g, name).astype(np.float64) for name in names), None][:2]
        assert weights is not None
        if not weights.size or not all(is_roundable(each) for each in (weights, bias) if each is not None):
            return None
        step = float(x.scale)
        least = 0.0 if bias is None else np.abs(bias) / (step * _MOST_BIAS)
        found = columns_to_int8(weights.reshape(len(weights), -1).T, least)
        integers = np.ascontiguousarray(found.integers.T).reshape(weights.shape)
        products = found.scales * np.float64(step)
        if not ((products > 1 / LARGEST) & (products < LARGEST)).all():
            return None
        rounded = [Rounded(integers, found.scales)]
        if bias is not None:
            rounded.append(Rounded(np.rint(bias / products).astype(np.int32), products.astype(np.float32)))
        return rounded

    _given = (
        "agraph (float[n,1,h,w] a) => (float[n,2,h,w] y) <float low = {-128}, float high = {127}, "
        "float bottom = {-16384}, float top = {16256}"
    )
    _ones = "float one = {1}, float more = {128}, uint8 z = {128}, int8[2,1,1,1] w = {127, -127}, float[2] t = {1, 0.5}"
    _read = "x = Clip(a, low, high) q = QuantizeLinear(x, one, z) d = DequantizeLinear(q, one, z)"
    _written = "m = QuantizeLinear(l, more, z) y = DequantizeLinear(m, more, z)"
    examples = (
        Example(
            f"{_given}, float[2,1,1,1] w = {{127, -63.5}}, float[2] b = {{3, -2}}> "
            "{ x = Clip(a, low, high) c = Conv(x, w, b) y = Clip(c, bottom, top) }",
            f"{_given}, {_ones}, int32[2] b = {{3, -4}}> {{ {_read} k = DequantizeLinear <axis = 0> (w, t) "
            f"i = DequantizeLinear <axis = 0> (b, t) c = Conv(d, k, i) l = Clip(c, bottom, top) {_written} }}",
            opset=13,
            ranges=(("a", -128, 127),),
        ),
        Example(
            f"{_given}, float[2,1,1,1] w = {{127, -63.5}}> {{ x = Clip(a, low, high) c = Conv <pads = [1, 1, 1, 1], "
            "strides = [2, 2]> (x, w) y = Clip(c, bottom, top) }",
            f"{_given}, {_ones}> {{ {_read} k = DequantizeLinear <axis = 0> (w, t) "
            "c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (d, k) "
            f"l = Clip(c, bottom, top) {_written} }}",
            opset=13,
            ranges=(("a", -128, 127),),
        ),
    )
