"""Numeric values of coefficients: sums of products of constants, computed for every value of their
indices.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype

from xoptim.facts.dims import Dim
from xoptim.facts.symbolic import SymbolicDim
from xoptim.proof.elements import Argument, Bounds, Element, Factor, Number, Powers
from xoptim.proof.indices import Unproved, symbols_of
from xoptim.proof.kinds import CONSTANT, ROOT, SUM, AnyArray, Stored

_MAX_ELEMENTS: Final = 1 << 22
"""Maximal number of coefficients, and of products in one of them."""
_ULPS: Final = 8
_ULPS_OF_16_BITS: Final = 2
_MAX_USUAL_RATIO: Final = 16
"""A tolerance above this multiple of the usual one is a premise of the proof.

Tolerances are relative to the summands, so they may exceed a sum whose summands cancel.
"""
_EPSILONS: Final[dict[int, tuple[float, float]]] = {
    TensorProto.BFLOAT16: (2.0**-8, 2.0**-133),
    TensorProto.FLOAT16: (2.0**-11, 2.0**-24),
    TensorProto.FLOAT: (2.0**-24, 2.0**-149),
    TensorProto.DOUBLE: (2.0**-53, 0.0),
}
"""Half an ulp of 1, and the smallest positive (subnormal) number, by type; 0 for float64, which has
no absolute tolerance.
"""

Array: TypeAlias = np.ndarray[Any, Any]
Extents: TypeAlias = Mapping[str, Dim]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far computed constants may be apart: relative to the magnitudes, and absolutely."""

    rtol: float
    atol: float
    text: str

    def texts(self, relative_tolerance: float) -> list[str]:
        """The premises about constants with this largest relative tolerance."""
        if relative_tolerance <= _MAX_USUAL_RATIO * self.rtol:
            return [self.text]
        difference = (
            f"a relative difference of {relative_tolerance:.1g}"
            if math.isfinite(relative_tolerance)
            else "any relative difference"
        )
        return [f"where terms cancel, constants may have {difference}", self.text]


def tolerance_of(dtypes: Collection[int]) -> Tolerance:
    """The tolerance for constants computed from these types: the largest of theirs."""
    dtype = next((dtype for dtype in _EPSILONS if dtype in dtypes), TensorProto.FLOAT)
    epsilon, smallest = _EPSILONS[dtype]
    is_short = dtype in (TensorProto.BFLOAT16, TensorProto.FLOAT16)
    ulps = _ULPS_OF_16_BITS if is_short else _ULPS
    bits = -int(math.log2(epsilon))
    return Tolerance(ulps * epsilon, smallest, f"constants within {ulps} * 2^-{bits}")


@dataclass(frozen=True, slots=True)
class CoefficientTerm:
    """One summand of a coefficient: a number, factors that are constants, and the indices that are
    summed in it.
    """

    number: Number
    powers: Powers
    inner: Bounds

    @property
    def indices(self) -> frozenset[str]:
        """The indices that the summand depends on."""
        return free_of(self.powers).difference(name for name, _ in self.inner)


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition that two coefficients are equal up to the rounding of constants.

    Attributes:
        left: the summands of one side.
        right: the summands of the other side.
        sizes: the number of values of each index that they depend on, by name.
        dtypes: the types of their constants, and the type of the elements.
    """

    left: tuple[CoefficientTerm, ...]
    right: tuple[CoefficientTerm, ...]
    sizes: tuple[tuple[str, int], ...]
    dtypes: frozenset[int]

    @property
    def is_open(self) -> bool:
        """Whether it depends on an `AnyArray`, a constant of unknown elements."""
        return any(map(_is_open, (base for x in (*self.left, *self.right) for base, _ in x.powers)))

    @property
    def is_of_elements(self) -> bool:
        """Whether each side is a single factor, without arithmetic."""
        sides = self.left, self.right
        return all(
            len(side) == 1 and side[0].number == 1 and [p for _, p in side[0].powers] == [1]
            for side in sides
        )

    def relative_tolerance(self, arrays: Sequence[Array] = ()) -> float | None:
        """The largest relative tolerance of the coefficients at any index; ``None`` where they
        differ by more.

        ``arrays``: the elements of each `AnyArray`, by its ``place``.
        """
        grid = _grid(self.sizes)
        a, magnitude_a = _Sums(arrays).sum(self.left, grid)
        b, magnitude_b = _Sums(arrays).sum(self.right, grid)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return None
        tolerance = tolerance_of(self.dtypes)
        limit = tolerance.rtol * np.maximum(magnitude_a, magnitude_b)
        has_constants = any(part.powers for part in (*self.left, *self.right))
        slack = tolerance.atol if has_constants else 0.0
        is_close = bool((np.abs(a - b) <= limit + slack).all())
        return _largest_ratio(limit, np.maximum(np.abs(a), np.abs(b))) if is_close else None


def _largest_ratio(limit: Array, magnitudes: Array) -> float:
    """The largest ratio of a limit to a magnitude, where the limit is not 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(limit > 0, limit / magnitudes, 0.0)
    return float(ratios.max(initial=0.0))


