from functools import partial
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternRewriter, runs
from xoptim.match.quantization import QuantizationPattern

from .._folding import Array, constant
from .._pairs import pair_scales
from ._quantization import columns_to_int8, is_quantizable

_MIN_HIDDEN = 16
"""Minimum hidden size: smaller ones were not measured to be faster."""


_TERMS = (127, -64, 31, 8, -16, 0, 3, -127, 100, 5, 77, -2, 1, 50, -90, 12)
_WEIGHTS = ", ".join(str(n % 3 / 2 - 0.5) for n in range(64))
_INTEGERS = ", ".join(str((n % 3 - 1) * 127) for n in range(64))
_SCALES = ", ".join(
    str(np.float32(0.5 if n % 3 != 1 else 127) / np.float32(127)) for n in range(64)
)
_ZEROS = ", ".join(["0"] * 64)
_RECURRENT = ", ".join(str(n / 256) for n in _TERMS * 64)
_TRANSPOSED = ", ".join(str(n) for n in _TERMS for _ in range(64))
_OTHER_SCALES = ", ".join([str(1 / 256)] * 64)


class _Weights(NamedTuple):
    """Weights of all gates.

    Attributes:
        integers: of shape (directions, terms, 4 · hidden).
        scales: of shape (directions, 4 · hidden).
    """

    integers: Array
    scales: Array


class Int8LSTMPattern(QuantizationPattern):
    """LSTM(x, w, r, ...) → com.microsoft.DynamicQuantizeLSTM(x, w8, r8, ..., s, 0, t, 0)

    What: quantizes the weights of an LSTM to 8 bits, with a scale for each row of a gate. The
    operator quantizes x once, and the hidden state in each step, with scales that it computes. The
    result needs contrib operators.
    Why: weights take a quarter of the bytes. For 1 to 8 sequences, one thread takes 0.3 to 0.4 of
    the time with hidden sizes of 256 to 512, and 0.6 to 0.9 with 64 (lab/payoff.md). Errors
    accumulate over the steps: 2 to 5 % of the largest value with random weights.
    Refuses when:
    1. the weights are not finite float32 constants, or the hidden size is below 16.
    2. ``layout`` is 1 (batch first).
    3. the provider has no kernel.
    """

    phase = "target"
    bits = 8
    quantizes_activations = True
    min_opset = 7
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("int8", "onnxruntime", "extra")
    anchors = ("LSTM",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        names = node.input[1:3]
        shapes = [g.static_shape(name) for name in names]
        # (1)
        if not all(map(g.is_constant, names)) or any(
            shape is None or len(shape) != 3 or 0 in shape for shape in shapes
        ):
            return self.none(node, msg="the weights are not constant")
        # (1)
        if any(g.try_infer_type(name) != TensorProto.FLOAT for name in (node.input[0], *names)):
            return self.none(node, msg="the input or the weights are not float32")
        if node.get_attribute("layout", 0):  # (2)
            return self.none(node, msg="layout is 1 (batch first)")
        if not runs(g, "DynamicQuantizeLSTM", node.input[0], "com.microsoft"):  # (3)
            return self.none(node, msg="the provider has no kernel of DynamicQuantizeLSTM")
        weights = [constant(g, name) for name in names]
        if weights[1].shape[2] < _MIN_HIDDEN or not all(map(is_quantizable, weights)):  # (1)
            return self.none(
                node, msg="the hidden size is small, or a weight is not finite, or too large"
            )
        return MatchResult(
            self, [node], partial(self._replace, [_rounded(g, matrix) for matrix in weights])
        )

    def _replace(self, weights: list[_Weights], g: PatternRewriter, node: Node) -> list[Node]:
        integers, parameters = [], []
        for name, rounded in zip(node.input[1:3], weights, strict=True):
            integers.append(g.make_initializer("", rounded.integers, source=name))
            parameters.append(g.make_initializer("", rounded.scales, source=f"{name}_scales"))
            parameters.append(g.make_initializer("", np.zeros(rounded.scales.shape, np.int8)))
        optional = [*node.input[3:], *[""] * (8 - len(node.input))]
        attributes = {key: value for key, value in node.attribute.items() if key != "layout"}
        operands = [node.input[0], *integers, *optional, *parameters]
        return [
            *g.created,
            g.make_node(
                "DynamicQuantizeLSTM", operands, node.output, domain="com.microsoft", **attributes
            ),
        ]

    _given = (
        "agraph (float[s,b,1] x, float[1,128] c, int32[b] n) "
        "=> (float[s,1,b,16] y, float[1,b,16] h)"
    )
    _sizes = "hidden_size = 16, clip = 3.0"
    examples = (
        Example(
            f"{_given} <float[1,64,1] w = {{{_WEIGHTS}}}, float[1,64,16] r = {{{_RECURRENT}}}> "
            f"{{ y, h = LSTM <{_sizes}> (x, w, r, c, n) }}",
            f"{_given} <int8[1,1,64] w = {{{_INTEGERS}}}, float[1,64] s = {{{_SCALES}}}, "
            f"int8[1,64] z = {{{_ZEROS}}}, int8[1,16,64] r = {{{_TRANSPOSED}}}, float[1,64] "
            f"t = {{{_OTHER_SCALES}}}> {{ y, h = com.microsoft.DynamicQuantizeLSTM <{_sizes}> (x, "
            "w, r, c, n, , , , s, z, t, z) }",
            opset=14,
            ranges=(("n", 0, 1), ("x", -4, 4)),
        ),
    )


def _rounded(g: GraphView, weights: Array) -> _Weights:
    """The quantized weights, from float32 weights of shape (directions, 4 · hidden, terms)."""
    matrix = weights.reshape(-1, weights.shape[2]).T
    columns = columns_to_int8(matrix, pair_scales(g, matrix))
    integers = np.ascontiguousarray(columns.integers.T.reshape(weights.shape).swapaxes(1, 2))
    return _Weights(integers, columns.scales.reshape(weights.shape[:2]))
