"""Products with constants and sums with constants in a row, as one affine map of each channel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.match import GraphView, Node

from ._axes import size_along
from ._channels import try_per_channel
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
        size: sum of the magnitudes of the terms of each shift.
    """

    source: str
    nodes: tuple[Node, ...]
    scale: Array
    shift: Array
    size: Array


@np.errstate(all="ignore")  # what is not finite ends the row
def affine_above(g: GraphView, name: str, place: int, channels: int, operators: Sequence[str]) -> Affine:
    """The affine map that computes a result, as far up as its nodes combine one tensor with constants for each channel.

    The channels are the axis ``place``, counted from the front; the nodes are some of the ``operators``, among Mul, Div, Add
    and Sub, and nothing else reads the results in between. Without such nodes it is the identity. Factors lie between the
    square roots of the smallest and of the largest normal number, or are 0: a product with them overflows or underflows no
    sooner than the weights that they are merged into.
    """
    scale, shift, size = np.ones(channels), np.zeros(channels), np.zeros(channels)
    nodes: list[Node] = []
    while is_op(node := g.node_before(name), *operators) and g.is_exclusive(name):
        side = 1 if g.is_constant(node.input[0]) and node.op_type in ("Add", "Mul") else 0
        operand, other = node.input[side], node.input[1 - side]
        rank, dtype = g.info(operand).rank, g.try_infer_type(operand)
        number = try_per_channel(g.get_computed_constant(other), rank, channels, place)
        if number is None or g.info(name).rank != rank or size_along(g, operand, place) != channels or not is_float(dtype):
            break
        if node.op_type in ("Mul", "Div"):
            factor = 1 / number if node.op_type == "Div" else number
            if not is_moderate(factor, numpy_dtype(dtype)):
                break
            scale = scale * factor
        else:
            term = scale * (-number if node.op_type == "Sub" else number)
            shift, size = shift + term, size + np.abs(term)
        nodes.append(node)
        name = operand
    return Affine(name, tuple(nodes), scale, shift, size)
