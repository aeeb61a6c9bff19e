"""Equality of normal forms up to folded constants: coefficients may differ by some ulps of the sum
of the magnitudes of their terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import is_float
from xoptim.proof.coefficients import (
    CoefficientTerm,
    Condition,
    Extents,
    free_of,
    sizes_of,
    types_of,
)
from xoptim.proof.elements import Argument, Element, Factor, added, canonical_term, closed, factor
from xoptim.proof.indices import BOUND, OutOfTime, Unproved, check_time, index_symbol
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
)

_Skeleton: TypeAlias = dict[Any, list[CoefficientTerm]]
"""The coefficients of an element by the products that they belong to."""


@dataclass(slots=True)
class Closeness:
    """Compares elements up to the rounding of constants.

    Attributes:
        extents: the extents of the indices of the case.
        dtype: the type of the elements.
        dtypes: the types of the constants that were found close, and ``dtype``.
        relative_tolerance: the largest relative tolerance of a constant.
        conditions: on each `AnyArray`; the elements are close if all hold.
    """

    extents: Extents
    dtype: int
    dtypes: set[int] = field(default_factory=set)
    relative_tolerance: float = 0.0
    conditions: dict[Condition, None] = field(default_factory=dict)
    _representatives: dict[Any, list[Element]] = field(default_factory=dict)
    _skeletons: dict[Element, _Skeleton] = field(default_factory=dict)

    def are_close(self, left: Element, right: Element) -> bool:
        """Whether two elements are equal up to the rounding of constants."""
        return self._same(self._settled(left, {}), self._settled(right, {}), {})

    def _settled(self, value: Element, outer: Extents) -> Element:
        """The element with arguments of functions replaced by earlier ones that are close to them.

        Arguments that are close to each other become the same one.
        """
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
        representatives = self._representatives.setdefault((key, used), [])
        for candidate in representatives:
            if candidate is value or self._same(candidate, value, extents):
                return candidate
        representatives.append(value)
        return value

    def _same(self, left: Element, right: Element, extents: Extents) -> bool:
        if left is right:
            return True
        check_time()
        first, second = self._skeleton_of(left), self._skeleton_of(right)
        outer = {**self.extents, **extents}
        conditions = dict(self.conditions)
        try:
            is_same = all(
                self._agree(first.get(key, []), second.get(key, []), {**outer, **_bounds(key)})
                for key in {**first, **second}
            )
        except OutOfTime:
            raise
        except Unproved:
            is_same = False
        if not is_same:
            self.conditions = conditions
        return is_same

    def _skeleton_of(self, value: Element) -> _Skeleton:
        if value not in self._skeletons:
            self._skeletons[value] = _by_skeleton(value)
        return self._skeletons[value]

    def _agree(
        self, left: list[CoefficientTerm], right: list[CoefficientTerm], extents: Extents
    ) -> bool:
        if Counter(left) == Counter(right):
            return True
        if all(isinstance(x.number, int) and not x.powers for x in (*left, *right)):
            return False  # counts, such as those of the operands of a product
        parts = [*left, *right]
        names = sorted(
            {name for part in parts for name in free_of(part.powers) - {*dict(part.inner)}}
        )
        dtypes = {self.dtype, *types_of(base for part in parts for base, _ in part.powers)}
        condition = Condition(
            tuple(left), tuple(right), sizes_of(names, extents), frozenset(dtypes)
        )
        self.dtypes |= dtypes
        if condition.is_open:
            self.conditions[condition] = None
            return True
        relative_tolerance = condition.relative_tolerance()
        self.relative_tolerance = max(self.relative_tolerance, relative_tolerance or 0.0)
        return relative_tolerance is not None


def _bounds(key: tuple[Any, ...]) -> dict[str, Dim]:
    return dict(key[0])


def _by_skeleton(value: Element) -> _Skeleton:
    """The coefficients of an element, grouped by the product of factors that are not constant."""
    groups: _Skeleton = {}
    for (bounds, powers), number in value.terms.items():
        rest = {base: power for base, power in powers if not _is_constant(base)}
        used = free_of(rest.items())
        outer = [bound for bound in bounds if bound[0] in used]
        summed = [bound for bound in bounds if bound[0] not in used]
        key, names = canonical_term(outer, rest)
        # names that no canonical index has
        inner = tuple((f"{BOUND}i{place}", extent) for place, (_, extent) in enumerate(summed))
        pairs = zip(summed, inner, strict=True)
        names |= {old: index_symbol(new, extent) for (old, extent), (new, _) in pairs}
        constants = [(base, power) for base, power in powers if _is_constant(base)]
        renamed = tuple((_renamed(base, names), power) for base, power in constants)
        groups.setdefault(key, []).append(CoefficientTerm(number, renamed, inner))
    return groups


def _renamed(base: Factor, names: Mapping[str, Dim]) -> Factor:
    value = closed((), {base: 1}, 1).substituted(names).single
    if value is None:
        raise Unproved("a constant that is not compared")
    return value


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
    """Whether all arguments of a function are floating-point numbers, which may be rounded."""
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
