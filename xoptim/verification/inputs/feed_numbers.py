"""Random numbers of each style and element type."""

from typing import Final

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import bits, is_float, is_integer, is_signed_integer, numpy_dtype
from xoptim.verification.inputs.feed_style import Style

_SMALL_INTEGER: Final = 16  # width of the range of free integers of more than 8 bits
# the same for wide values; larger ones could be sizes that fill the memory
_WIDE_INTEGER: Final = 1 << 11
# factors; larger ones overflow in too many models
_WIDE: Final = (8.0, 1.0, -8.0, 0.0, 1.0, 8.0, 1.0, -8.0)
_BYTE: Final = 8
_MIN_BYTES: Final = 4  # elements of 8 bits from which on one of them is a limit of the type
_MANTISSA: Final = 24  # bits of the integers that float32 can hold
_DECADES: Final = 4.0  # far numbers are spread from 10**-4 to 10**4
_NEAR: Final = 1 / 3  # share of far numbers that are close to landmarks
_MAGNITUDES: Final = np.array([1e-30, 1e-13, 1.0, 1e13, 4e19, 1e30])
"""Of numbers that are, or whose squares are, near the limits of float32."""
_MIXED: Final = 5  # turns in which numbers have several magnitudes
_MINIMA: Final = 0.3  # share of far integers that are the minimum, in runs with minima
_NOT_ZERO: Final = 0.95  # share of far numbers, landmarks included, that are not 0
_AROUND: Final = np.array([1.0, -1.0, 1.5, 0.5, 2.0, 1.001])
"""Factors that give numbers close to a landmark."""
_TIES: Final = np.array([-1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.5])
_TINY: Final = 1e-5
_OFFSET: Final = 1000.0
_MAX_SMALL: Final = 64  # elements of a tensor with odd numbers at any index
_HOLES: Final = (np.nan, np.inf, -np.inf)
_POWERS_OF_TWO: Final = 24  # FLOAT8E8M0, which has neither zero nor sign


def may_be_wide(element: int) -> bool:
    """Whether numbers of an element type can be larger than the usual ones."""
    return bits(element) > 8 and (is_float(element) or is_integer(element))


