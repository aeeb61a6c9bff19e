"""Elements of constants: numbers, and elements of the parts of arrays that indices reach."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from xoptim.facts.dims import Dim, bounds
from xoptim.facts.symbolic import SymbolicDim, of_atom
from xoptim.proof.elements import LAWS, Element, Factor, function, number
from xoptim.proof.indices import ElementName
from xoptim.proof.kinds import CONSTANT, POSITION, SPECIAL, Stored

_MAX_COMPOSED: Final = 1 << 22
"""Maximal number of elements of a constant that is made of two others."""


def constant(stored: Stored, indices: Sequence[Dim]) -> Element:
    """An element of an integer or floating-point constant.

    The array is reduced to the part that the indices reach, so that equal parts of two arrays are
    equal.
    """
    array = stored.array
    subscripts: list[int | slice | None] = []
    open_indices: list[Dim] = []
    for axis, index in enumerate(indices):
        if isinstance(index, int):
            subscripts.append(index)
            continue
        part = _reached_part(array, axis, index)
        subscripts.append(slice(None))
        if part is None:
            open_indices.append(index)
        else:
            array = part[0]
            open_indices.append(part[1])
    if not open_indices:
        return of_number(array[tuple(subscripts)])
    if len(open_indices) < len(subscripts) or array is not stored.array:
        stored = Stored(array[tuple(subscripts)])
    for axis, index in enumerate(open_indices):
        read = _read_from_constant(index)
        composed = None if read is None else _composed(stored, open_indices, axis, read)
        if composed is not None:
            return composed
    return function(CONSTANT, stored, args=open_indices)


def _reached_part(
    array: np.ndarray[Any, Any], axis: int, index: SymbolicDim
) -> tuple[Any, Dim] | None:
    """The part of an array that an index reaches along an axis, and the index in this part.

    ``None`` where that is the whole array, or is not known.
    """
    size = array.shape[axis]
    if bounds(index) == (0, size - 1) and index.is_symbol:
        return None
    if len(index.terms) == 1 and not index.terms[0][0][0][0].args:
        ((monomial, step),) = index.terms
        (atom, power), *more = monomial
        low, high = atom.low, atom.high
        if power > 1 or more or low is None or high is None or high - low >= size:
            return None
        numbers = [index.constant + step * k for k in range(low, high + 1)]
        is_inside = min(numbers) >= 0 and max(numbers) < size
        if not is_inside or numbers == [*range(size)]:
            return None
        return array.take(numbers, axis), of_atom(atom) - low
    low, high = bounds(index)
    if low is None or high is None or low < 0 or high >= size or (low == 0 and high == size - 1):
        return None
    return array.take(range(low, high + 1), axis), index - low


def _read_from_constant(index: Dim) -> Factor | None:
    """The element of a constant that is used as an index, ``None`` for any other index."""
    name = None if isinstance(index, int) or not index.is_symbol else next(iter(index.symbols))
    content = name.content if isinstance(name, ElementName) else None
    position = content.single if isinstance(content, Element) else None
    if position is None or position.key != (POSITION,):
        return None
    value = position.args[0]
    base = value.single if isinstance(value, Element) else None
    is_stored = base is not None and base.key[0] == CONSTANT and isinstance(base.key[1], Stored)
    return base if is_stored else None


def _composed(stored: Stored, indices: Sequence[Dim], axis: int, read: Factor) -> Element | None:
    """``stored`` at an index that is an element of another constant, composed into one constant.

    ``None`` where that would be large, or an index is out of range.
    """
    array, places = stored.array, read.key[1]
    assert isinstance(places, Stored)
    size = array.shape[axis]
    numbers = places.array
    is_valid = places.is_integral and bool(((numbers >= -size) & (numbers < size)).all())
    if not is_valid or numbers.size * array.size > _MAX_COMPOSED * size:
        return None
    array_at_indices = np.take(array, np.where(numbers < 0, numbers + size, numbers), axis)
    inner = [arg for arg in read.args if not isinstance(arg, Element)]
    return constant(Stored(array_at_indices), [*indices[:axis], *inner, *indices[axis + 1 :]])


def of_number(value: Any) -> Element:
    """A number of numpy as an element; a negative zero is the number 0."""
    if value.dtype.kind in "iub":
        return number(int(value))
    real = float(value)
    if not np.isfinite(real):
        return function(SPECIAL, str(real))
    ratio = Fraction(real)
    return number(int(ratio) if ratio.denominator == 1 else ratio)


def _applied_constant(key: tuple[Hashable, ...], args: list[Any]) -> Element:
    return constant(key[1], args) if isinstance(key[1], Stored) else function(*key, args=args)


LAWS[CONSTANT] = _applied_constant