def types_of(bases: Iterable[Factor]) -> Iterator[int]:
    """The types of the arrays that constant factors depend on."""
    for base in bases:
        if base.key[0] == CONSTANT:
            stored = base.key[1]
            if isinstance(stored, Stored):
                yield np_dtype_to_tensor_dtype(stored.array.dtype)
            elif isinstance(stored, AnyArray):
                yield stored.dtype
            continue
        arguments = (arg for arg in base.args if isinstance(arg, Element))
        yield from types_of(
            inner for arg in arguments for _, powers in arg.terms for inner, _ in powers
        )


def free_of(powers: Iterable[tuple[Factor, int]]) -> frozenset[str]:
    """The names of the symbols in a product."""
    return frozenset[str]().union(*(base.free for base, _ in powers))


_Grid: TypeAlias = dict[str, Array]
"""All values of some indices, each along an axis of its own."""


Sizes: TypeAlias = tuple[tuple[str, int], ...]


def sizes_of(names: Iterable[str], extents: Extents) -> Sizes:
    """The extents of some indices; raises `Unproved` for symbolic ones, or too many elements."""
    pairs = [(name, extents.get(name)) for name in names]
    sizes = tuple((name, size) for name, size in pairs if isinstance(size, int))
    if len(sizes) < len(pairs) or math.prod(size for _, size in sizes) > _MAX_ELEMENTS:
        raise Unproved("a constant of unknown size")
    return sizes


def _grid(sizes: Sizes) -> _Grid:
    ranges = [np.arange(size) for _, size in sizes]
    arrays = np.meshgrid(*ranges, indexing="ij", sparse=True)
    return dict(zip((name for name, _ in sizes), arrays, strict=True))


