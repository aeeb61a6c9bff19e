"""Equality of normal forms whose constants were computed before: coefficients are numbers within
some ulps of the sum of the magnitudes that they are made of.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import is_float
from xoptim.facts.symbolic import SymbolicDim
from xoptim.proof.elements import (
    Argument,
    Bounds,
    Element,
    Factor,
    Number,
    Powers,
    added,
    canonical_term,
    closed,
    factor,
)
from xoptim.proof.indices import BOUND, OutOfTime, Unproved, check_time, index_symbol, symbols_of
from xoptim.proof.kinds import (
    COMPARISONS,
    CONSTANT,
    ERF,
    EXP,
    LOG,
    MAXIMUM,
    MINIMUM,
    ROOT,
    SUM,
    TANH,
    Stored,
)

_MAX_ELEMENTS: Final = 1 << 22
"""Maximal number of coefficients, and of products in one of them."""
_ULPS: Final = 8
_ULPS_OF_16_BITS: Final = 2
_MAX_USUAL_WIDTH: Final = 16
"""Where the terms of a constant cancel, the allowed difference is a larger multiple of it."""
_EPSILONS: Final[dict[int, tuple[float, float]]] = {
    TensorProto.BFLOAT16: (2.0**-8, 2.0**-133),
    TensorProto.FLOAT16: (2.0**-11, 2.0**-24),
    TensorProto.FLOAT: (2.0**-24, 2.0**-149),
    TensorProto.DOUBLE: (2.0**-53, 0.0),
}
"""Half an ulp of 1, and the smallest number, of the types of constants."""

Array: TypeAlias = np.ndarray[Any, Any]
Extents: TypeAlias = Mapping[str, Dim]


@dataclass(frozen=True, slots=True)
class Precision:
    """How far computed constants may be apart: relative to the magnitudes, and absolutely."""

    relative: float
    absolute: float
    text: str

    def texts(self, width: float) -> list[str]:
        """What is assumed of constants that differ by at most a share ``width`` of themselves."""
        if width <= _MAX_USUAL_WIDTH * self.relative:
            return [self.text]
        share = f"{width:.1g} of themselves" if math.isfinite(width) else "more than themselves"
        return [f"constants of terms that cancel may differ by {share}", self.text]


def precision_of(dtypes: Collection[int]) -> Precision:
    """The precision of constants that are computed of some types: that of the least precise one."""
    dtype = next((dtype for dtype in _EPSILONS if dtype in dtypes), TensorProto.FLOAT)
    epsilon, smallest = _EPSILONS[dtype]
    is_short = dtype in (TensorProto.BFLOAT16, TensorProto.FLOAT16)
    ulps = _ULPS_OF_16_BITS if is_short else _ULPS
    bits = -int(math.log2(epsilon))
    return Precision(ulps * epsilon, smallest, f"constants within {ulps} * 2^-{bits}")


@dataclass(frozen=True, slots=True)
class _Coefficient:
    """A part of the coefficient of a product: a number, factors that are constants, and the indices
    that are summed in it.
    """

    number: Number
    powers: Powers
    inner: Bounds

    @property
    def indices(self) -> frozenset[str]:
        """The indices that the coefficient depends on."""
        return _free(self.powers).difference(name for name, _ in self.inner)


_Skeleton: TypeAlias = dict[Any, list[_Coefficient]]
"""The coefficients of an element by the products that they belong to."""


@dataclass(slots=True)
class Closeness:
    """Compares elements up to the rounding of constants.

    Attributes:
        extents: those of the indices of the case.
        dtype: the type of the elements.
        dtypes: the types of the constants that were found close, and ``dtype``.
        width: the largest share of a constant by which it was allowed to differ.
    """

    extents: Extents
    dtype: int
    dtypes: set[int] = field(default_factory=set)
    width: float = 0.0
    _met: dict[Any, list[Element]] = field(default_factory=dict)
    _skeletons: dict[Element, _Skeleton] = field(default_factory=dict)

    def are_close(self, left: Element, right: Element) -> bool:
        """Whether two elements are equal up to the rounding of constants."""
        return self._same(self._settled(left, {}), self._settled(right, {}), {})

    def _settled(self, value: Element, outer: Extents) -> Element:
        """The element, whose functions have the arguments met before in place of close ones."""
        parts: list[Element] = []
        for (bounds, powers), number in value.terms.items():
            extents = {**outer, **dict(bounds)}
            images: dict[Factor, int] = {}
            for base, power in powers:
                image = self._settled_factor(base, extents)
                images[image] = images.get(image, 0) + power
            parts.append(closed(bounds, images, number))
        return added(parts)

    def _settled_factor(self, base: Factor, extents: Extents) -> Factor:
        if _is_constant(base) or not _is_of_floats(base):
            return base
        args: list[Argument] = []
        for place, arg in enumerate(base.args):
            if isinstance(arg, Element):
                arg = self._representative((base.key, place), self._settled(arg, extents), extents)
            args.append(arg)
        return factor(*base.key, args=args)

    def _representative(self, key: Any, value: Element, extents: Extents) -> Element:
        used = tuple(sorted((n, e) for n, e in extents.items() if n in value.free))
        met = self._met.setdefault((key, used), [])
        for other in met:
            if other is value or self._same(other, value, extents):
                return other
        met.append(value)
        return value

    def _same(self, left: Element, right: Element, extents: Extents) -> bool:
        if left is right:
            return True
        check_time()
        first, second = self._skeleton_of(left), self._skeleton_of(right)
        outer = {**self.extents, **extents}
        try:
            return all(
                self._agree(first.get(key, []), second.get(key, []), {**outer, **_bounds(key)})
                for key in {**first, **second}
            )
        except OutOfTime:
            raise
        except Unproved:
            return False

    def _skeleton_of(self, value: Element) -> _Skeleton:
        if value not in self._skeletons:
            self._skeletons[value] = _by_skeleton(value)
        return self._skeletons[value]

    def _agree(self, left: list[_Coefficient], right: list[_Coefficient], extents: Extents) -> bool:
        if Counter(left) == Counter(right):
            return True
        if all(isinstance(x.number, int) and not x.powers for x in (*left, *right)):
            return False  # counts, such as those of the operands of a product
        parts = [*left, *right]
        names = sorted(
            {name for part in parts for name in _free(part.powers) - {*dict(part.inner)}}
        )
        grid = _grid(names, extents)
        a, magnitude_a = _sum(left, grid)
        b, magnitude_b = _sum(right, grid)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return False
        dtypes = {self.dtype, *_types_of(base for part in parts for base, _ in part.powers)}
        self.dtypes |= dtypes
        precision = precision_of(dtypes)
        limit = precision.relative * np.maximum(magnitude_a, magnitude_b)
        has_constants = any(part.powers for part in parts)
        slack = precision.absolute if has_constants else 0.0
        self.width = max(self.width, _share(limit, np.maximum(np.abs(a), np.abs(b))))
        return bool((np.abs(a - b) <= limit + slack).all())


def _share(limit: Array, sizes: Array) -> float:
    """The largest quotient of a limit and a size, where the limit is not 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(limit > 0, limit / sizes, 0.0)
    return float(shares.max(initial=0.0))


