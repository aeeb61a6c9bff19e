from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from onnx import TensorProto

from xoptim.facts.operators import operator_label
from xoptim.match import Example, GraphView, MatchResult, Node, PatternRewriter
from xoptim.match.quantization import Channels, Numbers, ScalingPattern

from .._folding import Array, constant, rounded
from .._nodes import is_op
from ._matmul import weighted_matmul
from ._quantization import is_quantizable
from ._scaling import scales

_PARAMETERS: Final = {
    "LayerNormalization": (1, 2),
    "RMSNormalization": (1,),
    "SimplifiedLayerNormalization": (1,),
    "com.microsoft::SkipLayerNormalization": (2, 3),
    "com.microsoft::SkipSimplifiedLayerNormalization": (2,),
}
"""Indices of the scale and the bias of each channel among the operands of normalizations."""
_SPREAD: Final = 4.0
"""Largest normalized value that is assumed without samples, in standard deviations."""
Place: TypeAlias = tuple[Node, int]
"""An operand of a node."""


def _stored(factor: float, weight: float, shape: str) -> str:
    """The constants of an example: the third channel is larger than the others."""
    ones, column = ", ".join(["1"] * 13), ", ".join(["1, -1"] * 6)
    parameters = (
        f"float[16] g = {{1, 1, {factor}, {ones}}}, float[16] b = {{{', '.join(['0'] * 16)}}}"
    )
    return f"<{parameters}, float{shape} w = {{1, -1, {weight}, 1, {column}}}>"


