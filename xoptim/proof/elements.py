"""Elements of tensors: sums of products under bounded sums, in normal form.

Equal elements are one object. A factor is what no law takes apart: an element of an input, a
constant, a function of elements. The indices of sums have canonical names, so sums that differ in
these names only are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias, final

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.polynomials import Table
from xoptim.facts.symbolic import of_atom
from xoptim.proof.indices import (
    BOUND,
    Unproved,
    check_time,
    index_symbol,
    level_of,
    replaced,
    symbols_of,
)
from xoptim.proof.kinds import (
    COMPARISONS,
    CONSTANT,
    MASKED,
    ROOT,
    SIZE,
    SPECIAL,
    SUM,
    WHOLE,
    WITHIN,
    Stored,
)
from xoptim.proof.terms import free_names, level_of_term, order_of_term, orders, text_of_term

Number: TypeAlias = int | Fraction
Bounds: TypeAlias = tuple[tuple[str, Dim], ...]
"""The indices of a sum, each with its extent."""
Powers: TypeAlias = tuple[tuple["Factor", int], ...]
Term: TypeAlias = tuple[Bounds, Powers]
Argument: TypeAlias = "Dim | Element"

_MAX_TERMS: Final = 400
_MAX_BOUNDS: Final = 5
_serial: Final = itertools.count()
_names: Final = itertools.count()


@final
class Factor:
    """A function of indices and elements, applied; made by `factor` only.

    ``key`` begins with the kind, and names the function with all that it depends on.
    """

    __slots__ = (
        "__weakref__",
        "args",
        "free",
        "is_boolean",
        "is_special",
        "key",
        "level",
        "serial",
    )

    def __init__(self, key: tuple[Hashable, ...], args: tuple[Argument, ...]) -> None:
        self.key = key
        self.args = args
        is_whole = key[0] == WHOLE
        elements = [arg for arg in args if isinstance(arg, Element)]
        free = [symbols_of(arg) for arg in args if not isinstance(arg, Element)]
        # names of the symbols in its arguments; operands that are read as a whole have none
        self.free = frozenset[str]().union(*free, *(e.free for e in elements if not is_whole))
        self.level = max(
            (arg.level if isinstance(arg, Element) else level_of(arg) for arg in args), default=0
        )
        # whether it may be NaN or infinite
        self.is_special = key[0] in (SPECIAL, MASKED) or (
            key[0] == CONSTANT and isinstance(key[1], Stored) and not key[1].is_finite
        )
        # whether it is 0 or 1; the last part of a key is the type of the results
        self.is_boolean = key[0] in (WITHIN, *COMPARISONS) or key[-1] == TensorProto.BOOL
        self.serial = next(_serial)

    def __repr__(self) -> str:
        name = ".".join(str(part) for part in self.key if part not in ("", ()))
        return f"{name}({', '.join(map(str, self.args))})"


@final
class Element:
    """A sum of terms with coefficients; made by `element` only."""

    __slots__ = ("__weakref__", "free", "is_special", "level", "serial", "terms")

    def __init__(self, terms: dict[Term, Number]) -> None:
        self.terms = terms
        self.serial = next(_serial)
        self.free = frozenset[str]().union(*map(free_names, terms))
        self.level = max(map(level_of_term, terms), default=0)
        # whether one of its factors may be NaN or infinite
        self.is_special = any(f.is_special for _, powers in terms for f, _ in powers)

    def __add__(self, other: Element) -> Element:
        return element(_merged(self.terms, other.terms))

    def __neg__(self) -> Element:
        return self.scaled(-1)

    def __sub__(self, other: Element) -> Element:
        return self + -other

    def scaled(self, number: Number) -> Element:
        """The product with a number."""
        return element({term: value * number for term, value in self.terms.items()})

    def __mul__(self, other: Element) -> Element:
        if len(self.terms) * len(other.terms) > _MAX_TERMS:
            raise Unproved("a large expression")
        check_time()
        pairs = itertools.product(self.terms.items(), other.terms.items())
        return added(_product(*_apart(left, right), a * b) for (left, a), (right, b) in pairs)

    def power(self, exponent: int) -> Element:
        """This element to an integer power, which may be negative."""
        base = self if exponent >= 0 else inverse(self)
        result = ONE
        for _ in range(abs(exponent)):
            result = result * base
        return result

    @property
    def number(self) -> Number | None:
        """The value of an element that is a number."""
        if not self.terms:
            return 0
        return self.terms.get(_UNIT) if len(self.terms) == 1 else None

    @property
    def single(self) -> Factor | None:
        """The factor of an element that is one factor."""
        ((bounds, powers), number), *more = self.terms.items() or [(((), ()), 0)]
        is_single = not more and not bounds and number == 1 and len(powers) == 1
        return powers[0][0] if is_single and powers[0][1] == 1 else None

    def substituted(self, values: Mapping[str, Dim]) -> Element:
        """The element with expressions in place of symbols."""
        if self.free.isdisjoint(values):
            return self
        parts: list[Element] = []
        for term, number in self.terms.items():
            bounds, powers = opened(term)
            extents = [(name, replaced(extent, values)) for name, extent in bounds]
            images = [(_image(base, values), exponent) for base, exponent in powers]
            parts.append(expanded(extents, images, number))
        return added(parts)

    def summed(self, name: str, extent: Dim) -> Element:
        """The sum over an index from 0 to ``extent - 1``."""
        parts: list[Element] = []
        for term, number in self.terms.items():
            bounds, powers = opened(term)
            parts.append(_closed([(name, extent), *bounds], dict(powers), number))
        return added(parts)

    def __repr__(self) -> str:
        return " + ".join(text_of_term(term, number) for term, number in self.terms.items()) or "0"


Law: TypeAlias = Callable[[tuple[Hashable, ...], list[Any]], "Element"]
"""Takes a key and new arguments, returns the function applied to them."""
LAWS: Final[dict[str, Law]] = {}
"""The functions that simplify, by kind; `xoptim.proof.laws` enters them."""
FACTORS: Final = Table[Factor]()
ELEMENTS: Final = Table[Element]()


def factor(*key: Hashable, args: Sequence[Argument] = ()) -> Factor:
    """The function of this key, applied to indices and elements: always the same object."""
    entry = (key, tuple(args))
    existing = FACTORS.find(entry)
    return FACTORS.add(entry, Factor(*entry)) if existing is None else existing


def element(terms: Mapping[Term, Number]) -> Element:
    """The sum of these terms: always the same object."""
    rest = {term: _plain(number) for term, number in terms.items() if number}
    if len(rest) > _MAX_TERMS:
        raise Unproved("a large expression")
    key = frozenset(rest.items())
    existing = ELEMENTS.find(key)
    if existing is None:
        check_time()  # here, as all work of a proof makes elements
        existing = ELEMENTS.add(key, Element(rest))
    return existing


def added(parts: Iterable[Element]) -> Element:
    """The sum of elements."""
    terms: dict[Term, Number] = {}
    for part in parts:
        for term, value in part.terms.items():
            terms[term] = terms.get(term, 0) + value
    return element(terms)


_UNIT: Final[Term] = ((), ())


def _plain(value: Number) -> Number:
    return int(value) if value.denominator == 1 else value


def number(value: Number) -> Element:
    """A number as an element."""
    return element({_UNIT: value})


def of_factor(base: Factor, exponent: int = 1) -> Element:
    """A power of one factor as an element."""
    return element({((), ((base, exponent),)): 1})


def function(*key: Hashable, args: Sequence[Argument] = ()) -> Element:
    """An uninterpreted function (one that no law simplifies) of indices and elements."""
    return of_factor(factor(*key, args=args))


def of_dim(dim: Dim) -> Element:
    """An integer as an element."""
    if isinstance(dim, int):
        return number(dim)
    total = number(dim.constant)
    for monomial, coefficient in dim.terms:
        powers = [(factor(SIZE, args=[of_atom(atom)]), power) for atom, power in monomial]
        total = total + element({((), _sorted(powers)): coefficient})
    return total


def inverse(value: Element) -> Element:
    """The inverse of an element other than 0.

    What all terms share, and the coefficient of one of them, is taken out of a sum.
    """
    if not value.terms:
        raise Unproved("a division by 0")
    shared = _shared(value)
    rest = value * element({((), _sorted((base, -power) for base, power in shared)): 1})
    first = first_term(rest)
    scale = rest.terms[first]
    powers = [(base, -power) for base, power in shared]
    if len(rest.terms) > 1 or first[0]:
        rest = rest.scaled(_quotient(1, scale))
        powers.append((factor(SUM, args=[rest]), -1))
    else:
        assert not first[1]
    return element({((), _sorted(powers)): _quotient(1, scale)})


def first_term(value: Element) -> Term:
    """The first term of an element in an order that does not depend on coefficients."""
    return min(value.terms, key=order_of_term)


def _quotient(dividend: Number, divisor: Number) -> Number:
    return Fraction(dividend) / Fraction(divisor)


def _shared(value: Element) -> list[tuple[Factor, int]]:
    """The powers that occur in all terms, outside of their sums."""
    shared: dict[Factor, int] | None = None
    for bounds, powers in value.terms:
        names = {name for name, _ in bounds}
        outside = {base: power for base, power in powers if base.free.isdisjoint(names)}
        if shared is None:
            shared = outside
            continue
        shared = {
            base: min(power, outside[base], key=abs)
            for base, power in shared.items()
            if outside.get(base, 0) * power > 0
        }
    return list((shared or {}).items())


def _merged(left: Mapping[Term, Number], right: Mapping[Term, Number]) -> dict[Term, Number]:
    merged = dict(left)
    for term, value in right.items():
        merged[term] = merged.get(term, 0) + value
    return merged


def _sorted(powers: Iterable[tuple[Factor, int]]) -> Powers:
    return tuple(sorted(powers, key=lambda power: power[0].serial))


Open: TypeAlias = "tuple[list[tuple[str, Dim]], list[tuple[Factor, int]]]"
"""The bounds and powers of a term whose indices have unique names."""


def opened(term: Term) -> Open:
    """The bounds and powers of a term, with unique names for its indices."""
    bounds, powers = term
    if not bounds:
        return [], list(powers)
    fresh = [(name, f"{BOUND}o{next(_names)}", extent) for name, extent in bounds]
    values: dict[str, Dim] = {old: index_symbol(new, extent) for old, new, extent in fresh}
    images = [(_image(base, values), power) for base, power in powers]
    assert all(isinstance(image, Factor) for image, _ in images)
    return [(new, extent) for _, new, extent in fresh], images  # type: ignore[return-value]


def _apart(left: Term, right: Term) -> tuple[Open, Open]:
    """Both terms, in either order, with different names for their indices."""
    if not right[0]:
        left, right = right, left
    if not left[0]:
        names = {name for name, _ in right[0]}
        if all(base.free.isdisjoint(names) for base, _ in left[1]):
            return ([], list(left[1])), (list(right[0]), list(right[1]))
    return opened(left), opened(right)


def _image(base: Factor, values: Mapping[str, Dim]) -> Factor | Element:
    """A factor with expressions in place of symbols; it may become a sum, or a number."""
    if base.free.isdisjoint(values):
        return base
    is_whole = base.key[0] == WHOLE
    args = [
        replaced(arg, values)
        if not isinstance(arg, Element)
        else arg
        if is_whole
        else arg.substituted(values)
        for arg in base.args
    ]
    law = LAWS.get(str(base.key[0]))
    image = factor(*base.key, args=args) if law is None else law(base.key, args)
    single = None if isinstance(image, Factor) else image.single
    return image if single is None else single


def expanded(
    bounds: list[tuple[str, Dim]], images: Sequence[tuple[Factor | Element, int]], value: Number
) -> Element:
    """A term under a sum, whose factors may be sums."""
    factors = [(image, power) for image, power in images if isinstance(image, Factor)]
    sums = ONE
    for image, power in images:
        if isinstance(image, Element):
            sums = sums * image.power(power)
    return added(
        _product((bounds, factors), opened(term), value * coefficient)
        for term, coefficient in sums.terms.items()
    )


def _product(left: Open, right: Open, value: Number) -> Element:
    """The product of two opened terms."""
    powers: dict[Factor, int] = {}
    for base, power in (*left[1], *right[1]):
        powers[base] = powers.get(base, 0) + power
    _drop_implied(powers)
    bounds = [*left[0], *right[0]]
    sums: list[tuple[Element, int]] = []
    for base, power in list(powers.items()):
        kind = base.key[0]
        if not power:
            del powers[base]
        elif base.is_boolean and power > 0:
            powers[base] = 1
        elif kind == SUM and power > 0:
            del powers[base]
            sums.append((_content(base), power))
        elif kind == ROOT and abs(power) > 1:
            half = abs(power) // 2 * (1 if power > 0 else -1)
            powers[base] = power - 2 * half
            sums.append((_content(base), half))
    if not sums:
        return _closed(bounds, powers, value)
    loose = [(base, power) for base, power in powers.items() if power]
    return expanded(bounds, [*loose, *sums], value)


def _drop_implied(powers: dict[Factor, int]) -> None:
    """Remove conditions that follow from others, as ``x + 1 >= 0`` from ``x >= 0``."""
    conditions = [base for base in powers if base.key[0] == WITHIN]
    for implied, condition in itertools.permutations(conditions, 2):
        if implied in powers and condition in powers:
            distance = implied.args[0] - condition.args[0]  # type: ignore[operator]
            if isinstance(distance, int) and distance >= 0:
                del powers[implied]


def _content(base: Factor) -> Element:
    (content,) = base.args
    assert isinstance(content, Element)
    return content


def _closed(bounds: list[tuple[str, Dim]], powers: Mapping[Factor, int], value: Number) -> Element:
    """A term under a sum, with canonical names of the indices."""
    used = frozenset[str]().union(*(base.free for base in powers))
    count = ONE
    for name, extent in bounds:
        if name not in used:  # a sum of equal terms
            count = count * of_dim(extent)
    rest = [(name, extent) for name, extent in bounds if name in used]
    if not rest:
        term = element({((), _sorted(powers.items())): value})
    else:
        term = _without_softmax(rest, powers, value) or _canonical(rest, powers, value)
    return term if count is ONE else term * count


def _canonical(
    bounds: Sequence[tuple[str, Dim]], powers: Mapping[Factor, int], value: Number
) -> Element:
    term, _ = canonical_term(bounds, powers)
    return element({term: value})


def canonical_term(
    bounds: Sequence[tuple[str, Dim]], powers: Mapping[Factor, int]
) -> tuple[Term, dict[str, Dim]]:
    """A product under a sum with canonical names of its indices, and new symbols by old name."""
    if len(bounds) > _MAX_BOUNDS:
        raise Unproved("more sums than are compared")
    level = 1 + max((base.level for base in powers), default=0)
    candidates: list[tuple[Term, dict[str, Dim]]] = []
    for order in orders(bounds, powers):
        names = [f"{BOUND}{level}.{place}" for place in range(len(order))]
        values: dict[str, Dim] = {
            old: index_symbol(new, extent) for (old, extent), new in zip(order, names, strict=True)
        }
        images = [(_image(base, values), power) for base, power in powers.items()]
        extents = tuple(
            (new, replaced(extent, values)) for (_, extent), new in zip(order, names, strict=True)
        )
        candidates.append(((extents, _sorted(images)), values))  # type: ignore[arg-type]
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda candidate: order_of_term(candidate[0]))


def closed(
    bounds: Sequence[tuple[str, Dim]], powers: Mapping[Factor, int], value: Number
) -> Element:
    """A product under a sum as an element."""
    return _closed(list(bounds), powers, value)


def _without_softmax(
    bounds: list[tuple[str, Dim]], powers: Mapping[Factor, int], value: Number
) -> Element | None:
    """The term without a sum of the form Σ f / Σ f, which is 1; ``None`` where there is none."""
    for base, power in powers.items():
        if base.key[0] != SUM or power != -1:
            continue
        divisor = _content(base)
        count = len(next(iter(divisor.terms))[0]) if len(divisor.terms) == 1 else 0
        candidates = [bound for bound in bounds if bound[0] not in base.free]
        for inner in itertools.combinations(candidates, count) if count else ():
            names = {name for name, _ in inner}
            summand = {f: p for f, p in powers.items() if not names.isdisjoint(f.free)}
            if _closed(list(inner), summand, 1) is divisor:
                rest = {f: p for f, p in powers.items() if f not in summand and f is not base}
                return _closed([b for b in bounds if b not in inner], rest, value)
    return None


ZERO: Final = element({})
ONE: Final = element({_UNIT: 1})
