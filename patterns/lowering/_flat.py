"""Reshapes with constant targets, and positions along an axis that joins several axes."""

from collections.abc import Sequence
from math import prod

import numpy as np

from xoptim.facts.dims import is_nonzero
from xoptim.facts.errors import Declined
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView

from .._shapes import reshape_target


def strides_of(sizes: Sequence[int]) -> np.ndarray:
    """The distance between neighbours along each axis, in elements of the joined axis."""
    lengths = np.array([*sizes[1:], 1], np.int64)
    return np.cumprod(lengths[::-1])[::-1].copy()


def flat_positions(places: np.ndarray, sizes: Sequence[int]) -> np.ndarray | None:
    """The positions along the joined axis of the coordinates along the last axis of ``places``.

    Negative coordinates count from the end. ``None`` when a coordinate is out of range.
    """
    lengths = np.array(sizes, np.int64)
    if not ((places >= -lengths) & (places < lengths)).all():
        return None
    positive = np.where(places < 0, places + lengths, places)
    return np.asarray((positive * strides_of(sizes)).sum(axis=-1))


def element_coordinates(places: np.ndarray, axis: int) -> np.ndarray:
    """The coordinates of the elements that GatherElements or ScatterElements selects, along a new
    last axis.
    """
    grid = np.indices(places.shape, dtype=np.int64)
    grid[axis] = places
    return np.moveaxis(grid, 0, -1)


def rows_of(shape: Shape | None, columns: int) -> list[int] | None:
    """The target of a Reshape that joins the first ``columns`` axes, which must be static.

    ``None`` when no constant target does so.
    """
    if shape is None or columns > len(shape):
        return None
    leading, trailing = shape[:columns], shape[columns:]
    if not all(isinstance(size, int) and size for size in leading):
        return None
    unknown = [place for place, size in enumerate(trailing) if not isinstance(size, int)]
    if len(unknown) > 1 or 0 in trailing:
        return None
    count = prod(size for size in leading if isinstance(size, int))
    return [count, *(size if isinstance(size, int) else -1 for size in trailing)]


def reshaped_back(shape: Shape) -> list[int] | None:
    """The target of a Reshape to a shape; ``None`` if it has a 0, or several dynamic axes."""
    unknown = [size for size in shape if not isinstance(size, int)]
    if len(unknown) > 1 or 0 in shape:
        return None
    return [size if isinstance(size, int) else -1 for size in shape]


def reshape_or_none(g: GraphView, source: Shape, result: Shape) -> list[int] | None:
    """The target of a Reshape between two shapes, ``None`` for equal ones.

    Raises:
        Declined: when the Reshape would need sizes at run time.
    """
    if source == result:
        return None
    target = reshape_target(g, source, result)
    if target is None:
        raise Declined("a Reshape would need a shape computed at run time")
    # In a target, -1 is an error at run time if a copied dimension is 0.
    copied = (dim for dim, size in zip(result, target, strict=True) if size == 0)
    if -1 in target and not all(map(is_nonzero, copied)):
        raise Declined("a Reshape would need -1 next to a dimension that may be 0")
    return target
