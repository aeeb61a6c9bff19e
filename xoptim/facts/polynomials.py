"""Multivariate polynomials with integer coefficients over atoms.

A polynomial without its constant term is a tuple of ``(monomial, coefficient)`` pairs in graded lexicographic order; a
monomial is the sorted tuple of its atoms, repeated for powers.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TypeAlias

from xoptim.facts.dim_atoms import Atom

Monomial: TypeAlias = "tuple[Atom, ...]"
Term: TypeAlias = "tuple[Monomial, int]"
Terms: TypeAlias = "tuple[Term, ...]"

_atom_key = attrgetter("key")


def term_order(term: Term) -> tuple[int, list[tuple[int, str, int]]]:
    """Sort key of a term: higher degree first, then by atoms. It is an admissible order, so division may rely on it."""
    monomial = term[0]
    return -len(monomial), [atom.key for atom in monomial]


def add_terms(left: Terms, right: Terms, factor: int = 1) -> Terms:
    """``left + factor * right``."""
    merged = dict(left)
    for monomial, coefficient in right:
        total = merged.get(monomial, 0) + coefficient * factor
        if total:
            merged[monomial] = total
        else:
            del merged[monomial]
    return tuple(sorted(merged.items(), key=term_order)) if len(merged) > 1 else tuple(merged.items())


def scale_terms(terms: Terms, factor: int) -> Terms:
    """``factor * terms`` for a factor other than zero."""
    return tuple((monomial, coefficient * factor) for monomial, coefficient in terms)


def multiply_terms(left: Terms, right: Terms) -> Terms:
    """``left * right``; a constant is written with the empty monomial."""
    merged: dict[Monomial, int] = {}
    for first, scale in left:
        for second, coefficient in right:
            monomial = tuple(sorted(first + second, key=_atom_key))
            merged[monomial] = merged.get(monomial, 0) + scale * coefficient
    return tuple(sorted(((m, c) for m, c in merged.items() if c), key=term_order))


def _divide_monomial(dividend: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(dividend)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def divide_terms(dividend: Terms, divisor: Terms) -> Terms | None:
    """The polynomial q with ``q * divisor == dividend``, ``None`` when there is none.

    Constants are written with the empty monomial. Long division by the leading term: in an admissible order it finds
    the quotient whenever one with integer coefficients exists.
    """
    lead, lead_coefficient = divisor[0]
    quotient: list[Term] = []
    rest = dividend
    while rest:
        monomial, coefficient = rest[0]
        shared = _divide_monomial(monomial, lead)
        if shared is None or coefficient % lead_coefficient:
            return None
        term = (shared, coefficient // lead_coefficient)
        quotient.append(term)
        rest = add_terms(rest, multiply_terms((term,), divisor), -1)
    return tuple(quotient)


def _format_monomial(monomial: Monomial, alone: bool) -> str:
    if alone and len(monomial) == 1:
        return monomial[0].text
    factors: list[str] = []
    index = 0
    while index < len(monomial):
        atom = monomial[index]
        power = 1
        while index + power < len(monomial) and monomial[index + power] is atom:
            power += 1
        text = atom.text if atom.tight else f"({atom.text})"
        factors.append(text if power == 1 else f"{text}**{power}")
        index += power
    return "*".join(factors)


def format_terms(terms: Terms, constant: int) -> str:
    """Readable text in Python syntax, for example ``2*batch*seq - seq**2 + 1``."""
    pieces: list[str] = []
    for monomial, coefficient in terms:
        size = abs(coefficient)
        body = _format_monomial(monomial, alone=coefficient == 1)
        pieces.append("-" if coefficient < 0 else "+")
        pieces.append(body if size == 1 else f"{size}*{body}")
    if constant:
        pieces += ["-" if constant < 0 else "+", str(abs(constant))]
    first = pieces[1] if pieces[0] == "+" else "-" + pieces[1]
    return " ".join([first, *pieces[2:]])