def _types_of(bases: Iterable[Factor]) -> Iterator[int]:
    """The types of the arrays that constant factors depend on."""
    for base in bases:
        if base.key[0] == CONSTANT and isinstance(base.key[1], Stored):
            yield np_dtype_to_tensor_dtype(base.key[1].array.dtype)
            continue
        arguments = (arg for arg in base.args if isinstance(arg, Element))
        yield from _types_of(
            inner for arg in arguments for _, powers in arg.terms for inner, _ in powers
        )


def _bounds(key: tuple[Any, ...]) -> dict[str, Dim]:
    return dict(key[0])


def _by_skeleton(value: Element) -> _Skeleton:
    """The coefficients of the products of what is not constant."""
    groups: _Skeleton = {}
    for (bounds, powers), number in value.terms.items():
        rest = {base: power for base, power in powers if not _is_constant(base)}
        used = _free(rest.items())
        outer = [bound for bound in bounds if bound[0] in used]
        summed = [bound for bound in bounds if bound[0] not in used]
        key, names = canonical_term(outer, rest)
        # names that no canonical index has
        inner = tuple((f"{BOUND}i{place}", extent) for place, (_, extent) in enumerate(summed))
        pairs = zip(summed, inner, strict=True)
        names |= {old: index_symbol(new, extent) for (old, extent), (new, _) in pairs}
        constants = [(base, power) for base, power in powers if _is_constant(base)]
        renamed = tuple((_renamed(base, names), power) for base, power in constants)
        groups.setdefault(key, []).append(_Coefficient(number, renamed, inner))
    return groups


def _renamed(base: Factor, names: Mapping[str, Dim]) -> Factor:
    value = closed((), {base: 1}, 1).substituted(names).single
    if value is None:
        raise Unproved("a constant that is not compared")
    return value


def _free(powers: Iterable[tuple[Factor, int]]) -> frozenset[str]:
    return frozenset[str]().union(*(base.free for base, _ in powers))


def _is_constant(base: Factor) -> bool:
    """Whether a factor depends on constants alone."""
    if base.key[0] == CONSTANT:
        return not base.is_special
    return base.key[0] in (ROOT, EXP, SUM) and all(
        _is_constant(inner)
        for arg in base.args
        if isinstance(arg, Element)
        for _, powers in arg.terms
        for inner, _ in powers
    )


