"""Constants that patterns compute with."""

from __future__ import annotations

import math
from typing import Final

import ml_dtypes
import numpy as np

from xoptim.facts.dtypes import element_type, is_float, is_integer
from xoptim.match import GraphView

FOLD_LIMIT: Final = 1 << 16
"""Constants of more elements are not combined: what they become would have to be stored beside them."""


def constant_pair(g: GraphView, a: str, b: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The values of two constants that are numbers of one type, floating-point ones widened to 64 bits.

    Returns:
        ``None`` when they are no such pair, or when they would give a larger one together, or one beyond `FOLD_LIMIT`.
    """
    shapes = g.static_shape(a), g.static_shape(b)
    if any(shape is None or math.prod(shape) > FOLD_LIMIT for shape in shapes):
        return None
    x, y = g.get_computed_constant(a), g.get_computed_constant(b)
    if x is None or y is None or x.dtype != y.dtype or _broadcast_size(x, y) > max(x.size, y.size):
        return None
    dtype = element_type(x.dtype)
    if is_float(dtype):
        return x.astype(np.float64), y.astype(np.float64)
    return (x, y) if is_integer(dtype) else None


def _broadcast_size(x: np.ndarray, y: np.ndarray) -> int:
    try:
        return math.prod(np.broadcast_shapes(x.shape, y.shape))
    except ValueError:  # not broadcast to each other: no valid model
        return FOLD_LIMIT + 1


def added(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """The sum in a type; ``None`` where floating-point numbers cancel or overflow. Integers wrap around."""
    with np.errstate(all="ignore"):
        total = a + b
        if a.dtype.kind == "f" and not np.all(np.abs(total) >= np.maximum(np.abs(a), np.abs(b))):
            return None
        result = total.astype(dtype)
    return result if a.dtype.kind != "f" or bool(np.isfinite(result.astype(np.float64)).all()) else None


def multiplied(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """The product in a type; ``None`` where a factor is so large or small that a product could overflow or vanish.

    Factors between the square roots of the smallest and the largest normal number are safe. Integers wrap around.
    """
    with np.errstate(all="ignore"):
        if a.dtype.kind == "f" and not (_is_moderate(a, dtype) and _is_moderate(b, dtype)):
            return None
        return np.asarray(a * b).astype(dtype)


def _is_moderate(array: np.ndarray, dtype: np.dtype) -> bool:
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    size = np.abs(array)
    return bool(np.all((size >= float(limits.smallest_normal) ** 0.5) & (size <= float(limits.max) ** 0.5)))
