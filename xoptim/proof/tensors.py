"""Tensors as functions from indices to elements: reshaping, broadcasting, sums over axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from xoptim.facts.dims import Dim, SymbolicDim, exact_quotient, is_never_one, product
from xoptim.facts.shapes import Shape
from xoptim.facts.symbolic import single_atom
from xoptim.proof.constants import constant
from xoptim.proof.elements import ONE, ZERO, Element, function, of_dim
from xoptim.proof.indices import (
    BOUND,
    PLACE,
    CaseFacts,
    Impossible,
    IndexSplit,
    SignSplit,
    SizeSplit,
    Unproved,
    check_time,
    multiple_of,
    symbols_of,
)
from xoptim.proof.kinds import Stored
from xoptim.proof.laws import within

Indices: TypeAlias = tuple[Dim, ...]
Read: TypeAlias = Callable[[Indices], Element]

_MAX_UNROLLED: Final = 8
"""Maximal number of terms of a sum that is written term by term."""
_SHORT: Final = ("int4", "uint4", "int2", "uint2")
"""Integers that numpy has no types for."""
_MAX_INT64: Final = (1 << 63) - 1
_MAX_GROUPED: Final = 1 << 22
"""Maximal number of elements of a constant that is searched for axes of equal elements."""


class Tensor:
    """A tensor of a proof.

    Args:
        shape: one size per axis.
        dtype: element type, a value of ``TensorProto.DataType``.
        read: the element at some indices, one per axis, each from 0 to the size less 1.
    """

    def __init__(self, shape: Sequence[Dim], dtype: int, read: Read) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = dtype
        self._read = read
        self._elements: dict[Indices, Element] = {}

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def at(self, indices: Sequence[Dim]) -> Element:
        """The element at some indices."""
        key = tuple(
            0 if size == 1 else index for index, size in zip(indices, self.shape, strict=True)
        )
        if key not in self._elements:
            self._elements[key] = self._read(key)
        return self._elements[key]

    def typed(self, dtype: int) -> Tensor:
        """The same elements, of another element type."""
        return Tensor(self.shape, dtype, self.at)

    def mapped(self, change: Callable[[Element], Element], dtype: int = 0) -> Tensor:
        """The tensor with ``change`` applied to each element."""
        return Tensor(self.shape, dtype or self.dtype, lambda indices: change(self.at(indices)))


class Items(Tensor):
    """A sequence of tensors, which has no elements of its own."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        super().__init__((), 0, _unread)
        self.tensors = tuple(tensors)


def _unread(_indices: Indices) -> Element:
    raise Unproved("an element of a sequence")


class Unranked(Tensor):
    """A tensor of unknown rank: each element is a function of the element of an input at the same
    indices.

    Args:
        name: the input, which has the same shape.
        dtype: element type.
        element: any of its elements.
    """

    def __init__(self, name: str, dtype: int, element: Element) -> None:
        self.name = name
        self.dtype = dtype
        self.element = element

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        """Raises `Unproved`."""
        raise Unproved(f"unknown rank of {self.name!r}")

    def at(self, indices: Sequence[Dim]) -> Element:
        """Raises `Unproved`: no indices are known."""
        raise Unproved(f"unknown rank of {self.name!r}")

    def typed(self, dtype: int) -> Tensor:
        """The same elements, of another element type."""
        return Unranked(self.name, dtype, self.element)

    def mapped(self, change: Callable[[Element], Element], dtype: int = 0) -> Tensor:
        """The tensor with ``change`` applied to each element."""
        return Unranked(self.name, dtype or self.dtype, change(self.element))


def stored_tensor(array: np.ndarray[Any, Any], dtype: int, *, keeps_zeros: bool) -> Tensor:
    """The tensor of a constant, read without the axes along which all elements are equal.

    ``keeps_zeros``: a negative zero is not the number 0.
    """
    return StoredReader(array).tensor(dtype, keeps_zeros=keeps_zeros)


