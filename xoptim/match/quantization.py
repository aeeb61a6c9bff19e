"""Base classes of the patterns of quantization: patterns that quantize operands, and patterns that
prepare for it.

Quantizing operands changes results, within an error that the user allows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from xoptim.facts.dtypes import Exactness
from xoptim.facts.lazy import lazy_module
from xoptim.graph.node import Node
from xoptim.match.block_rounding import RoundedWeights
from xoptim.match.pattern import MatchResult, PatternOptimization
from xoptim.match.view import GraphView

Range: TypeAlias = tuple[float, float]
"""The smallest and the largest number of a tensor."""
MASK: Final = 1e8
"""Magnitudes from this one on stand for infinity, as in attention masks: they do not count in the
ranges for float16 conversion, and static int8 quantization replaces them by smaller ones.
"""
FEWEST_STORED: Final = 1024
"""Constants with fewer numbers stay as they are: constant folding would undo the change."""
LARGEST: Final = 2.0**100
"""Larger numbers are not quantized: rounded up, they might not be finite."""
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
_quantizers = lazy_module("onnxruntime.quantization.quant_utils")


class QuantizationParameters(NamedTuple):
    """The scale and the zero point with which an activation is quantized to uint8.

    Attributes:
        scale: a float32 scalar.
        zero: the zero point, a uint8 scalar.
    """

    scale: np.ndarray
    zero: np.ndarray


def activation_parameters(low: float, high: float) -> QuantizationParameters | None:
    """The parameters of a range, which is extended to 0.

    ``None`` where its numbers, or the scale, are near the limits of float32.
    """
    # a NaN fails the comparison
    if not -LARGEST < low <= high < LARGEST or max(-low, high) < 1 / LARGEST:
        return None
    zero, scale = _quantizers.compute_scale_zp(
        np.float32(low), np.float32(high), np.uint8(0), np.uint8(255)
    )
    return QuantizationParameters(np.asarray(scale, np.float32), np.asarray(zero, np.uint8))


class Channels(NamedTuple):
    """Statistics of each channel of a tensor; arrays of shape (channels,).

    Attributes:
        low: the smallest numbers.
        high: the largest numbers.
        mean: the means of the numbers.
        square: the means of the squares.
    """

    low: Numbers
    high: Numbers
    mean: Numbers
    square: Numbers


class Observed(NamedTuple):
    """Facts about tensors on calibration samples, by their names.

    Attributes:
        ranges: the ranges of tensors.
        channels: the channels of tensors that convolutions (axis 1) or MatMuls (last axis) read.
        rounded: the integers of weights that are quantized in blocks.
    """

    ranges: Mapping[str, Range] = MappingProxyType({})
    channels: Mapping[str, Channels] = MappingProxyType({})
    rounded: RoundedWeights = RoundedWeights()


class _Operation(Protocol):
    """A node of a graph or of a protobuf."""

    @property
    def output(self) -> Sequence[str]: ...


def first_result(node: _Operation) -> str:
    """The first result of a node that is not omitted; its name identifies a MatMul."""
    return next((name for name in node.output if name), "")


class QuantizationPattern(PatternOptimization):
    """A pattern that quantizes operands, everywhere or at chosen nodes only.

    Args:
        only: first results of the nodes at which it may match, ``None`` for all nodes.

    Class attributes:
        bits: number of bits of quantized operands: of integers, or of the fraction of floats.
        width: number of bits that a weight takes in the file, with its share of the scales.
        is_alternative: whether another pattern of the scheme quantizes the same MatMuls, with a
            larger error.
        quantizes_activations: whether it quantizes the activations of a MatMul at each run, and not
            only constants.
        quantizes_result: whether its result is quantized, so that an operator that reads the result
            may be quantized as well.
        time: time of a MatMul, relative to float32 (lab/payoff.md), by which the forms of a MatMul
            are compared; 1 if only bytes are saved.
    """

    exactness: ClassVar[Exactness] = "approximate"

    bits: ClassVar[int]
    width: ClassVar[float] = 8
    is_alternative: ClassVar[bool] = False
    quantizes_activations: ClassVar[bool] = False
    quantizes_result: ClassVar[bool] = True
    time: ClassVar[float] = 0.3
    only: Collection[str] | None = None

    def __init__(self, only: Collection[str] | None = None) -> None:
        if only is not None:
            self.only = frozenset(only)

    def match_at(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Call `match` at a chosen node."""
        if self.only is not None and first_result(node) not in self.only:
            return self.none(node, msg="the node was chosen to stay as it is")
        return super().match_at(g, node, matched)


class StoringPattern(QuantizationPattern):
    """A pattern that stores constants in lower precision; all operators compute in float32."""

    time = 1.0

    @classmethod
    def fits(cls, numbers: np.ndarray[Any, Any]) -> bool:
        """Whether `stored` can store float32 numbers."""
        raise NotImplementedError

    @classmethod
    def stored(
        cls,
        op: Any,
        store: Callable[[np.ndarray[Any, Any], str], str],
        numbers: np.ndarray[Any, Any],
    ) -> str:
        """Store numbers, and widen them to float32; returns the name of the result.

        Args:
            op: makes nodes, as ``op.Cast(x, to=1)``.
            store: stores an array under a name that ends with a word; returns the name.
            numbers: the float32 numbers.
        """
        raise NotImplementedError

    @classmethod
    def widened(cls, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The float32 numbers that `stored` gives."""
        raise NotImplementedError


class RangedPattern(QuantizationPattern):
    """A pattern of static quantization: samples determine the scales, once for all runs.

    Args:
        only: see `QuantizationPattern`.
        observed: facts about tensors on samples.

    Class attributes:
        operators: the operators with weights. Quantizing other operators alone saves nothing.
    """

    operators: ClassVar[tuple[str, ...]]
    observed = Observed()

    def __init__(
        self, only: Collection[str] | None = None, observed: Observed | None = None
    ) -> None:
        super().__init__(only)
        if observed is not None:
            self.observed = observed


class BlockPattern(QuantizationPattern):
    """A pattern that quantizes weights with a scale and a zero point for each block.

    Args:
        only: see `QuantizationPattern`.
        rounded: the format of the blocks, and the integers of weights.

    Class attributes:
        operators: the operators with weights.
    """

    operators: ClassVar[tuple[str, ...]] = ("MatMul", "Gemm", "FusedMatMul")
    rounded = RoundedWeights()

    def __init__(
        self, only: Collection[str] | None = None, rounded: RoundedWeights | None = None
    ) -> None:
        super().__init__(only)
        if rounded is not None:
            self.rounded = rounded


class ScalingPattern(PatternOptimization):
    """A pattern that moves scales of channels from one constant to another, so that quantization of
    both has a smaller error.

    Args:
        channels: channels of tensors on samples, by name; the scales of other tensors stay.
            ``None``: the constants alone determine the scales.
    """

    channels: Mapping[str, Channels] | None = None

    def __init__(self, channels: Mapping[str, Channels] | None = None) -> None:
        if channels is not None:
            self.channels = channels


class BlockScalingPattern(ScalingPattern):
    """A pattern that moves scales of channels to weights that are quantized in blocks.

    Args:
        scales: divisors of the channels of activations, by name; other activations stay. ``None``:
            the constants alone determine the scales.
    """

    scales: Mapping[str, Numbers] | None = None

    def __init__(self, scales: Mapping[str, Numbers] | None = None) -> None:
        super().__init__()
        if scales is not None:
            self.scales = scales