def _is_of_floats(base: Factor) -> bool:
    """Whether all arguments of a function are floating-point numbers: no others are rounded."""
    kind = base.key[0]
    if kind in (*COMPARISONS, "cast"):
        return isinstance(base.key[1], int) and is_float(base.key[1])
    if kind == "pointwise":
        types = base.key[-2]
        return isinstance(types, tuple) and all(map(is_float, types))
    return kind in _OF_FLOATS


_OF_FLOATS: Final = frozenset(
    (
        *(ROOT, EXP, SUM, MAXIMUM, MINIMUM, LOG, TANH, ERF),
        *("ReduceMax", "ReduceMin", "ReduceProd"),
    )
)
_Grid: TypeAlias = dict[str, Array]
"""All values of some indices, each along an axis of its own."""


def _grid(names: list[str], extents: Extents) -> _Grid:
    sizes = [extents.get(name) for name in names]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(names) or math.prod(numbers) > _MAX_ELEMENTS:
        raise Unproved("a constant of unknown size")
    arrays = np.meshgrid(*map(np.arange, numbers), indexing="ij", sparse=True)
    return dict(zip(names, arrays, strict=True))


def _sum(parts: list[_Coefficient], grid: _Grid) -> tuple[Array, Array]:
    """The sum of coefficients at all indices, and of their magnitudes."""
    total: Any = np.zeros(())
    magnitude: Any = np.zeros(())
    for part in parts:
        bounds = dict(part.inner)
        inner = _grid([*bounds], bounds)
        ones = (1,) * len(inner)
        wide = {name: array.reshape(array.shape + ones) for name, array in grid.items()}
        product, size = _product(part.powers, float(part.number), {**wide, **inner})
        if inner:
            shape = np.broadcast_shapes(product.shape, *(array.shape for array in inner.values()))
            axes = tuple(range(-len(inner), 0))
            product, size = (np.broadcast_to(x, shape).sum(axes) for x in (product, size))
        is_only = len(parts) == 1
        total = product if is_only else total + product
        magnitude = size if is_only else magnitude + size
    return np.asarray(total), np.asarray(magnitude)


def _product(
    powers: Iterable[tuple[Factor, int]], number: float, grid: _Grid
) -> tuple[Array, Array]:
    """A product of constants at all indices, and the magnitude that it is rounded by."""
    result: Any = np.asarray(number)
    magnitude: Any = np.asarray(abs(number))
    is_plain = True  # whether the magnitude is that of the product
    with np.errstate(all="ignore"):
        for base, power in powers:
            value, size = _value(base, grid)
            if size is None and is_plain:
                result = result * (value if power == 1 else value ** float(power))
                continue
            magnitude = np.abs(result) if is_plain else magnitude
            is_plain = False
            result = result * value ** float(power)
            sizes = np.abs(value) if size is None or power < 0 else size
            magnitude = magnitude * sizes ** float(power)
    return result, np.abs(result) if is_plain else magnitude


def _value(base: Factor, grid: _Grid) -> tuple[Array, Array | None]:
    """The value of a constant factor at all indices, and the magnitude that it is rounded by;
    ``None`` for that of the value.
    """
    stored = base.key[-1]
    if isinstance(stored, Stored):
        indices = [_index(arg, grid) for arg in base.args]
        return _taken(stored.array, indices).astype(np.float64), None
    (content,) = base.args
    assert isinstance(content, Element)
    value = np.zeros(())
    size = np.zeros(())
    for (bounds, powers), number in content.terms.items():
        if bounds:
            raise Unproved("a function of a sum of constants")
        a, b = _product(powers, float(number), grid)
        value, size = value + a, size + b
    if base.key[0] == SUM:
        return value, size
    function = np.sqrt if base.key[0] == ROOT else np.exp
    return function(value), None


def _taken(array: Array, indices: Sequence[Array]) -> Array:
    """The elements of an array at indices that broadcast with each other; those out of range are
    not read.
    """
    axes: list[int] = []
    for index, size in zip(indices, array.shape, strict=True):
        is_whole = index.size == size > 1 and bool((index.reshape(-1) == np.arange(size)).all())
        axes.append(index.shape.index(size) if is_whole and size in index.shape else -1)
    if axes and -1 not in axes and len({*axes}) == len(axes):
        # each index takes all values, along an axis of its own
        shape = [1] * indices[0].ndim
        for axis, size in zip(axes, array.shape, strict=True):
            shape[axis] = size
        return array.transpose(np.argsort(axes)).reshape(shape)
    pairs = zip(indices, array.shape, strict=True)
    taken: Array = array[tuple(np.clip(index, 0, size - 1) for index, size in pairs)]
    return taken


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
