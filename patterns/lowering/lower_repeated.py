"""Repetitions of elements by Expand, Reshape and Concat."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from xoptim.facts.dims import exact_quotient
from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Constant, Optional

from ._flat import reshape_or_none
from ._lowering import _Lowering

_REPEATING: Final = (
    *(("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil")),
    ("asymmetric", "floor"),
)
"""Modes in which element ``i`` of the result is element ``i // scale`` of the operand.

This holds for scales that are integers.
"""
_MAX_COPIES = 64
"""Maximum number of operands of a Concat."""


class RepetitionStep(NamedTuple):
    """A repetition along one axis.

    Attributes:
        axis: the axis that Unsqueeze adds.
        repeats: the shape of the Expand.
        target: the target of the Reshape that joins both axes.
    """

    axis: int
    repeats: list[int]
    target: list[int] | None


class _LowerRepeated(_Lowering):
    """An operator that repeats elements along axes."""

    exactness = "exact"


class LowerResizePattern(_LowerRepeated):
    """Resize(x, mode="nearest") → Reshape(Expand(Unsqueeze(x))) for each axis

    What: repeats the elements along a new axis, and joins both axes.
    Why: several providers run Resize in few of its modes, or not at all.
    Refuses when:
    1. a scale is not an integer, or the scales and sizes are not constants.
    2. the mode does not repeat each element equally often.
    3. a Reshape would need sizes at run time.
    """

    min_opset = 11
    derives = ("steps",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, roi: Optional, scales: Optional, sizes: Optional
    ) -> Symbol:
        return g.op.Resize(
            x,
            roi,
            scales,
            sizes,
            mode="nearest",  # (2)
            coordinate_transformation_mode=g.capture("coordinates"),
            nearest_mode=g.capture("rounding"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if (m.coordinates, m.rounding) not in _REPEATING:  # (2)
            return self.none(
                m.nodes[0], msg="the coordinate or rounding mode does not repeat elements evenly"
            )
        source = g.try_infer_shape(m.x)
        factors = None if source is None else _factors(g, m, len(source))
        if source is None or factors is None:  # (1)
            return self.none(m.nodes[0], msg="a scale is not an integer")
        return m.derive(steps=repetitions(g, source, factors))  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str, steps: Sequence[RepetitionStep]) -> str:
        return repeated(g, x, steps)

    _rows = "u = Unsqueeze(x, i) e = Expand(u, f) t = Reshape(e, s)"
    examples = Example.pairs(
        "agraph (float[n,3,4,5] x) => (float[n,3,8,15] y) <float[4] k = {1, 1, 2, 3}> "
        '{ y = Resize <mode = "nearest"> (x, , k) }',
        "<int64[1] i = {3}, int64[5] f = {1, 1, 1, 2, 1}, int64[4] s = {0, 3, 8, 5}, "
        "int64[1] j = {4}, int64[5] g = {1, 1, 1, 1, 3}, int64[4] r = {0, 3, 8, 15}> "
        f"{{ {_rows} v = Unsqueeze(t, j) w = Expand(v, g) y = Reshape(w, r) }}",
        "agraph (uint8[1,3,h,5] x) => (uint8[1,3,i,5] y) <float[4] k = {1, 1, 2, 1}> { y = Resize"
        ' <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">'
        " (x, , k) }",
        "<int64[1] i = {3}, int64[5] f = {1, 1, 1, 2, 1}, int64[4] s = {1, 3, -1, 5}> "
        f"{{ {_rows.replace('t =', 'y =')} }}",
    )


class LowerUpsamplePattern(_LowerRepeated):
    """Upsample(x, scales) → Reshape(Expand(Unsqueeze(x))) for each axis

    What: repeats the elements along a new axis, and joins both axes.
    Why: operator set 10 removed Upsample from the standard, and few providers have a kernel.
    Refuses when:
    1. a scale is not an integer, or the scales are not constants.
    2. the mode is not "nearest".
    3. a Reshape would need sizes at run time.
    """

    min_opset = 9
    max_opset = 9
    derives = ("steps",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scales: Constant) -> Symbol:
        return g.op.Upsample(x, scales, mode="nearest")  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source, scales = g.try_infer_shape(m.x), g.get_computed_constant(m.scales)
        if source is None or scales is None:  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown, or the scales are not constant")
        factors = whole_numbers(scales, len(source))
        if factors is None:  # (1)
            return self.none(m.nodes[0], msg="a scale is not an integer")
        return m.derive(steps=repetitions(g, source, factors))  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str, steps: Sequence[RepetitionStep]) -> str:
        return repeated(g, x, steps)

    examples = Example.only(
        "agraph (float[n,3,4,5] x) => (float[n,3,8,5] y) <float[4] k = {1, 1, 2, 1}> { "
        "y = Upsample(x, k) }",
        "<int64[5] f = {1, 1, 1, 2, 1}, int64[4] s = {0, 3, 8, 5}> "
        "{ u = Unsqueeze <axes = [3]> (x) e = Expand(u, f) y = Reshape(e, s) }",
        opset=9,
    )


class LowerTilePattern(_LowerRepeated):
    """Tile(x, repeats) → Concat(x, x, ...) for each axis, or Expand(x) for axes of size 1

    What: writes the copies one after the other.
    Why: several providers have no kernel of Tile.
    Refuses when:
    1. the repeats are not constants, or the rank is unknown. Or a repeat is 0, or is above 64 along
       an axis that may not have size 1.
    """

    min_opset = 8
    derives = ("expanded", "copied")

    def match_pattern(self, g: PatternBuilder, x: Symbol, repeats: Symbol) -> Symbol:
        return g.op.Tile(x, repeats)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, repeats = g.try_infer_shape(m.x), g.get_ints(m.repeats)
        if shape is None or repeats is None or len(repeats) != len(shape):  # (1)
            return self.none(m.nodes[0], msg="the repeats are not constant, or the rank is unknown")
        expanded = [r if size == 1 else 1 for r, size in zip(repeats, shape, strict=True)]
        copied = [r if size != 1 else 1 for r, size in zip(repeats, shape, strict=True)]
        if min(repeats, default=1) < 1 or max(copied, default=1) > _MAX_COPIES:  # (1)
            return self.none(m.nodes[0], msg="a repeat is 0, or above 64")
        return m.derive(expanded=expanded, copied=copied)

    def apply_pattern(
        self, g: PatternRewriter, x: str, expanded: list[int], copied: list[int]
    ) -> str:
        for axis, count in enumerate(copied):
            x = g.op.Concat(*[x] * count, axis=axis) if count > 1 else x
        return g.op.Expand(x, np.array(expanded, np.int64)) if max(expanded, default=1) > 1 else x

    examples = Example.pairs(
        "agraph (float[n,2] x) => (float[n,6] y) <int64[2] r = {1, 3}> { y = Tile(x, r) }",
        "{ y = Concat <axis = 1> (x, x, x) }",
        "agraph (float[1,n] x) => (float[4,m] y) <int64[2] r = {4, 2}> { y = Tile(x, r) }",
        "<int64[2] s = {4, 1}> { t = Concat <axis = 1> (x, x) y = Expand(t, s) }",
    )


def whole_numbers(scales: np.ndarray, rank: int) -> list[int] | None:
    """The scales of all axes as integers, ``None`` when a scale is no integer or less than 1."""
    if scales.ndim != 1:
        return None
    integers = [int(scale) for scale in scales if scale >= 1 and scale == np.floor(scale) < np.inf]
    return integers if len(integers) == rank else None


def repetitions(g: GraphView, shape: Shape, factors: Sequence[int]) -> list[RepetitionStep]:
    """The steps that repeat each element of a tensor along each axis.

    Raises:
        Declined: when a Reshape would need sizes at run time.
    """
    steps = []
    for axis, factor in enumerate(factors):
        if factor == 1:
            continue
        wider = (*shape[: axis + 1], factor, *shape[axis + 1 :])
        shape = (*shape[:axis], shape[axis] * factor, *shape[axis + 1 :])
        repeats = [1] * (axis + 1) + [factor] + [1] * (len(shape) - axis - 1)
        steps.append(RepetitionStep(axis + 1, repeats, reshape_or_none(g, wider, shape)))
    return steps


def repeated(g: PatternRewriter, x: str, steps: Sequence[RepetitionStep]) -> str:
    """A tensor with repeated elements."""
    for axis, repeats, target in steps:
        expanded = g.op.Expand(g.op.Unsqueeze(x, axes=[axis]), np.array(repeats, np.int64))
        x = g.op.Reshape(expanded, shape=target)
    return x


def _factors(g: GraphView, m: Match, rank: int) -> list[int] | None:
    """The factor by which each axis grows, ``None`` when a factor is not known to be an integer."""
    scales = g.get_computed_constant(m.scales) if m.scales else None
    if scales is not None and scales.size:
        return whole_numbers(scales, rank)
    source, result = g.try_infer_shape(m.x), g.infer(m.nodes[0])[0].shape
    if source is None or result is None or not m.sizes or g.get_ints(m.sizes) is None:
        return None
    factors = [exact_quotient(b, a) for a, b in zip(source, result, strict=True) if a != 0]
    integers = [factor for factor in factors if isinstance(factor, int)]
    return integers if len(integers) == rank else None
