"""Constants, and functions that simplify for some arguments."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from xoptim.facts.dims import Dim
from xoptim.proof.elements import (
    LAWS,
    ONE,
    ZERO,
    Element,
    element,
    factor,
    first_term,
    function,
    number,
    of_dim,
    of_factor,
)
from xoptim.proof.kinds import CONSTANT, EXP, ROOT, SIZE, SPECIAL, WITHIN, Stored


def dim_of(value: Element) -> Dim | None:
    """The integer that an element is, ``None`` where it is made of other factors."""
    total: Dim = 0
    for (bounds, powers), coefficient in value.terms.items():
        is_integer = all(base.key[0] == SIZE and power > 0 for base, power in powers)
        if bounds or not is_integer or not isinstance(coefficient, int):
            return None
        term: Dim = coefficient
        for base, power in powers:
            for _ in range(power):
                term = base.args[0] * term  # type: ignore[operator]
        total = total + term
    return total


def constant(stored: Stored, indices: Sequence[Dim]) -> Element:
    """An element of an integer or floating-point constant."""
    places = [index for index in indices if isinstance(index, int)]
    if len(places) == len(indices):
        return of_number(stored.array[tuple(places)])
    return function(CONSTANT, stored, args=indices)


def of_number(value: Any) -> Element:
    """A number of numpy as an element; a negative zero is the number 0."""
    if value.dtype.kind in "iub":
        return number(int(value))
    wide = float(value)
    if not np.isfinite(wide):
        return function(SPECIAL, str(wide))
    ratio = Fraction(wide)
    return number(int(ratio) if ratio.denominator == 1 else ratio)


def within(condition: Dim) -> Element:
    """1 where an expression is at least 0, and 0 elsewhere."""
    if isinstance(condition, int):
        return ONE if condition >= 0 else ZERO
    return function(WITHIN, args=[condition])


def root(value: Element) -> Element:
    """The square root of an element that is at least 0; a positive coefficient is taken out."""
    if not value.terms:
        return ZERO
    scale = value.terms[first_term(value)]
    if scale <= 0 or (scale == 1 and value is not ONE):
        return function(ROOT, args=[value])
    rest = value.scaled(1 / Fraction(scale))
    factor_of_scale = _root_of(Fraction(scale))
    return factor_of_scale if rest is ONE else factor_of_scale * function(ROOT, args=[rest])


def _root_of(value: Fraction) -> Element:
    parts = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if parts[0] ** 2 == value.numerator and parts[1] ** 2 == value.denominator:
        return number(Fraction(*parts))
    return function(ROOT, args=[number(value)])


def exponential(value: Element) -> Element:
    """The exponential of an element; of a sum, it is the product of exponentials."""
    result = ONE
    for term, coefficient in value.terms.items():
        # exp(-x) is the inverse of exp(x).
        sign = 1 if coefficient > 0 else -1
        argument = element({term: coefficient * sign})
        result = result * of_factor(factor(EXP, args=[argument]), sign)
    return result


def _applied_constant(key: tuple[Hashable, ...], args: list[Any]) -> Element:
    assert isinstance(key[1], Stored)
    return constant(key[1], args)


LAWS[SIZE] = lambda _key, args: of_dim(args[0])
LAWS[CONSTANT] = _applied_constant
LAWS[WITHIN] = lambda _key, args: within(args[0])
LAWS[ROOT] = lambda _key, args: root(args[0])
LAWS[EXP] = lambda _key, args: exponential(args[0])