class StoredReader:
    """Reads the elements of a constant.

    The array is analyzed when the first element is read: large constants are often not read.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array.astype(np.int64) if array.dtype.name in _SHORT else array

    def tensor(self, dtype: int, *, keeps_zeros: bool) -> Tensor:
        """The tensor of the constant; ``keeps_zeros``: a negative zero is not the number 0."""

        def read(indices: Indices) -> Element:
            core_indices = [indices[axis] for axis in self._axes]
            core = self._core
            if self._steps is not None:
                start = int(core.array.flat[0])
                pairs = zip(core_indices, self._steps, strict=True)
                return of_dim(sum((i * step for i, step in pairs), start))
            if keeps_zeros and self._has_negative_zero:
                return function("bits", core, args=core_indices)
            return constant(core, core_indices)

        return Tensor(self._array.shape, dtype, read)

    @cached_property
    def _axes(self) -> list[int]:
        """The axes along which elements differ."""
        axes = [*range(self._array.ndim)]
        if 0 < self._array.size <= _MAX_GROUPED:
            return [axis for axis in axes if _differs(self._array, axis)]
        return axes

    @cached_property
    def _core(self) -> Stored:
        """The array without the axes along which all elements are equal."""
        array = self._array
        places = tuple(slice(None) if axis in self._axes else 0 for axis in range(array.ndim))
        return Stored(array[places] if array.size else array)

    @cached_property
    def _steps(self) -> list[int] | None:
        has_integers = self._core.array.dtype.kind in "iu" and self._array.size
        return _steps(self._core.array) if has_integers else None

    @cached_property
    def _has_negative_zero(self) -> bool:
        return _has_negative_zero(self._core.array)


def _steps(array: np.ndarray[Any, Any]) -> list[int] | None:
    """The step along each axis of integers that are linear in their indices; else ``None``."""
    first = int(array.flat[0])
    steps: list[int] = []
    for axis in range(array.ndim):
        line = array[(0,) * axis + (slice(None),) + (0,) * (array.ndim - axis - 1)].tolist()
        steps.append(line[1] - first if len(line) > 1 else 0)
        if any(number != first + place * steps[-1] for place, number in enumerate(line)):
            return None
    farthest = sum(abs(step) * size for step, size in zip(steps, array.shape, strict=True))
    fits_int64 = array.dtype != np.uint64 and abs(first) + farthest <= _MAX_INT64
    dtype = np.int64 if fits_int64 else object
    places = np.ogrid[tuple(map(slice, array.shape))]
    expected = np.full((), first, dtype)
    for place, step in zip(places, steps, strict=True):
        expected = expected + place.astype(dtype) * step
    return steps if bool(np.all(array == expected)) else None


def _differs(array: np.ndarray[Any, Any], axis: int) -> bool:
    """Whether not all elements along an axis have the same bits."""
    if array.shape[axis] == 1:
        return False
    if array.dtype.kind == "O":
        return not bool((array == array.take([0], axis)).all())
    bits = np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}")
    first, second = (bits.take([place], axis) for place in (0, 1))
    # the first two slices of most arrays differ, which saves the comparison of all slices
    return not bool((first == second).all()) or not bool((bits == first).all())


def _has_negative_zero(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype.kind in "iubO":
        return False
    numbers = array if array.dtype.kind == "f" else array.astype(np.float64)
    zeros = numbers == 0
    return bool(zeros.any() and (np.signbit(numbers) & zeros).any())


def integer_tensor(values: Sequence[Dim], shape: Sequence[int], dtype: int) -> Tensor:
    """A tensor of known integers, in row-major order, of rank 0 or 1."""

    def read(indices: Indices) -> Element:
        index = indices[0] if indices else 0
        if isinstance(index, int):
            return of_dim(values[index])
        step = values[1] - values[0]
        if all(b - a == step for a, b in itertools.pairwise(values)):
            return of_dim(values[0] + step * index)
        if all(isinstance(value, int) for value in values):
            return constant(Stored(np.array(values, np.int64)), [index])
        return function("listed", args=[*values, index])

    return Tensor(shape, dtype, read)


def total(case: CaseFacts, extent: Dim, summand: Callable[[Dim], Element]) -> Element:
    """The sum of a function of an index from 0 to ``extent - 1``."""
    check_time()
    if isinstance(extent, int) and extent <= 1:
        return summand(0) if extent == 1 else ZERO
    if case.unrolls and isinstance(extent, int) and extent <= _MAX_UNROLLED:
        terms = [summand(place) for place in range(extent)]
        return sum(terms[1:], terms[0])
    index = case.index(extent, BOUND)
    (name,) = index.symbols
    try:
        return summand(index).summed(name, extent)
    except IndexSplit as split:
        if split.name != name:
            raise
        inner = split.inner
        return total(
            case,
            split.outer,
            lambda i: total(case, inner, lambda j: summand(i * inner + j)),
        )
    except SignSplit as split:
        if name not in split.condition.symbols:
            raise
        first = case.cut(split.condition, name)
        if first is None:
            raise Unproved("a condition on the index of a sum") from None
        rest = extent - first
        return total(case, first, summand) + total(case, rest, lambda j: summand(j + first))


def choose(
    case: CaseFacts, condition: Dim, then: Callable[[], Element], otherwise: Callable[[], Element]
) -> Element:
    """``then`` where an expression is at least 0, else ``otherwise``.

    Raises `SignSplit` where that depends on the case. A condition on a symbol of `CaseFacts.place`
    differs between the indices that the symbol stands for, so both values become one element.
    """
    answer = case.is_at_least_zero(condition)
    if answer is None and any(name[0] == PLACE for name in symbols_of(condition)):
        indicator = within(condition)
        return indicator * then() + otherwise() - indicator * otherwise()
    if answer is None:
        answer = case.decide(condition)
    return then() if answer else otherwise()


def where_inside(
    case: CaseFacts, conditions: Sequence[Dim], inside: Callable[[], Element], outside: Element
) -> Element:
    """``inside`` where all expressions are at least 0, else ``outside``.

    With 0 outside, this is a product with the conditions as factors, so no case is split.
    """
    if outside is not ZERO:
        if not conditions:
            return inside()
        return choose(
            case,
            conditions[0],
            lambda: where_inside(case, conditions[1:], inside, outside),
            lambda: outside,
        )
    open_conditions: list[Dim] = []
    for condition in conditions:
        answer = case.is_at_least_zero(condition)
        if answer is False:
            return ZERO
        if answer is None:
            open_conditions.append(condition)
    holds = ONE
    for condition in open_conditions:
        holds = holds * within(condition)
    return holds * inside()


def reshaped(case: CaseFacts, tensor: Tensor, shape: Sequence[Dim]) -> Tensor:
    """The elements of a tensor in row-major order, in another shape."""
    target = tuple(shape)
    if target == tensor.shape:
        return tensor
    if 0 in target and 0 in tensor.shape:
        return Tensor(target, tensor.dtype, _unread_empty)
    groups = _groups(case, target, tensor.shape)

    def read(indices: Indices) -> Element:
        place: list[Dim] = [0] * tensor.rank
        for (first, last), (start, end) in groups:
            position: Dim = 0
            for axis in range(first, last):
                position = position * target[axis] + indices[axis]
            for axis in range(end - 1, start, -1):
                position, place[axis] = case.divided(position, tensor.shape[axis])
            if end > start:
                place[start] = position
        return tensor.at(place)

    return Tensor(target, tensor.dtype, read)


def _unread_empty(_indices: Indices) -> Element:
    raise Unproved("an element of an empty tensor")


_Range: TypeAlias = tuple[int, int]


def _groups(case: CaseFacts, target: Shape, source: Shape) -> list[tuple[_Range, _Range]]:
    """Pairs of ranges of axes, one of each shape and as short as possible, with equal numbers of
    elements.
    """
    groups: list[tuple[_Range, _Range]] = []
    i = j = 0
    while i < len(target) or j < len(source):
        if i < len(target) and j < len(source) and target[i] == source[j]:
            groups.append(((i, i + 1), (j, j + 1)))
            i, j = i + 1, j + 1
            continue
        ends = [
            (u, v)
            for u in range(min(i + 1, len(target)), len(target) + 1)
            for v in range(min(j + 1, len(source)), len(source) + 1)
            if product(target[i:u]) == product(source[j:v])
        ]
        if not ends:
            _require_equal_products(case, target, source)
            raise Unproved("a Reshape whose sizes are not understood")
        u, v = min(ends, key=sum)
        groups.append(((i, u), (j, v)))
        i, j = u, v
    return groups


def _require_equal_products(case: CaseFacts, target: Shape, source: Shape) -> None:
    """Raise `Impossible` or `SizeSplit` where a Reshape needs other sizes."""
    products = product(target), product(source)
    if products[0] == products[1]:
        return
    for divisor, dividend in (products, products[::-1]):
        if not case.is_at_least_zero(divisor - 1):
            continue
        if dividend == 0:
            raise Impossible
        quotient = exact_quotient(dividend, divisor)
        if isinstance(quotient, SymbolicDim) and quotient.is_symbol:
            raise SizeSplit({str(quotient): 1})
    _require_multiple(target)


def _require_multiple(target: Shape) -> None:
    """Raise `SizeSplit` where a Reshape needs a size to be a multiple of a number."""
    for size in target:
        quotients = [
            atom.args
            for monomial, _ in ([] if isinstance(size, int) else size.terms)
            for atom, _ in monomial
            if atom.kind == "//"
        ]
        for dividend, divisor in quotients:
            if isinstance(divisor, int) and isinstance(dividend, SymbolicDim):
                require_multiple(dividend, divisor)


def require_multiple(size: SymbolicDim, divisor: int) -> None:
    """Raise `SizeSplit` for the case in which ``size`` is a multiple of ``divisor``.

    Does nothing unless ``size`` is a number times one symbol.
    """
    if len(size.terms) > 1 or size.constant:
        return
    ((monomial, number),) = size.terms
    atom, power = monomial[0]
    rest = divisor // math.gcd(divisor, number)
    if len(monomial) == power == 1 and not atom.args and rest > 1:
        raise SizeSplit(multiple_of(atom.name, rest))


def require_equal(size: Dim, result: Dim, *, or_one: bool = True) -> None:
    """Raise `SizeSplit` or `Impossible` where two sizes differ that have to be equal.

    With ``or_one``, ``size`` broadcasts to ``result``: it is equal to it, or 1.
    """
    if size == result or (or_one and size == 1):
        return
    atom = single_atom(result)
    if atom is not None and atom.kind == "broadcast":
        pair = [arg for arg in atom.args if arg != size]
        return require_equal(size, pair[0])
    names = [dim for dim in (size, result) if isinstance(dim, SymbolicDim) and dim.is_symbol]
    if isinstance(size, int) and isinstance(result, int):
        raise Impossible
    if not names:
        raise Unproved(f"sizes {size} and {result} that have to be equal")
    symbol = names[0]
    replacement = result if symbol is size else size
    if str(symbol) in symbols_of(replacement):
        raise Unproved(f"sizes {size} and {result} that have to be equal")
    ones = [name for name in names if or_one and not is_never_one(name)]
    raise SizeSplit({str(symbol): replacement}, *({str(name): 1} for name in ones))


def require_vector(x: Tensor, size: Dim) -> None:
    """Raise where a bias is no vector of ``size`` elements: ONNX Runtime refuses other shapes."""
    if x.rank != 1:
        raise Unproved("a bias of another rank")
    require_equal(x.shape[0], size, or_one=False)


def require_broadcast(tensors: Sequence[Tensor], shape: Shape) -> None:
    """Raise `SizeSplit` or `Impossible` where operands do not broadcast to a shape."""
    for tensor in tensors:
        lead = len(shape) - tensor.rank
        for size, result in zip(tensor.shape, shape[lead:], strict=True):
            require_equal(size, result)


def broadcast_at(tensor: Tensor, indices: Indices) -> Element:
    """The element of an operand at indices of a result to whose shape it broadcasts."""
    return tensor.at(indices[len(indices) - tensor.rank :])


def elementwise(
    compute: Callable[..., Element],
    operands: Sequence[Tensor],
    shape: Sequence[Dim],
    dtype: int,
) -> Tensor:
    """The tensor of a function of the elements of operands that broadcast to ``shape``."""
    target = tuple(shape)
    require_broadcast(operands, target)

    def read(indices: Indices) -> Element:
        return compute(*(broadcast_at(x, indices) for x in operands))

    return Tensor(target, dtype, read)
