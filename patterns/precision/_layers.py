"""Operators between rounded tensors: what they read and what they give has scales that samples determine."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from onnx import TensorProto

from xoptim.facts.kernels import has_kernel
from xoptim.match import GraphView, MatchResult, Node, PatternRewriter
from xoptim.match.rounding import RangedPattern

from .._nodes import is_op
from ._rounding import Rounded, Steps, steps

ACTIVATIONS: Final = ("Relu", "Clip")
"""Functions that runtimes join with the operator before them: their results are rounded, and not what they read."""
_RANGES: Final = {"Sigmoid": (0.0, 1.0), "HardSigmoid": (0.0, 1.0), "Softmax": (0.0, 1.0), "Tanh": (-1.0, 1.0)}


class _RoundedLayer(RangedPattern):
    """An operator, perhaps an activation after it. Refusals have the numbers of `Int8ConvolutionPattern`."""

    phase = "target"
    providers = ("cpu",)
    bits = 8
    min_opset = 13
    tags = ("int8", "extra")

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        layer = g.node_before(node.input[0]) if is_op(node, *ACTIVATIONS) else node
        if not is_op(layer, *self.operators) or (layer is not node and not g.is_exclusive(node.input[0])):  # (2)
            return self.none(node, msg="an activation of something else")
        if layer is node and g.is_exclusive(node.output[0]) and is_op(g.next_nodes(node.output[0])[0], *ACTIVATIONS):  # (2)
            return self.none(node, msg="the result of the activation is what can be rounded")
        names = [*self.tensors(layer), node.output[0]]
        if any(g.is_constant(name) or g.try_infer_type(name) != TensorProto.FLOAT for name in names):  # (1)
            return self.none(node, msg="not tensors of 32-bit floats")
        found = [self._steps(g, name) for name in names]
        known = [each for each in found if each is not None]
        if len(known) < len(found):  # (3)
            return self.none(node, msg="the ranges of the tensors are not known, or too small or too large")
        if not has_kernel(g.provider, "", "QuantizeLinear", TensorProto.FLOAT, g.main_opset):  # (4)
            return self.none(node, msg="no kernel that quantizes")
        stored = self.stored(g, layer, known[0])
        if stored is None:  # (1)
            return self.none(layer, msg="weights that do not fit")
        return MatchResult(self, [layer] if layer is node else [layer, node], partial(self._replace, known, stored))

    def tensors(self, layer: Node) -> Sequence[str]:
        """The operands that are rounded with scales of samples."""
        raise NotImplementedError

    def stored(self, g: GraphView, layer: Node, x: Steps) -> list[Rounded] | None:
        """The other operands, which are constant, with a scale for each channel; ``None`` where they do not fit."""
        raise NotImplementedError

    def _steps(self, g: GraphView, name: str) -> Steps | None:
        given = self.ranges.get(name) or _given_range(g, name)
        return None if given is None else steps(*given)

    def _replace(self, found: list[Steps], stored: list[Rounded], g: PatternRewriter, layer: Node, *after: Node) -> list[Node]:
        *read, result = found
        operands = [
            g.op.DequantizeLinear(*_quantized(g, name, each)) for name, each in zip(self.tensors(layer), read, strict=True)
        ]
        for name, numbers in zip(layer.input[len(read) :], stored, strict=False):
            integers = g.make_initializer("", numbers.integers, source=name)
            scales = g.make_initializer("", numbers.scales, source=f"{name}_scales")
            operands.append(g.op.DequantizeLinear(integers, scales, axis=0))
        y = _written(g, layer, operands)
        for node in after:
            y = _written(g, node, [y, *node.input[1:]])
        last = _quantized(g, y, result)
        return [*g.created, g.make_node("DequantizeLinear", last, (*after, layer)[0].output)]


def _written(g: PatternRewriter, node: Node, operands: Sequence[str]) -> str:
    """The result of a copy of a node that reads other operands."""
    write: Callable[..., str] = getattr(g.op, node.op_type)
    return write(*(name or None for name in operands), **node.attribute)


def _quantized(g: PatternRewriter, name: str, found: Steps) -> tuple[str, str, str]:
    """A tensor as integers, their scale and their zero point."""
    scale, zero = g.make_initializer("", found.scale), g.make_initializer("", found.zero)
    return g.op.QuantizeLinear(name, scale, zero), scale, zero


def _given_range(g: GraphView, name: str) -> tuple[float, float] | None:
    """The range of a tensor that its operator gives."""
    node = g.node_before(name)
    if is_op(node, "Clip") and len(node.input) == 3:
        low, high = (g.get_computed_constant(bound) for bound in node.input[1:])
        return None if low is None or high is None else (float(low.item()), float(high.item()))
    return None if node is None or node.domain else _RANGES.get(node.op_type)
