"""Multiplications and additions of constants in a row as one affine map of each channel, and
arithmetic on weights in double precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.facts.errors import Declined
from xoptim.match import ANY, GraphView, Node, PatternBuilder, Symbol

from ._folding import Array, cancels, constant, doubles, is_moderate, median, rounded
from ._nodes import is_op, size_along


def per_channel(
    g: GraphView, name: str, rank: int | None, channels: int | None, place: int = 1
) -> Array:
    """`try_per_channel` of a constant, by its name.

    Raises:
        Declined: when it is not one number for each channel, which ends the match.
    """
    numbers = try_per_channel(g.get_computed_constant(name), rank, channels, place)
    if numbers is None:
        raise Declined(f"{name!r} is not one value per channel")
    return numbers


def try_per_channel(
    array: Array | None, rank: int | None, channels: int | None, place: int = 1
) -> Array | None:
    """A constant that differs along one axis only, as a vector of ``channels`` numbers in double
    precision.

    It is combined with a tensor of this rank, which has the channels along the axis ``place``.
    ``None`` when the constant differs along other axes, would change the shape, or is not finite.
    """
    if (
        array is None
        or rank is None
        or channels is None
        or array.ndim > rank
        or array.dtype.kind in "iubcOUS"
    ):
        return None
    aligned = (1,) * (rank - array.ndim) + array.shape
    if aligned[place : place + 1] not in ((1,), (channels,)) or any(
        d != 1 for axis, d in enumerate(aligned) if axis != place
    ):
        return None
    numbers = array.astype(np.float64).reshape(-1)
    return np.broadcast_to(numbers, (channels,)) if np.isfinite(numbers).all() else None


def output_channels(g: GraphView, weight: str, transposed: bool, group: int) -> int | None:
    """Number of output channels of Conv, or of ConvTranspose, ``None`` when unknown."""
    shape = g.try_infer_shape(weight)
    if shape is None or len(shape) < 3:
        return None
    length = shape[1] if transposed else shape[0]
    return (length * group if transposed else length) if isinstance(length, int) else None


@np.errstate(all="ignore")
def scale_outputs(
    g: GraphView, weight: str, scale: Array, *, transposed: bool = False, group: int = 1
) -> Array:
    """Weights of Conv (M, C / group, ...) or ConvTranspose (C, M / group, ...) times a factor for
    each output channel.

    Raises:
        Declined: when they leave the range of their type.
    """
    weights = constant(g, weight)
    kernel = weights.shape[2:]
    if transposed:
        shape, factors = (
            (group, -1, *weights.shape[1:]),
            scale.reshape(group, 1, -1, *(1 for _ in kernel)),
        )
    else:
        shape, factors = weights.shape, scale.reshape(-1, 1, *(1 for _ in kernel))
    scaled = weights.astype(np.float64).reshape(shape) * factors
    # All axes except the output channels, which are two axes in a transposed weight: group and
    # channel within the group.
    one_sum = tuple(
        axis for axis in range(scaled.ndim) if axis not in ((0, 2) if transposed else (0,))
    )
    return rounded(scaled, weights.dtype, summed=one_sum).reshape(weights.shape)


@np.errstate(all="ignore")
def weigh_inputs(g: GraphView, weight: str, factor: Array, group: int) -> Array:
    """Weights of Conv (M, C / group, ...) times a factor for each of the C input channels, in
    double precision.
    """
    weights = doubles(g, weight)
    shape = (group, -1, *weights.shape[1:])
    weighed = weights.reshape(shape) * factor.reshape(group, 1, -1, *(1 for _ in weights.shape[2:]))
    return weighed.reshape(weights.shape)


def fixed_normalization(g: PatternBuilder, x: Symbol) -> Symbol:
    """BatchNormalization outside of training.

    Captures its parameters as ``norm``, and ``epsilon``.
    """
    return g.op.BatchNormalization(
        x, g.variadic("norm", least=4), epsilon=g.capture("epsilon"), momentum=ANY
    )


@np.errstate(all="ignore")
def normalization(g: GraphView, names: Sequence[str], epsilon: float) -> tuple[Array, Array]:
    """BatchNormalization outside of training as x · scale + shift: both numbers of each channel, in
    double precision.

    Args:
        g: the graph.
        names: scale, bias, mean and variance.
        epsilon: added to the variance.

    Raises:
        Declined: when they are not constant or not finite, or when the mean is so large compared
            with the deviation that folding ``x - mean`` would lose digits.
    """
    if not all(g.is_constant(name) for name in names):
        raise Declined("scale, bias, mean or variance of the normalization is not constant")
    scale, bias, mean, variance = (doubles(g, name) for name in names)
    if not scale.size or (variance + epsilon <= 0).any():
        raise Declined("the normalization has no channels, or variance + epsilon is not positive")
    factor = scale / np.sqrt(variance + epsilon)
    # A normalized input has a deviation of about 1, so its product with the scale has about the
    # size of the scale.
    usual = np.maximum(np.maximum(np.abs(scale), median(np.abs(scale))), np.abs(bias))
    shift = bias - mean * factor
    finite = np.isfinite(factor).all() and np.isfinite(shift).all()
    if not finite or cancels([mean * factor], usual, constant(g, names[0]).dtype):
        raise Declined("a normalization parameter is not finite, or a mean is too large to fold")
    return factor, shift


def normalization_of(g: GraphView, node: Node | None) -> tuple[Array, Array] | None:
    """The `normalization` of a BatchNormalization outside of training, ``None`` for another
    node.
    """
    if not is_op(node, "BatchNormalization") or len(node.output) > 1:
        return None
    plain = not node.attribute.get("training_mode", 0) and node.attribute.get("spatial", 1) == 1
    return normalization(g, node.input[1:], node.get_attribute("epsilon")) if plain else None


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


@np.errstate(all="ignore")  # numbers that are not finite end the row of nodes
def affine_above(
    g: GraphView,
    name: str,
    place: int,
    channels: int,
    operators: Sequence[str],
    *,
    shifts: bool = False,
) -> Affine:
    """The affine map that computes a result, as far up as its nodes combine one tensor with
    constants for each channel.

    The channels are the axis ``place``, counted from the front; the nodes are some of the
    ``operators``, among Mul, Div, Add, Sub and BatchNormalization, and add something only where
    ``shifts`` is set; nothing else reads the results in between. Without such nodes it is the
    identity. Factors lie between the square roots of the smallest and of the largest normal number,
    or are 0: a product with them overflows or underflows no sooner than the weights that they are
    merged into.
    """
    scale, shift, size = np.ones(channels), np.zeros(channels), np.zeros(channels)
    nodes: list[Node] = []
    while is_op(node := g.node_before(name), *operators) and g.is_exclusive(name):
        step = _step(g, node, place, channels)
        dtype = g.try_infer_type(name)
        if step is None or not is_float(dtype) or not is_moderate(step[1], numpy_dtype(dtype)):
            break
        operand, factor, summand = step
        if g.info(operand).rank != g.info(name).rank or size_along(g, operand, place) != channels:
            break
        if summand.any() and not shifts:
            break
        shift, scale = shift + scale * summand, scale * factor
        if node.op_type in ("Add", "Sub"):  # a mean is small compared with its deviation
            size = size + np.abs(scale * summand)
        nodes.append(node)
        name = operand
    return Affine(name, tuple(nodes), scale, shift, size)


def _step(g: GraphView, node: Node, place: int, channels: int) -> tuple[str, Array, Array] | None:
    """The operand of a node, and its factor and summand for each channel."""
    one, zero = np.ones(channels), np.zeros(channels)
    if node.op_type == "BatchNormalization":
        try:
            affine = normalization_of(g, node)
        except Declined:
            return None
        return (
            None if affine is None or affine[0].shape != (channels,) else (node.input[0], *affine)
        )
    side = 1 if g.is_constant(node.input[0]) and node.op_type in ("Add", "Mul") else 0
    operand, numbers = node.input[side], node.input[1 - side]
    number = try_per_channel(
        g.get_computed_constant(numbers), g.info(operand).rank, channels, place
    )
    if number is None:
        return None
    if node.op_type in ("Mul", "Div"):
        return operand, 1 / number if node.op_type == "Div" else number, zero
    return operand, one, -number if node.op_type == "Sub" else number