def free_numbers(
    element: int, kind: str, shape: tuple[int, ...], rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Numbers of an element type in a style, for an input with this kind of use."""
    if element == TensorProto.BOOL:
        return rng.random(shape) < 0.5
    if is_integer(element):
        # An integer of rank 0 is a parameter, such as the step of STFT, for which 0 would end the
        # process.
        is_open = kind == "divisor" or (kind == "free" and bool(shape or style.numbers == "far"))
        return _integers(element, shape, rng, style) if is_open else rng.integers(1, 4, shape)
    if element in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if kind == "positive" or element == _POWERS_OF_TWO:
        return rng.uniform(0.5, 2.0, shape)
    if kind == "unit":
        return rng.uniform(-0.95, 0.95, shape)
    numbers = rng.standard_normal(shape)
    if style.numbers == "moderate" or not may_be_wide(element):
        return numbers
    return _styled(numbers, element, rng, style)


def _styled(
    numbers: np.ndarray, element: int, rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Normally distributed numbers in another style."""
    if style.numbers == "far":
        return _scattered(numbers, element, rng, style)
    if style.numbers == "ties":
        return _TIES[rng.integers(0, _TIES.size, numbers.shape)]
    if style.numbers in ("sorted", "single"):
        return _arranged(numbers, style)
    if style.numbers == "tiny":
        return numbers * _TINY
    if style.numbers == "range":
        return _ranged(numbers, rng, style)
    if style.numbers == "offset":
        return numbers + (_OFFSET if bits(element) > 16 else _OFFSET / 16)
    if style.numbers == "wide":
        return _widened(numbers, rng)
    return _with_odd(numbers, element, rng, style)


def _ranged(numbers: np.ndarray, rng: np.random.Generator, style: Style) -> np.ndarray:
    """Numbers whose products leave the range of float32.

    In turn, all numbers of a run have one magnitude, or each row, or each element, has its own.
    """
    turn = style.run % (_MAGNITUDES.size + _MIXED)
    is_by_row = turn == _MAGNITUDES.size and bool(numbers.ndim)
    shape = (*numbers.shape[:-1], 1) if is_by_row else numbers.shape
    magnitudes = _MAGNITUDES[rng.integers(0, _MAGNITUDES.size, shape)]
    if turn < _MAGNITUDES.size:
        magnitudes = _MAGNITUDES[turn]
    return np.asarray((0.5 + np.abs(numbers) % 0.45) * np.sign(numbers) * magnitudes)


def _arranged(numbers: np.ndarray, style: Style) -> np.ndarray:
    """The numbers of each row in ascending order; or zeros and, in each row, a 1 one column further
    than in the row above.
    """
    if not numbers.ndim:
        return numbers
    if style.numbers == "sorted":
        ascending: np.ndarray = np.sort(numbers, axis=-1)
        return ascending
    columns = numbers.shape[-1]
    rows = numbers.size // max(1, columns)
    places = np.arange(rows)[:, None] % max(1, columns)
    ones: np.ndarray = (places == np.arange(columns)).reshape(numbers.shape)
    return np.asarray(ones.astype(np.float64))


def _widened(numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers in a random order: a quarter is at least 8, a quarter at most -8, and some are 0."""
    factors = rng.permutation(np.resize(_WIDE, numbers.size)).reshape(numbers.shape)
    widened: np.ndarray = np.where(
        np.abs(factors) > 1, factors * (1 + np.abs(numbers)), factors * numbers
    )
    return widened


def _with_odd(
    numbers: np.ndarray, element: int, rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Numbers with odd ones among them, but not in the first half of a large tensor: a NaN in a sum
    hides all other numbers.
    """
    info = ml_dtypes.finfo(numpy_dtype(element))  # type: ignore[no-untyped-call]
    ends = (-0.0, float(info.max), float(info.tiny), -float(info.max), 0.0)
    odd: tuple[float, ...] = _HOLES if style.numbers == "holes" else (*_HOLES, *ends)
    # rotated, so that a small tensor holds other odd numbers in each run
    odd = (*odd[style.run % len(odd) :], *odd[: style.run % len(odd)])
    clean = numbers.size // 2 if numbers.size > _MAX_SMALL else 0
    places = clean + rng.permutation(numbers.size - clean)[: max(len(odd), numbers.size // 8)]
    flat = numbers.reshape(-1)
    flat[places] = np.resize(odd, places.size)
    return flat.reshape(numbers.shape)


def _scattered(
    numbers: np.ndarray, element: int, rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Numbers of many magnitudes and both signs, a third of them close to landmarks, and zeros."""
    largest = float(ml_dtypes.finfo(numpy_dtype(element)).max)  # type: ignore[no-untyped-call]
    scattered = numbers * 10.0 ** rng.uniform(-_DECADES, _DECADES, numbers.shape)
    landmarks = np.array([n for n in style.landmarks if abs(n) <= largest / 4] or [1.0])
    near = (
        landmarks[rng.integers(0, landmarks.size, numbers.shape)]
        * _AROUND[rng.integers(0, _AROUND.size, numbers.shape)]
    )
    draws = rng.random(numbers.shape)
    mixed = np.where(draws < _NEAR, near, np.where(draws > _NOT_ZERO, 0.0, scattered))
    return np.asarray(np.clip(mixed, -largest / 2, largest / 2))


def _integers(
    element: int, shape: tuple[int, ...], rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Integers in a style: usually all numbers of a type up to 8 bits, small ones of a wider type,
    negative ones included. One of several bytes is the largest, or every other time the smallest.
    """
    width = bits(element)
    if style.numbers == "ties":
        return _tied_integers(element, shape, rng, style)
    if style.numbers in ("sorted", "single"):
        small = rng.integers(1, _SMALL_INTEGER, shape)
        return _arranged(small, style)
    if style.numbers == "far" and width > 8 and not style.steers:
        return _far_integers(element, shape, rng, style.run)
    is_wide = style.numbers in ("wide", "far")
    reach = 1 << width if width <= 8 else _WIDE_INTEGER if is_wide else _SMALL_INTEGER
    low = -reach // 2 if is_signed_integer(element) else 0
    high = low + reach
    if style.gentle:
        return rng.integers(0, min(high, _SMALL_INTEGER), shape)
    numbers = rng.integers(low, high, shape)
    if width == _BYTE and numbers.size >= _MIN_BYTES:
        place = rng.integers(numbers.size)
        numbers.reshape(-1)[place] = low if style.run % 2 else high - 1
    return numbers


def _far_integers(
    element: int, shape: tuple[int, ...], rng: np.random.Generator, run: int
) -> np.ndarray:
    """Integers of all magnitudes of a type, at least one of them the maximum. Every other run on a
    signed type has the minimum instead, and often: Neg and Abs return it as it is.
    """
    is_signed = is_signed_integer(element)
    room = bits(element) - is_signed
    maximum = (1 << room) - 1
    shifts = np.where(rng.random(shape) < 0.2, 0, rng.integers(0, room, shape)).astype(np.uint64)
    numbers = np.asarray(np.uint64(maximum) >> shifts)
    if is_signed:
        numbers = numbers.astype(np.int64) * np.where(rng.random(shape) < 0.5, -1, 1)
    limit = -maximum - 1 if is_signed and run % 2 else maximum
    is_limit = rng.random(shape) < (_MINIMA if limit < 0 else 0)
    is_limit.reshape(-1)[rng.permutation(is_limit.size)[:1]] = True
    return np.where(is_limit, np.asarray(limit, numbers.dtype), numbers)


def _tied_integers(
    element: int, shape: tuple[int, ...], rng: np.random.Generator, style: Style
) -> np.ndarray:
    """Three neighbouring integers, small ones, or ones that a float cannot tell apart."""
    room = bits(element) - is_signed_integer(element)
    is_large = style.run % 2 and not style.steers and room > _MANTISSA
    return (1 << (_MANTISSA + 1) if is_large else 0) + rng.integers(0, 3, shape)