def _is_open(base: Factor) -> bool:
    """Whether a factor that is constant depends on an `AnyArray`."""
    if base.key[0] == CONSTANT:
        return isinstance(base.key[1], AnyArray)
    elements = (arg for arg in base.args if isinstance(arg, Element))
    return any(_is_open(f) for arg in elements for _, powers in arg.terms for f, _ in powers)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Computes coefficients, with these elements of each `AnyArray`."""

    arrays: Sequence[Array]

    def sum(self, parts: Sequence[CoefficientTerm], grid: _Grid) -> tuple[Array, Array]:
        """The sum of summands at all indices, and of their magnitudes."""
        total: Any = np.zeros(())
        magnitude: Any = np.zeros(())
        for part in parts:
            bounds = dict(part.inner)
            inner = _grid(sizes_of(bounds, bounds))
            ones = (1,) * len(inner)
            outer = {name: array.reshape(array.shape + ones) for name, array in grid.items()}
            product, size = self._product(part.powers, float(part.number), {**outer, **inner})
            if inner:
                shape = np.broadcast_shapes(
                    product.shape, *(array.shape for array in inner.values())
                )
                axes = tuple(range(-len(inner), 0))
                product, size = (np.broadcast_to(x, shape).sum(axes) for x in (product, size))
            is_only = len(parts) == 1
            total = product if is_only else total + product
            magnitude = size if is_only else magnitude + size
        return np.asarray(total), np.asarray(magnitude)

    def _product(
        self, powers: Iterable[tuple[Factor, int]], number: float, grid: _Grid
    ) -> tuple[Array, Array]:
        """A product of constants at all indices, and the magnitude that scales its tolerance."""
        result: Any = np.asarray(number)
        magnitude: Any = np.asarray(abs(number))
        is_plain = True  # whether the magnitude is that of the product
        with np.errstate(all="ignore"):
            for base, power in powers:
                value, size = self._value(base, grid)
                if size is None and is_plain:
                    result = result * (value if power == 1 else value ** float(power))
                    continue
                magnitude = np.abs(result) if is_plain else magnitude
                is_plain = False
                result = result * value ** float(power)
                sizes = np.abs(value) if size is None or power < 0 else size
                magnitude = magnitude * sizes ** float(power)
        return result, np.abs(result) if is_plain else magnitude

    def _value(self, base: Factor, grid: _Grid) -> tuple[Array, Array | None]:
        """The value of a constant factor at all indices, and the magnitude that scales its
        tolerance; ``None`` for the magnitude of the value.
        """
        stored = base.key[-1]
        if isinstance(stored, Stored | AnyArray):
            array = stored.array if isinstance(stored, Stored) else self.arrays[stored.place]
            indices = [_index(arg, grid) for arg in base.args]
            places = zip(base.args, array.shape, strict=True)
            if any(isinstance(index, int) and not 0 <= index < size for index, size in places):
                raise Unproved("an index of a constant that is out of range")
            return _elements_at(array, indices).astype(np.float64), None
        (content,) = base.args
        assert isinstance(content, Element)
        value = np.zeros(())
        size = np.zeros(())
        for (bounds, powers), number in content.terms.items():
            if bounds:
                raise Unproved("a function of a sum of constants")
            a, b = self._product(powers, float(number), grid)
            value, size = value + a, size + b
        if base.key[0] == SUM:
            return value, size
        function = np.sqrt if base.key[0] == ROOT else np.exp
        return function(value), None


def _elements_at(array: Array, indices: Sequence[Array]) -> Array:
    """The elements of an array at indices that broadcast with each other, clipped to the array."""
    axes: list[int] = []
    for index, size in zip(indices, array.shape, strict=True):
        takes_all_values = index.size == size > 1 and bool(
            (index.reshape(-1) == np.arange(size)).all()
        )
        axes.append(index.shape.index(size) if takes_all_values and size in index.shape else -1)
    if axes and -1 not in axes and len({*axes}) == len(axes):
        # each index takes all values, along an axis of its own
        shape = [1] * indices[0].ndim
        for axis, size in zip(axes, array.shape, strict=True):
            shape[axis] = size
        return array.transpose(np.argsort(axes)).reshape(shape)
    pairs = zip(indices, array.shape, strict=True)
    elements: Array = array[tuple(np.clip(index, 0, size - 1) for index, size in pairs)]
    return elements


def _index(arg: Argument, grid: _Grid) -> Array:
    """The values of an index at all indices of a grid."""
    if isinstance(arg, int):
        return np.asarray(arg)
    if isinstance(arg, Element) or not symbols_of(arg) <= grid.keys():
        raise Unproved("an index of a constant that depends on a size")
    return _polynomial(arg, grid)


def _polynomial(dim: SymbolicDim, grid: _Grid) -> Array:
    total: Any = np.asarray(dim.constant)
    for monomial, number in dim.terms:
        term: Any = number
        for atom, power in monomial:
            if atom.kind in ("//", "%"):
                left, right = (_index(arg, grid) for arg in atom.args)
                value = left // right if atom.kind == "//" else left % right
            elif atom.args:
                raise Unproved("an index of a constant that is not computed")
            else:
                value = grid[atom.name]
            term = term * value**power
        total = total + term
    return np.asarray(total)
