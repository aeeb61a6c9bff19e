"""Constants that patterns compute from constants, in float64, with one guard for all of them.

The guard is `rounded`. It compares the rounded constant with the computed one, and raises
`Declined` if a constant leaves the range of its type, or loses digits. This ends the match.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from xoptim.facts.dtypes import element_type, is_float, is_integer, tolerance
from xoptim.facts.errors import Declined
from xoptim.match import GraphView
from xoptim.match.by_definition import fits as fits

Array: TypeAlias = np.ndarray[Any, Any]

FOLD_LIMIT: Final = 1 << 16
"""Maximum number of elements of a constant to combine: the original may have to stay as well."""
_MARGIN: Final = 2.0**-4
"""Largest computed number, as a fraction of the largest number of its type."""
_NEGLIGIBLE: Final = 2.0**-6
"""Largest error of a factor, as a fraction of the rounding error of the largest factor in the same
sum.
"""


def median(numbers: Array) -> float:
    """The median of float64 numbers; NaN if one of them is NaN.

    ``numpy.median`` imports masked arrays, which takes longer than optimizing a small model.
    """
    ordered = np.sort(numbers, axis=None)  # NaN comes last
    if not ordered.size or np.isnan(ordered[-1]):
        return math.nan
    middle = ordered[(ordered.size - 1) // 2 : ordered.size // 2 + 1]
    return float(middle.mean())


@np.errstate(all="ignore")
def rounded(
    exact: Array | float,
    dtype: np.dtype,
    *,
    summed: int | tuple[int, ...] | None = None,
    terms: Sequence[Array | float] | None = None,
    other: Array | float = 0.0,
) -> Array:
    """Computed numbers, rounded to an element type.

    All must lie well within the range of the type. With larger numbers, sums of products may
    overflow although the original sums do not. Factors must keep their digits: they may become
    neither 0 nor subnormal. Summands may, because this does not increase the absolute error of a
    sum. But the terms of a summand must not cancel (`cancels`).

    Args:
        exact: the numbers in float64.
        dtype: a floating-point type.
        summed: for factors, the axes along which they belong to the same sum. A factor may lose
            digits that are negligible compared with the rounding error of the largest factor.
        terms: for summands, the terms whose sum they are; they broadcast to the summands.
        other: for summands, the magnitude of the other operand of the addition, if it is known.

    Raises:
        Declined: when the type cannot hold the numbers with the exactness ``rounding``.
    """
    wide = np.asarray(exact, np.float64)
    result = wide.astype(dtype)
    if not wide.size:
        return result
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    largest = _MARGIN * float(limits.max)
    # With `<=`, NaN fails the comparison as well.
    if not all(bool(np.all(np.abs(numbers) <= largest)) for numbers in (wide, *(terms or ()))):
        raise Declined("a folded constant would overflow or underflow its type")
    if terms is not None:
        size = np.maximum(np.abs(wide), np.abs(other))
        usual = np.maximum(size, median(np.abs(wide)))
        if cancels(terms, size, dtype) and cancels(terms, usual, dtype):
            raise Declined("a folded constant would lose precision by cancellation")
        return result
    small = (np.abs(result) < limits.smallest_normal) & (wide != 0)
    if not small.any():
        return result
    if summed is not None:
        largest = np.broadcast_to(np.abs(wide).max(axis=summed, keepdims=True), wide.shape)[small]
        error = np.abs(result[small].astype(np.float64) - wide[small])
        if bool((error <= _NEGLIGIBLE * float(limits.eps) * largest).all()):
            return result
    raise Declined("a folded constant would overflow or underflow its type")


@np.errstate(all="ignore")
def weight_sum(first: Array, second: Array, dtype: np.dtype) -> Array:
    """The sum of the weights of two layers that have the same input, in float64.

    Raises:
        Declined: when weights cancel, so that a model of this type would lose precision.
    """
    total = first + second
    size = np.abs(total)
    if cancels([np.abs(first), np.abs(second)], np.maximum(size, median(size)), dtype):
        raise Declined("a folded weight would lose precision by cancellation")
    return total


def cancels(terms: Sequence[Array | float], usual: Array | float, dtype: np.dtype) -> bool:
    """Whether terms are so large compared with their ``usual`` sums that sums lose their digits.

    A model that computes such a sum loses digits, and may do so on purpose: ``(x + c) - c`` rounds
    x. The limit is the tolerance of the exactness ``rounding`` divided by the rounding error of the
    type: a term may be 84 times as large as a sum in float32, and 8 times in float16.
    """
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    max_ratio = tolerance(element_type(dtype), "rounding").rtol / float(limits.eps)
    # NaN fails `<=`, and counts as cancelling.
    return not all(bool(np.all(np.abs(term) <= max_ratio * np.asarray(usual))) for term in terms)


def is_moderate(factor: Array | float, dtype: np.dtype) -> bool:
    """Whether factors are 0, or between the square roots of the smallest and largest normal number.

    If such factors are merged into constants, products with these constants overflow or underflow
    no sooner than the constants themselves.
    """
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    low, high = float(limits.smallest_normal) ** 0.5, float(limits.max) ** 0.5
    magnitude = np.abs(factor)
    return bool(((magnitude == 0) | ((magnitude >= low) & (magnitude <= high))).all())


def constant(g: GraphView, name: str) -> Array:
    """The value of a constant; 0 for an omitted operand.

    Raises:
        Declined: when the value cannot be computed ahead of time, which ends the match.
    """
    if not name:
        return np.zeros(())
    array = g.get_computed_constant(name)
    if array is None:
        raise Declined(f"the value of {name!r} cannot be computed ahead of time")
    return array


def doubles(g: GraphView, name: str) -> Array:
    """The value of a constant in float64; 0 for an omitted operand. Raises as `constant` does."""
    return constant(g, name).astype(np.float64)


def constant_pair(g: GraphView, a: str, b: str) -> tuple[Array, Array] | None:
    """The values of two numeric constants of the same type; floating-point numbers as float64.

    Returns:
        ``None`` if they are not numbers of the same type, if a combination of both would be larger
        than each, or if one has more than `FOLD_LIMIT` elements.
    """
    shapes = g.static_shape(a), g.static_shape(b)
    if any(shape is None or math.prod(shape) > FOLD_LIMIT for shape in shapes):
        return None
    x, y = g.get_computed_constant(a), g.get_computed_constant(b)
    if x is None or y is None or x.dtype != y.dtype or _broadcast_size(x, y) > max(x.size, y.size):
        return None
    dtype = element_type(x.dtype)
    if is_float(dtype):  # float64, so that only the final result is rounded
        return x.astype(np.float64), y.astype(np.float64)
    return (x, y) if is_integer(dtype) else None


def _broadcast_size(x: Array, y: Array) -> int:
    try:
        return math.prod(np.broadcast_shapes(x.shape, y.shape))
    except ValueError:  # They do not broadcast to each other: the model is not valid.
        return FOLD_LIMIT + 1


@np.errstate(all="ignore")
def added(a: Array, b: Array, dtype: np.dtype) -> Array:
    """The sum of a `constant_pair` in its type, as `rounded` gives it. Integers wrap around."""
    total = np.asarray(a + b)
    return (
        rounded(total, dtype, terms=(a, b))
        if is_float(element_type(dtype))
        else total.astype(dtype)
    )


@np.errstate(all="ignore")
def multiplied(a: Array, b: Array, dtype: np.dtype) -> Array:
    """The product of a `constant_pair` in its type, as `rounded` gives it. Integers wrap around.

    Floating-point factors must be moderate and not 0. Then the intermediate result of the original,
    ``x · a``, overflows or underflows no sooner than the final result.
    """
    product = np.asarray(a * b)
    if not is_float(element_type(dtype)):
        return product.astype(dtype)
    if not all(is_moderate(factor, dtype) and factor.all() for factor in (a, b)):
        raise Declined("a factor is 0, very large, or very small")
    return rounded(product, dtype)


def scaled(g: GraphView, like: str, factor: float, name: str, *, division: bool = False) -> float:
    """A factor times a constant with one element, or divided by it.

    The result becomes a float32 attribute that multiplies the tensor ``like``.

    Raises:
        Declined: when the constant is 0 or not a scalar, when the result is out of the range of
            float32, or when float32 has too few digits for the type of ``like``.
    """
    number = g.get_constant_scalar(name)
    if not number:
        raise Declined("a factor is 0, or not a constant scalar")
    value = factor / float(number) if division else factor * float(number)
    # This is only the guard; the attribute is rounded when it is written.
    rounded(value, np.dtype(np.float32))
    if not fits(g, like, value):
        raise Declined("a factor would lose precision as a float32 attribute")
    return value
