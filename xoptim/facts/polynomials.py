"""Multivariate polynomials with integer coefficients over atoms.

A polynomial without its constant term is a tuple of ``(monomial, coefficient)`` pairs in graded lexicographic order; a
monomial is a tuple of ``(atom, exponent)`` pairs in the order of the atoms.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from xoptim.facts.dim_atoms import Atom

Factor: TypeAlias = "tuple[Atom, int]"
Monomial: TypeAlias = "tuple[Factor, ...]"
Term: TypeAlias = "tuple[Monomial, int]"
Terms: TypeAlias = "tuple[Term, ...]"


def degree(monomial: Monomial) -> int:
    """Number of factors, each power counted with its exponent."""
    return sum([exponent for _, exponent in monomial])


def term_order(term: Term) -> tuple[int, tuple[Any, ...]]:
    """Sort key of a term: higher degree first, then by atoms. It is an admissible order, so division may rely on it."""
    monomial = term[0]
    if len(monomial) == 1:
        atom, exponent = monomial[0]
        return -exponent, ((atom.key, -exponent),)
    return -degree(monomial), tuple([(atom.key, -exponent) for atom, exponent in monomial])


def _factor_order(factor: Factor) -> Any:
    return factor[0].key


def merge_terms(left: Terms, right: Terms, factor: int = 1) -> Terms:
    """``left + factor * right``, the terms in any order."""
    merged = dict(left)
    for monomial, coefficient in right:
        total = merged.get(monomial, 0) + coefficient * factor
        if total:
            merged[monomial] = total
        else:
            del merged[monomial]
    return tuple(merged.items())


def add_terms(left: Terms, right: Terms, factor: int = 1) -> Terms:
    """``left + factor * right``."""
    merged = merge_terms(left, right, factor)
    return tuple(sorted(merged, key=term_order)) if len(merged) > 1 else merged


def scale_terms(terms: Terms, factor: int) -> Terms:
    """``factor * terms`` for a factor other than zero."""
    return tuple([(monomial, coefficient * factor) for monomial, coefficient in terms])


def _multiply_monomials(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, exponent in right:
        powers[atom] = powers.get(atom, 0) + exponent
    return tuple(sorted(powers.items(), key=_factor_order))


def multiply_terms(left: Terms, right: Terms) -> Terms:
    """``left * right``; a constant is written with the empty monomial."""
    merged: dict[Monomial, int] = {}
    for first, scale in left:
        for second, coefficient in right:
            monomial = _multiply_monomials(first, second)
            merged[monomial] = merged.get(monomial, 0) + scale * coefficient
    return tuple(sorted(((m, c) for m, c in merged.items() if c), key=term_order))


def _divide_monomial(dividend: Monomial, divisor: Monomial) -> Monomial | None:
    powers = dict(dividend)
    for atom, exponent in divisor:
        rest = powers.get(atom, 0) - exponent
        if rest < 0:
            return None
        if rest:
            powers[atom] = rest
        else:
            del powers[atom]
    return tuple(powers.items())


def divide_terms(dividend: Terms, divisor: Terms, most: int) -> Terms | None:
    """The polynomial q with ``q * divisor == dividend``, ``None`` when there is none of at most so many terms.

    Constants are written with the empty monomial. Long division by the leading term: in an admissible order it finds
    the quotient whenever one with integer coefficients exists.
    """
    lead, lead_coefficient = divisor[0]
    quotient: list[Term] = []
    rest = dividend
    while rest:
        if len(quotient) == most:
            return None
        monomial, coefficient = rest[0]
        shared = _divide_monomial(monomial, lead)
        if shared is None or coefficient % lead_coefficient:
            return None
        term = (shared, coefficient // lead_coefficient)
        quotient.append(term)
        rest = add_terms(rest, multiply_terms((term,), divisor), -1)
    return tuple(quotient)
