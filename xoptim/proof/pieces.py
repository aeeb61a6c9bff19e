"""Equality of functions that are defined by cases: of maxima, minima and comparisons.

The sign of a difference of two operands makes two cases, in each of which the function is one of
its operands, or 0 or 1. Cases that cannot occur are dropped: their conditions, read as linear
inequalities between products of factors, contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from xoptim.facts.dtypes import is_float, is_integer
from xoptim.proof.elements import ONE, ZERO, Element, Factor, Term, number, of_factor
from xoptim.proof.indices import BOUND, PLACE, check_time
from xoptim.proof.kinds import COMPARISONS, EQUAL, EXP, EXTREMES, LESS, MAXIMUM, ROOT, ROUND, WHOLE
from xoptim.proof.laws import comparison, extreme, floor
from xoptim.proof.rewriting import factors_of, rewritten
from xoptim.proof.terms import order_of_term

_MAX_DEPTH: Final = 7
_MAX_INEQUALITIES: Final = 60
_UNIT: Final[Term] = ((), ())

AreEqual: TypeAlias = Callable[[Element, Element], bool]


class _Condition(NamedTuple):
    """An expression that is at least 0, or greater than 0 if ``is_strict``."""

    value: Element
    is_strict: bool


def are_equal_in_pieces(
    left: Element, right: Element, are_equal: AreEqual, *, of_integers: bool
) -> bool:
    """Whether two elements are equal in all cases of the functions that they are made of.

    Args:
        left: one element.
        right: the other one.
        are_equal: whether two elements without cases are equal.
        of_integers: only comparisons of integers make cases; else those of real numbers as well.
    """
    if are_equal(left, right):
        return True
    return all(
        _are_equal_for_nan(left, right, leaf, are_equal) for leaf in _compared(left, right)
    ) and _Pieces(are_equal, of_integers=of_integers).agree(left, right, ())


def _compared(*values: Element) -> set[Factor]:
    """The factors in comparisons, maxima and minima that are floating-point and may be NaN."""
    leaves: set[Factor] = set()
    for value in values:
        for base in factors_of(value):
            if base.key[0] in (*EXTREMES, *COMPARISONS):
                leaves.update(*(_unknowns(arg) for arg in _elements(base)))
    return leaves


def _unknowns(value: Element) -> Iterator[Factor]:
    """The elements of inputs and the uninterpreted functions that an element is made of."""
    for base in factors_of(value):
        is_free = not any(name[0] in (BOUND, PLACE) for name in base.free)
        place = _TYPE_OF.get(str(base.key[0]))
        dtype = None if place is None else base.key[place]
        if is_free and isinstance(dtype, int) and is_float(dtype):
            yield base


_TYPE_OF: Final = {"input": 2, "cast": 2, "pointwise": -1, WHOLE: -1}
"""Where the key of a factor that may be NaN has the type of its values."""


def _are_equal_for_nan(left: Element, right: Element, leaf: Factor, are_equal: AreEqual) -> bool:
    """Whether two elements are equal, or both NaN, where a number that they are made of is NaN.

    Comparisons with NaN are false, and what is computed of NaN is NaN.
    """

    def is_made_of_leaf(value: Element) -> bool:
        return any(base is leaf for base in factors_of(value))

    def change(base: Factor) -> Element | None:
        is_false = base.key[0] in COMPARISONS and any(map(is_made_of_leaf, _elements(base)))
        return ZERO if is_false else None

    sides = [rewritten(side, change) for side in (left, right)]
    are_nan = [is_made_of_leaf(side) for side in sides]
    return (are_nan[0] and are_nan[1]) or (not any(are_nan) and are_equal(*sides))


def rounded_by_floors(value: Element, dtype: int) -> Element:
    """An element with ``round(x)`` written as ``floor(x)``, plus 1 above a half, or at a half if
    the floor is odd.
    """
    half = number(Fraction(1, 2))

    def change(base: Factor) -> Element | None:
        if base.key[0] != ROUND:
            return None
        (content,) = _elements(base)
        floored = floor(content)
        rest, middle = content - floored, floored * half
        is_odd = comparison(LESS, dtype, floor(middle), middle)
        exceeds_half = comparison(LESS, dtype, half, rest)
        return floored + exceeds_half + comparison(EQUAL, dtype, half, rest) * is_odd

    return rewritten(value, change)


class _Pieces:
    """The comparison of two elements, case by case."""

    def __init__(self, are_equal: AreEqual, *, of_integers: bool) -> None:
        self.are_equal = are_equal
        self.of_integers = of_integers

    def agree(self, left: Element, right: Element, conditions: Sequence[_Condition]) -> bool:
        """Whether two elements are equal wherever all conditions hold."""
        check_time()
        if self.are_equal(left, right):
            return True
        base = next(self._choices(left, right), None)
        if base is None:
            return bool(conditions) and _are_equal_by(left - right, conditions)
        if len(conditions) >= _MAX_DEPTH:
            return False
        return all(
            not _is_possible((*conditions, *new))
            or self.agree(
                _within(new, left, images), _within(new, right, images), (*conditions, *new)
            )
            for new, image in self._cases_of(base)
            for images in ({base: image},)
        )

    def _choices(self, *values: Element) -> Iterator[Factor]:
        """The functions that are defined by cases, the innermost ones first."""
        for value in values:
            for _, powers in value.terms:
                for base, _ in powers:
                    if base.key[0] != WHOLE:
                        yield from self._choices(*_elements(base))
                        if self._is_choice(base):
                            yield base

    def _is_choice(self, base: Factor) -> bool:
        """Whether a factor is defined by cases, which do not depend on the index of a sum."""
        if any(name[0] in (BOUND, PLACE) for name in base.free):
            return False
        if base.key[0] in EXTREMES:
            return not any(arg.is_special for arg in _elements(base))
        return base.is_boolean

    def _cases_of(self, base: Factor) -> list[tuple[tuple[_Condition, ...], Element]]:
        """The cases of a function, each with its value there."""
        kind, args = base.key[0], _elements(base)
        if kind in EXTREMES:
            first, second, *rest = args
            distance = first - second if kind == MAXIMUM else second - first
            images = [extreme(str(kind), value, *rest) for value in (first, second)]
            return [
                ((_Condition(distance, False),), images[0]),
                ((_Condition(-distance, True),), images[1]),
            ]
        if kind not in COMPARISONS or not self._has_order(base):
            truth = of_factor(base)
            return [
                ((_Condition(truth - ONE, False),), ONE),
                ((_Condition(-truth, False),), ZERO),
            ]
        is_less = _Condition(args[1] - args[0], True)
        is_greater = _Condition(args[0] - args[1], True)
        equality = tuple(_Condition(side.value, False) for side in (is_less, is_greater))
        return [
            ((is_less,), ZERO if kind == EQUAL else ONE),
            ((is_greater,), ZERO),
            (equality, ZERO if kind == LESS else ONE),
        ]

    def _has_order(self, base: Factor) -> bool:
        """Whether one operand is less than, equal to or greater than the other: neither is NaN.

        With ``of_integers``, only comparisons of integers have an order. A number that is compared
        with itself has none: the comparison is a test for NaN.
        """
        dtype = base.key[1]
        is_read = not self.of_integers or (isinstance(dtype, int) and is_integer(dtype))
        first, second = args = _elements(base)
        return is_read and first is not second and not any(arg.is_special for arg in args)


def _elements(base: Factor) -> list[Element]:
    return [arg for arg in base.args if isinstance(arg, Element)]


def _within(
    conditions: Sequence[_Condition], value: Element, images: Mapping[Factor, Element]
) -> Element:
    """An element in a case, with ``images`` in place of factors.

    Where the case has two operands equal, one is written in terms of the other.
    """

    def change(base: Factor) -> Element | None:
        image = images.get(base)
        return _comparison_within(conditions, base) if image is None else image

    result = rewritten(value, change)
    if len(conditions) < _MIN_OF_EQUALITY:
        return result
    solution = _solved(conditions[0].value)
    return result if solution is None else rewritten(result, dict([solution]).get)


def _comparison_within(conditions: Sequence[_Condition], base: Factor) -> Element | None:
    """A comparison of numbers whose difference has a known sign."""
    kind = base.key[0]
    if kind not in COMPARISONS:
        return None
    first, second = _elements(base)
    difference = second - first
    if difference is ZERO or not any(c.value in (difference, -difference) for c in conditions):
        return None
    if len(conditions) == _MIN_OF_EQUALITY:
        return ZERO if kind == LESS else ONE
    is_more = conditions[0].value is difference and conditions[0].is_strict
    is_less = conditions[0].value is -difference and conditions[0].is_strict
    if not (is_more or is_less):
        return None
    return ONE if is_more and kind != EQUAL else ZERO


_MIN_OF_EQUALITY: Final = 2
"""An equality is two conditions: an expression is at least 0, and so is its negation."""


def _solved(value: Element) -> tuple[Factor, Element] | None:
    """Solve ``value = 0`` for a factor: the factor and its solution; ``None`` if none is found."""
    for (bounds, powers), factor in value.terms.items():
        if bounds or len(powers) != 1 or powers[0][1] != 1:
            continue
        base = powers[0][0]
        rest = of_factor(base) - value.scaled(1 / Fraction(factor))
        if base not in factors_of(rest):
            return base, rest
    return None


_Row: TypeAlias = tuple[Mapping[Term, Fraction], bool]
"""The coefficients of an expression that is at least 0, or greater than 0 if the flag is set."""


def _are_equal_by(difference: Element, conditions: Sequence[_Condition]) -> bool:
    """Whether a difference can be neither positive nor negative."""
    signs = (_Condition(difference, True), _Condition(-difference, True))
    return not any(_is_possible((*conditions, sign)) for sign in signs)


def _is_possible(conditions: Sequence[_Condition]) -> bool:
    """Whether linear inequalities between terms may all hold (Fourier-Motzkin elimination)."""
    rows: list[_Row] = [
        ({term: Fraction(number) for term, number in value.terms.items()}, is_strict)
        for value, is_strict in conditions
    ]
    terms = {term for row, _ in rows for term in row if term != _UNIT}
    for term in terms:
        rows += _facts(term)
    for term in sorted(terms, key=order_of_term):
        check_time()
        rows = _without(rows, term)
        if len(rows) > _MAX_INEQUALITIES:
            return True
    constants = ((row.get(_UNIT, Fraction()), is_strict) for row, is_strict in rows)
    return not any(number < 0 or (is_strict and number == 0) for number, is_strict in constants)


def _facts(term: Term) -> list[_Row]:
    """Limits of a product of factors whose signs are known."""
    bounds, powers = term
    if not all(base.key[0] == EXP or _is_at_least_zero(base, power) for base, power in powers):
        return []
    rows: list[_Row] = [
        ({term: Fraction(1)}, not bounds and all(b.key[0] == EXP for b, _ in powers))
    ]
    if not bounds and all(base.is_boolean and power > 0 for base, power in powers):
        rows.append(({_UNIT: Fraction(1), term: Fraction(-1)}, False))
    return rows


def _is_at_least_zero(base: Factor, power: int) -> bool:
    return base.is_boolean or base.key[0] == ROOT or power % 2 == 0


def _without(rows: Sequence[_Row], term: Term) -> list[_Row]:
    """Eliminate a term: add pairs of inequalities so that it cancels, keep those without it."""
    signs = [row.get(term, Fraction()) for row, _ in rows]
    rest = [row for row, sign in zip(rows, signs, strict=True) if not sign]
    below = [row for row, sign in zip(rows, signs, strict=True) if sign > 0]
    above = [row for row, sign in zip(rows, signs, strict=True) if sign < 0]
    for low, is_low_strict in below:
        for high, is_high_strict in above:
            keys = {*low, *high} - {term}
            row = {
                key: low.get(key, 0) * -high[term] + high.get(key, 0) * low[term] for key in keys
            }
            rest.append((row, is_low_strict or is_high_strict))
    return rest
