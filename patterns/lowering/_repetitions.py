"""Axes whose elements are repeated."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, PatternRewriter

from ._flat import reshape_or_none


class RepetitionStep(NamedTuple):
    """A repetition along one axis: the axis that is added, the shape of the Expand, and the target
    of the Reshape.
    """

    axis: int
    repeats: list[int]
    target: list[int] | None


def whole_numbers(scales: np.ndarray, rank: int) -> list[int] | None:
    """The scales of all axes, ``None`` when one is not a whole number from 1 on."""
    if scales.ndim != 1:
        return None
    whole = [int(scale) for scale in scales if scale >= 1 and scale == np.floor(scale) < np.inf]
    return whole if len(whole) == rank else None


def repetitions(g: GraphView, shape: Shape, factors: Sequence[int]) -> list[RepetitionStep]:
    """How to repeat each element of a tensor along each axis.

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
