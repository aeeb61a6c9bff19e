"""Scale and shift per channel, in float64: read from nodes, and absorbed by weights and biases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

import numpy as np

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.facts.errors import Declined
from xoptim.match import (
    ANY,
    Constant,
    EasyPatternOptimization,
    GraphView,
    Match,
    Node,
    PatternBuilder,
    Symbol,
)
from xoptim.match.rewrite import Phase

from ._folding import Array, cancels, constant, doubles, is_moderate, median, rounded
from ._nodes import is_op, size_along


def per_channel(
    g: GraphView, name: str, rank: int | None, channels: int | None, place: int = 1
) -> Array:
    """A constant with one number per channel, as a float64 vector of ``channels`` numbers.

    An elementwise operator combines the constant with a tensor of this rank, whose channels are the
    axis ``place``.

    Raises:
        Declined: when the constant differs along other axes, would change the shape of the tensor,
            or is not finite.
    """
    refusal = Declined(f"{name!r} is not one value per channel")
    array = g.get_computed_constant(name)
    if array is None or rank is None or channels is None or array.dtype.kind in "iubcOUS":
        raise refusal
    shape = (1,) * (rank - array.ndim) + array.shape
    shape_elsewhere = shape[:place] + shape[place + 1 :]
    if len(shape) > rank or shape[place : place + 1] not in ((1,), (channels,)):
        raise refusal
    numbers = array.astype(np.float64).reshape(-1)
    if any(dim != 1 for dim in shape_elsewhere) or not np.isfinite(numbers).all():
        raise refusal
    return np.broadcast_to(numbers, (channels,))


def output_channels(g: GraphView, weight: str, transposed: bool, group: int) -> int | None:
    """The number of output channels of a Conv, or of a ConvTranspose; ``None`` if unknown."""
    shape = g.try_infer_shape(weight)
    if shape is None or len(shape) < 3:
        return None
    if not transposed:
        return shape[0] if isinstance(shape[0], int) else None
    inputs, outputs = shape[:2]
    # The group of an invalid model may be any number.
    if group < 1 or not isinstance(inputs, int) or not isinstance(outputs, int) or inputs % group:
        return None
    return outputs * group


@np.errstate(all="ignore")
def scale_outputs(
    g: GraphView, weight: str, scale: Array, *, transposed: bool = False, group: int = 1
) -> Array:
    """The weights of a convolution times a factor for each output channel.

    Their shape is (M, C / group, ...) for Conv, and (C, M / group, ...) for ConvTranspose.

    Raises:
        Declined: when they leave the range of their type.
    """
    weights = constant(g, weight)
    if len(scale) != output_channels(g, weight, transposed, group):
        raise Declined("the factors are not one for each output channel")
    kernel = (1,) * (weights.ndim - 2)
    shape, factors = weights.shape, scale.reshape(-1, 1, *kernel)
    summed: tuple[int, ...] = tuple(range(1, weights.ndim))
    if transposed:  # Split the first axis into (group, C / group): M is group times M / group.
        shape, factors = (group, -1, *shape[1:]), scale.reshape(group, 1, -1, *kernel)
        summed = (1, *range(3, weights.ndim + 1))
    scaled = weights.astype(np.float64).reshape(shape) * factors
    return rounded(scaled, weights.dtype, summed=summed).reshape(weights.shape)


@np.errstate(all="ignore")
def scaled_weights(
    g: GraphView, weight: str, factors: Array, summed: int | tuple[int, ...] | None = None
) -> Array:
    """Weights, or other parameters, times factors that broadcast to them.

    ``summed`` are the axes along which weights belong to the same sum; see `rounded`.

    Raises:
        Declined: when they leave the range of their type.
    """
    weights = constant(g, weight)
    return rounded(weights.astype(np.float64) * factors, weights.dtype, summed=summed)


@dataclass(frozen=True)
class ChannelAffine:
    """x · scale + shift, with a float64 number for each channel.

    Attributes:
        source: the name of x.
        nodes: the nodes that scale and shift x, last node first.
        scale: factor of each channel.
        shift: summand of each channel.
        size: for each channel, the sum of the magnitudes of terms of the shift that may cancel.
            The shift of a normalization does not count: its mean is small compared with its
            standard deviation.
    """

    source: str
    nodes: tuple[Node, ...]
    scale: Array
    shift: Array
    size: Array

    @property
    def scales(self) -> bool:
        """Whether a node scales x."""
        return not all(is_op(node, "Add", "Sub") for node in self.nodes)

    @property
    def shifts(self) -> bool:
        """Whether a node shifts x."""
        return not all(is_op(node, "Mul", "Div") for node in self.nodes)

    def after(self, first: ChannelAffine) -> ChannelAffine:
        """The composition: ``first``, and then this scale and shift."""
        return ChannelAffine(
            first.source,
            (*self.nodes, *first.nodes),
            self.scale * first.scale,
            self.shift + self.scale * first.shift,
            self.size + np.abs(self.scale) * first.size,
        )

    @np.errstate(all="ignore")
    def bias(self, present: Array, dtype: np.dtype, addend_size: Array | float = 0.0) -> Array:
        """The new bias of an operator that absorbs this scale and shift of its result.

        Args:
            present: the present bias, one number or one for each channel.
            dtype: a floating-point type.
            addend_size: the magnitude of the numbers to which the bias is added, if it is known.

        Raises:
            Declined: when the bias leaves the range of its type, or is a sum that cancels.
        """
        scaled = present * self.scale
        terms = (scaled, self.size) if self.size.any() else ()
        return rounded(scaled + self.shift, dtype, terms=terms, other=addend_size)


@np.errstate(all="ignore")  # numbers that are not finite are refused where they are rounded
def affine_of(
    g: GraphView,
    node: Node,
    operand: str,
    *,
    rank: int | None = None,
    channels: int | None = None,
    place: int = 1,
) -> ChannelAffine:
    """The scale and shift per channel that a node applies to an operand.

    Args:
        g: the graph.
        node: a Mul, Div, Add or Sub with a constant, or a BatchNormalization in inference mode.
        operand: the name of x.
        rank: the rank of x; not needed for BatchNormalization.
        channels: the number of channels of x; not needed for BatchNormalization.
        place: the axis of the channels, counted from the front.

    Raises:
        Declined: when the constant is not one finite number for each channel, a divisor is 0, or a
            factor is not moderate (`is_moderate`): x may overflow without it, and not with it. For
            BatchNormalization, when a parameter is not constant or not finite, or a mean is too
            large.
    """
    if node.op_type == "BatchNormalization":
        return _normalization(g, node, operand)
    is_second = node.input[1] == operand and node.op_type in ("Add", "Mul")
    name = node.input[0 if is_second else 1]
    numbers = per_channel(g, name, rank, channels, place)
    if node.op_type in ("Add", "Sub"):
        shift = -numbers if node.op_type == "Sub" else numbers
        return ChannelAffine(operand, (node,), np.ones(len(numbers)), shift, np.abs(shift))
    if node.op_type == "Div" and not numbers.all():
        raise Declined("a divisor is 0")
    scale = 1 / numbers if node.op_type == "Div" else numbers
    if not is_moderate(scale, constant(g, name).dtype):
        raise Declined("a factor is very large or very small")
    # The shift is -0, because x + -0 is x, but -0 + 0 is 0.
    return ChannelAffine(operand, (node,), scale, np.full(len(scale), -0.0), np.zeros(len(scale)))


def _normalization(g: GraphView, node: Node, operand: str) -> ChannelAffine:
    """The scale and shift of a BatchNormalization in inference mode.

    Raises:
        Declined: when its parameters are not constant or not finite. Also when a mean is so large
            compared with its standard deviation that folding ``x - mean`` would lose digits.
    """
    names, epsilon = node.input[1:], node.get_attribute("epsilon")
    if not all(g.is_constant(name) for name in names):
        raise Declined("scale, bias, mean or variance of the normalization is not constant")
    scale, bias, mean, variance = (doubles(g, name) for name in names)
    if not scale.size or (variance + epsilon <= 0).any():
        raise Declined("the normalization has no channels, or variance + epsilon is not positive")
    factor = scale / np.sqrt(variance + epsilon)
    # A normalized input has a standard deviation of about 1, so its product with the scale is about
    # as large as the scale.
    usual = np.maximum(np.maximum(np.abs(scale), median(np.abs(scale))), np.abs(bias))
    shift = bias - mean * factor
    finite = np.isfinite(factor).all() and np.isfinite(shift).all()
    if not finite or cancels([mean * factor], usual, constant(g, names[0]).dtype):
        raise Declined("a normalization parameter is not finite, or a mean is too large to fold")
    return ChannelAffine(operand, (node,), factor, shift, np.zeros(len(factor)))


@np.errstate(all="ignore")  # numbers that are not finite end the chain of nodes
def affine_above(
    g: GraphView,
    name: str,
    place: int,
    channels: int,
    operators: Sequence[str],
    *,
    shifts: bool = False,
) -> ChannelAffine:
    """The scale and shift per channel that the nodes before a tensor apply, as one map.

    The chain of nodes is as long as possible. No other node reads the results in between. Without
    such nodes, the map is the identity. Its factors are moderate (`is_moderate`).

    Args:
        g: the graph.
        name: the tensor.
        place: the axis of its channels, counted from the front.
        channels: the number of channels.
        operators: the operators of the nodes: some of Mul, Div, Add, Sub, BatchNormalization.
        shifts: whether nodes may add something other than 0.
    """
    zeros = np.zeros(channels)
    affine = ChannelAffine(name, (), np.ones(channels), zeros, zeros)
    while is_op(node := g.node_before(affine.source), *operators):
        step = _step(g, node, place, channels) if g.is_exclusive(affine.source) else None
        if step is None or (step.shift.any() and not shifts):
            break
        affine = affine.after(step)
    return affine


def _step(g: GraphView, node: Node, place: int, channels: int) -> ChannelAffine | None:
    """The scale and shift of one node.

    ``None`` if the node does not scale or shift these channels, or has very small or large factors.
    """
    if node.op_type == "BatchNormalization" and not is_inference_normalization(node):
        return None
    operand, result = varying_operand(g, node), node.output[0]
    dtype, rank = g.try_infer_type(result), g.info(operand).rank
    if not is_float(dtype) or rank != g.info(result).rank:
        return None
    if size_along(g, operand, place) != channels:
        return None
    try:
        affine = affine_of(g, node, operand, rank=rank, channels=channels, place=place)
    except Declined:
        return None
    has_channels = affine.scale.shape == (channels,)
    return affine if has_channels and is_moderate(affine.scale, numpy_dtype(dtype)) else None


def varying_operand(g: GraphView, node: Node) -> str:
    """The operand of an Add, Mul, Sub, Div or BatchNormalization that is scaled or shifted."""
    is_second = g.is_constant(node.input[0]) and node.op_type in ("Add", "Mul")
    return node.input[1 if is_second else 0]


def is_inference_normalization(node: Node | None) -> TypeGuard[Node]:
    """Whether a node is a BatchNormalization in inference mode."""
    if not is_op(node, "BatchNormalization") or len(node.output) > 1:
        return False
    return not node.attribute.get("training_mode", 0) and node.attribute.get("spatial", 1) == 1


class _FollowingAffine(EasyPatternOptimization):
    """An operator that absorbs a following node, which scales or shifts each channel of its result.

    Class attributes:
        following: the operators of the following node, among those that `affine_of` reads.
    """

    phase: ClassVar[Phase] = "specialize"
    exactness = "rounding"
    following: ClassVar[tuple[str, ...]]

    def followed(self, g: PatternBuilder, y: Symbol, c: Constant | None = None) -> Symbol:
        """The following node, which reads ``y`` and (except for a normalization) a constant ``c``.

        Captures its operator as ``following`` if there are several. The parameters of a
        BatchNormalization are captured as ``norm`` and ``epsilon``.
        """
        operator = self.following[0]
        if len(self.following) > 1:
            operator = g.choice("following", *self.following)
        if operator != "BatchNormalization":
            result: Symbol = getattr(g.op, operator)(y, c)
            return result
        return g.op.BatchNormalization(
            y, g.variadic("norm", least=4), epsilon=g.capture("epsilon"), momentum=ANY
        )

    def affine(
        self,
        g: GraphView,
        m: Match,
        rank: int | None = None,
        channels: int | None = None,
        place: int = 1,
    ) -> ChannelAffine:
        """The scale and shift of the following node; arguments and errors as for `affine_of`."""
        *_, producer, node = m.nodes
        return affine_of(g, node, producer.output[0], rank=rank, channels=channels, place=place)
