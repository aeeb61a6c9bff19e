"""Static quantization of tensors, with scales from samples or from bounds of operators."""

from typing import Final

from xoptim.match import GraphView, PatternRewriter
from xoptim.match.quantization import Observed, QuantizationParameters, activation_parameters

from .._nodes import is_op

_RANGES: Final = {
    "Sigmoid": (0.0, 1.0),
    "HardSigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
}


def known_steps(g: GraphView, observed: Observed, name: str) -> QuantizationParameters | None:
    """The scale and zero point of a tensor, from its range on samples or its producer's bounds.

    ``None`` if the range is unknown, a single point, or too large.
    """
    limits = observed.ranges.get(name) or _operator_range(g, name)
    return None if limits is None else activation_parameters(*limits)


def quantized_tensor(
    g: PatternRewriter, name: str, steps: QuantizationParameters
) -> tuple[str, str, str]:
    """A tensor as integers, their scale and their zero point."""
    scale, zero = g.make_initializer("", steps.scale), g.make_initializer("", steps.zero)
    return g.op.QuantizeLinear(name, scale, zero), scale, zero


def _operator_range(g: GraphView, name: str) -> tuple[float, float] | None:
    """The range of a tensor that its producer guarantees, or ``None``."""
    node = g.node_before(name)
    if is_op(node, "Clip") and len(node.input) == 3:
        low, high = (g.get_constant_scalar(bound) for bound in node.input[1:])
        return None if low is None or high is None else (low, high)
    return None if node is None or node.domain else _RANGES.get(node.op_type)