class SmoothedNormalizationPattern(ScalingPattern):
    """MatMul(LayerNormalization(x, g, b), w) → MatMul(LayerNormalization(x, g / s, b / s), w · s)

    What: moves a scale of each channel from a normalization to the weights of all MatMuls that
    read it (SmoothQuant). Also for Gemm, and for RMSNormalization, SimplifiedLayerNormalization and
    SkipLayerNormalization. With samples, also for x · g + b and x · g, such as the end of a
    decomposed normalization or Gelu.
    Why: if few channels are much larger than the others, a single scale leaves few integers for the
    other channels. It is applied before MatMuls are quantized to 8 bits, if that reduces the error
    on samples (docs/quantization.md).
    Refuses when:
    1. the parameters are not constant, with one number for each channel of the last axis.
    2. the result or the weights have consumers other than MatMuls by constant float32 matrices.
    3. no scales are expected to reduce the error. The estimate uses the channels on samples, or
       without samples the parameters of the normalization.
    """

    phase = "target"
    exactness = "rounding"
    providers = ("cpu",)
    tags = ("int8", "extra")
    anchors = (*_PARAMETERS, "Mul", "Add")

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        y, consumers = node.output[0], g.next_nodes(node.output[0])
        # (2)
        if (
            not consumers
            or not g.is_used_only_by(y, *consumers)
            or any(not _is_matmul(consumer, y) for consumer in consumers)
        ):
            return self.none(node, msg="the result has consumers other than MatMul")
        matmuls = [
            matmul for consumer in consumers if (matmul := weighted_matmul(g, consumer)) is not None
        ]
        if len(matmuls) < len(consumers):  # (2)
            return self.none(node, msg="a MatMul that reads the result cannot be quantized")
        if not all(
            g.is_used_only_by(consumer.input[1], *consumers) for consumer in consumers
        ):  # (2)
            return self.none(node, msg="a weight has other consumers")
        places, width = _parameter_places(g, node), matmuls[0].terms
        optional = [_parameter(g, place, width) for place in places]
        parameters = [parameter for parameter in optional if parameter is not None]
        if not parameters or len(parameters) < len(places):  # (1)
            return self.none(node, msg="scale or bias is not one constant per channel")
        matrices = [matmul.matrix(g) for matmul in matmuls]
        if not all(is_quantizable(array) for array in (*parameters, *matrices)):  # (3)
            return self.none(node, msg="a weight is not finite, or too large")
        weights = np.concatenate(matrices, axis=1).astype(np.float64)
        scale = self.scale_of(node, parameters, weights)
        if scale is None or scale.shape != (width,):  # (3)
            return self.none(node, msg="no sample has values of the channels")
        writers = list(dict.fromkeys(writer for writer, _ in places))
        return MatchResult(self, [*writers, *consumers], partial(self._replace, scale, places))

    def scale_of(self, node: Node, parameters: Sequence[Array], weights: Array) -> Numbers | None:
        """The scale of each channel by which to divide a result.

        ``None`` if the channels are unknown.

        Args:
            node: the producer of the result.
            parameters: its scale and its bias, of shape (channels,).
            weights: the weights of all MatMuls of the result, of shape (channels, columns).

        Raises:
            Declined: when no scales are expected to reduce the error.
        """
        channels = self.channels_of(node, parameters)
        if channels is None or channels.low.shape != (len(weights),):
            return None
        return scales(channels, weights)

    def channels_of(self, node: Node, parameters: Sequence[Array]) -> Channels | None:
        """Statistics of each channel of the result: from samples, or implied by the parameters.

        Normalized values have a mean of 0 and a standard deviation of 1.
        """
        if self.channels is not None:
            return self.channels.get(node.output[0])
        if is_op(node, "Mul", "Add"):
            return None
        factor, shift = [
            *(parameter.astype(np.float64) for parameter in parameters),
            np.zeros(len(parameters[0])),
        ][:2]
        reach = _SPREAD * np.abs(factor)
        return Channels(shift - reach, shift + reach, shift, factor**2 + shift**2)

    @staticmethod
    def _replace(
        scale: Numbers, places: Sequence[Place], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        writers = list(dict.fromkeys(writer for writer, _ in places))
        names, new_nodes = dict[str, str](), list[Node]()
        for writer in writers:
            operands = [names.get(name, name) for name in writer.input]
            for index in (index for producer, index in places if producer is writer):
                stored = constant(g, writer.input[index])
                divided = stored.astype(np.float64) / scale.reshape(*[1] * (stored.ndim - 1), -1)
                new_parameter = rounded(divided, stored.dtype, summed=tuple(range(divided.ndim)))
                operands[index] = g.make_initializer("", new_parameter, source=writer.input[index])
            y = names[writer.output[0]] = g.unique_name(f"{writer.output[0]}_smoothed")
            new_nodes.append(
                g.make_node(
                    writer.op_type,
                    operands,
                    [y, *writer.output[1:]],
                    domain=writer.domain,
                    **writer.attribute,
                )
            )
        for matmul in nodes[len(writers) :]:
            weights, is_transposed = (
                constant(g, matmul.input[1]),
                bool(matmul.get_attribute("transB", 0)),
            )
            multiplied = weights.astype(np.float64) * (scale if is_transposed else scale[:, None])
            new_weights = rounded(multiplied, weights.dtype, summed=1 if is_transposed else 0)
            operands = [
                y,
                g.make_initializer("", new_weights, source=matmul.input[1]),
                *matmul.input[2:],
            ]
            new_nodes.append(
                g.make_node(
                    matmul.op_type,
                    operands,
                    matmul.output,
                    domain=matmul.domain,
                    **matmul.attribute,
                )
            )
        return [*g.created, *new_nodes]

    _head = "agraph (float[n,16] x, float[1] c) => (float[n,1] y)"
    _matmul = "{ l = LayerNormalization(x, g, b) m = MatMul(l, w) y = Add(m, c) }"
    _transposed = "{ l = LayerNormalization <axis = 1> (x, g, b) y = Gemm <transB = 1> (l, w, c) }"
    examples = Example.pairs(
        f"{_head} {_stored(16, 1, '[16,1]')} {_matmul}",
        f"{_stored(2, 8, '[16,1]')} {_matmul}",
        f"{_head} {_stored(16, 1, '[1,16]')} {_transposed}",
        f"{_stored(2, 8, '[1,16]')} {_transposed}",
    )


def _is_matmul(node: Node, x: str) -> bool:
    """Whether a node multiplies x by another tensor from the right."""
    return (
        node.op_type in ("MatMul", "Gemm", "FusedMatMul")
        and node.input[0] == x
        and [*node.input].count(x) == 1
    )


def _parameter_places(g: GraphView, node: Node) -> list[Place]:
    """The operands that are parameters of channels, the scale first; empty if there are none."""
    if not is_op(node, "Mul", "Add"):
        key = operator_label(node.op_type, node.domain)
        places = [
            (node, index)
            for index in _PARAMETERS[key]
            if index < len(node.input) and node.input[index]
        ]
        rank = g.info(node.input[0]).rank
        return (
            places
            if node.get_attribute("axis", -1) in (-1, None if rank is None else rank - 1)
            else []
        )
    index = next((index for index, name in enumerate(node.input) if g.is_constant(name)), None)
    if index is None or node.op_type == "Mul":
        return [] if index is None else [(node, index)]
    mul = g.node_before(node.input[1 - index])
    if not is_op(mul, "Mul") or not g.is_exclusive(mul.output[0]):
        return []
    factor = _parameter_places(g, mul)
    return [*factor, (node, index)] if factor else []


def _parameter(g: GraphView, place: Place, width: int) -> Array | None:
    """The number of each channel; ``None`` if the operand is not a constant row of this width."""
    node, index = place
    name = node.input[index]
    if not g.is_constant(name) or g.try_infer_type(name) != TensorProto.FLOAT:
        return None
    numbers = constant(g, name)
    if numbers.size == 1 and is_op(node, "Mul", "Add"):
        return np.broadcast_to(numbers.reshape(-1), (width,))
    is_row = numbers.ndim and numbers.size == numbers.shape[-1] == width
    return numbers.reshape(-1) if is_row else None
