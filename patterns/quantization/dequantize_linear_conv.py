from typing import Any

import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import ANY, Constant, Optional, Symbol

from .._channels import _FollowingAffine, output_channels
from .._folding import Array, constant, doubles, rounded
from ._parameters import parameters

_MAX_SCALE = 2.0**40
"""Largest scale. With larger scales, sums of the original Conv might overflow to infinity. If the
factor is below 1, sums with the new scales might not, and the results would differ.
"""


class DequantizeLinearConvPattern(_FollowingAffine):
    """BatchNormalization(Conv(x, DequantizeLinear(w, s), b)) → Conv(x, DequantizeLinear(w, s'), b')

    What: multiplies the scales of the weights by the factor of each output channel. The same for a
    Mul or Div by a constant for each channel. The integers stay.
    Why: saves one pass over the result. If a QuantizeLinear then reads the Conv directly,
    onnxruntime computes with integers: measured 0.24 of the time for images of 64 channels.
    Refuses when:
    1. the weights, their scales, their zero points or the bias are not constant.
       Or the weights have other consumers.
    2. the scales are along another axis than the output channels, or block-wise.
    3. the constant differs along another axis than the channels, or would change the shape.
    4. a parameter of the normalization is not constant, or a mean is very large compared with its
       standard deviation.
    5. a factor is not positive and finite, a scale is above 2^40, or a new constant leaves the
       range of its type.
    """

    following = ("BatchNormalization", "Mul", "Div")
    min_opset = 13
    constant_operands = ("b",)  # (1)
    derives = ("scales", "zeros", "bias")

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        w: Constant,
        s: Constant,
        z: Optional,
        b: Optional,
        c: Constant,
    ) -> Symbol:
        y = g.op.Conv(
            x,
            g.op.DequantizeLinear(w, s, z, attributes=ANY),
            b,
            attributes=g.capture("attributes"),
        )
        return self.followed(g, y, c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dequantize, _, operator = m.nodes
        quantization = parameters(g, dequantize)
        channels = output_channels(g, m.w, False, 1)
        if quantization is None or channels is None:  # (1)
            return self.none(
                dequantize,
                msg="a weight, scale or zero point is not constant, or has other consumers",
            )
        if quantization.axis not in (None, 0):  # (2)
            return self.none(dequantize, msg="the scales are not along the output channels")
        affine = self.affine(g, m, g.info(m.w).rank, channels)  # (3) (4) (5)
        if not (affine.scale > 0).all():  # (5)
            return self.none(operator, msg="a factor is not positive")
        if not (quantization.scales <= _MAX_SCALE).all():  # (5)
            return self.none(
                dequantize, msg="the scales are so large that the original may overflow"
            )
        scales = rounded(
            quantization.scales.astype(np.float64) * affine.scale, quantization.scales.dtype
        )  # (5)
        bias = affine.bias(doubles(g, m.b), scales.dtype)
        zeros = np.broadcast_to(quantization.zeros, scales.shape).astype(constant(g, m.w).dtype)
        return m.derive(scales=scales, zeros=zeros, bias=bias if m.b or affine.shifts else None)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        w: str,
        scales: Array,
        zeros: Array,
        bias: Array | None,
        attributes: dict[str, Any],
    ) -> str:
        return g.op.Conv(x, g.op.DequantizeLinear(w, scales, zeros, axis=0), bias, **attributes)

    _start = (
        "agraph (float[n,1,h,w] x) => (float[n,2,h,w] y) <int8[2,1,1,1] k = {5, -6}, "
        "int8[2] o = {0, 0}"
    )
    _norm = (
        "float[2] a = {2, 4}, float[2] e = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}"
    )
    examples = Example.pairs(
        f"{_start}, float t = {{0.5}}, {_norm}> {{ d = DequantizeLinear(k, t) c = Conv(x, d) "
        "y = BatchNormalization <epsilon = 0.25> (c, a, e, m, v) }",
        f"{_start}, float[2] t = {{1, 1}}, float[2] b = {{-2, 1}}> "
        "{ d = DequantizeLinear <axis = 0> (k, t, o) y = Conv(x, d, b) }",
        f"{_start}, float[2] t = {{0.5, 0.25}}, float[2] b = {{1, 2}}, float[2,1,1] f = {{3, 4}}> "
        "{ d = DequantizeLinear <axis = 0> (k, t, o) c = Conv(x, d, b) y = Mul(f, c) }",
        f"{_start}, float[2] t = {{1.5, 1}}, float[2] b = {{3, 8}}> "
        "{ d = DequantizeLinear <axis = 0> (k, t, o) y = Conv(x, d, b) }",
    )
