"""Products with constants and sums with constants in a row, as one affine map of each channel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.facts.errors import Declined
from xoptim.match import GraphView, Node

from ._axes import size_along
from ._channels import normalization_of, try_per_channel
from ._folding import Array, is_moderate
from ._nodes import is_op


@dataclass(frozen=True)
class Affine:
    """A map x · scale + shift, with a number for each channel.

    Attributes:
        source: the name of x.
        nodes: those that compute the map, the last one first.
        scale: factor of each channel, in double precision.
        shift: summand of each channel.
        size: sum of the magnitudes of the terms of each shift that may cancel.
    """

    source: str
    nodes: tuple[Node, ...]
    scale: Array
    shift: Array
    size: Array


@np.errstate(all="ignore")  # what is not finite ends the row
def affine_above(
    g: GraphView, name: str, place: int, channels: int, operators: Sequence[str], *, shifts: bool = False
) -> Affine:
    """The affine map that computes a result, as far up as its nodes combine one tensor with constants for each channel.

    The channels are the axis ``place``, counted from the front; the nodes are some of the ``operators``, among Mul, Div, Add,
    Sub and BatchNormalization, and add something only where ``shifts`` is set; nothing else reads the results in between.
    Without such nodes it is the identity. Factors lie between the square roots of the smallest and of the largest normal
    number, or are 0: a product with them overflows or underflows no sooner than the weights that they are merged into.
    """
    scale, shift, size = np.ones(channels), np.zeros(channels), np.zeros(channels)
    nodes: list[Node] = []
    while is_op(node := g.node_before(name), *operators) and g.is_exclusive(name):
        found = _step(g, node, place, channels)
        dtype = g.try_infer_type(name)
        if found is None or not is_float(dtype) or not is_moderate(found[1], numpy_dtype(dtype)):
            break
        operand, factor, summand = found
        if g.info(operand).rank != g.info(name).rank or size_along(g, operand, place) != channels:
            break
        if summand.any() and not shifts:
            break
        shift, scale = shift + scale * summand, scale * factor
        if node.op_type in ("Add", "Sub"):  # a mean is small beside its deviation
            size = size + np.abs(scale * summand)
        nodes.append(node)
        name = operand
    return Affine(name, tuple(nodes), scale, shift, size)


def _step(g: GraphView, node: Node, place: int, channels: int) -> tuple[str, Array, Array] | None:
    """The operand of a node, and its factor and summand for each channel."""
    one, zero = np.ones(channels), np.zeros(channels)
    if node.op_type == "BatchNormalization":
        try:
            found = normalization_of(g, node)
        except Declined:
            return None
        return None if found is None or found[0].shape != (channels,) else (node.input[0], *found)
    side = 1 if g.is_constant(node.input[0]) and node.op_type in ("Add", "Mul") else 0
    operand, other = node.input[side], node.input[1 - side]
    number = try_per_channel(g.get_computed_constant(other), g.info(operand).rank, channels, place)
    if number is None:
        return None
    if node.op_type in ("Mul", "Div"):
        return operand, 1 / number if node.op_type == "Div" else number, zero
    return operand, one, -number if node.op_type == "Sub" else number
