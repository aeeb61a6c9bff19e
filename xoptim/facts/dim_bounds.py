"""Bounds of symbolic dimensions: interval arithmetic, and proofs that look into operations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from xoptim.facts.dim_atoms import Atom, Bounds
from xoptim.facts.polynomials import Monomial, Terms, add_terms, scale_terms

_UNBOUNDED: Final = (None, None)
_DEPTH: Final = 4
"""How many atoms a proof of a bound may open, one after the other."""


def _largest(numbers: Iterable[int | None]) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


def _smallest(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _all_or_none(numbers: Sequence[int | None]) -> Sequence[int | None]:
    return () if None in numbers else numbers


def operation_bounds(kind: str, operands: Sequence[Bounds]) -> Bounds:
    """Bounds of an operation from those of its operands."""
    if kind == "//":
        return _quotient_bounds(*operands)
    if kind == "%":
        return _remainder_bounds(*operands)
    lows, highs = [low for low, _ in operands], [high for _, high in operands]
    if kind == "max":
        return _largest(lows), _largest(_all_or_none(highs))
    if kind == "min":
        return _smallest(_all_or_none(lows)), _smallest(highs)
    return _smallest(_all_or_none(lows)), _largest(_all_or_none(highs))


def _quotient_bounds(dividend: Bounds, divisor: Bounds) -> Bounds:
    low, high = dividend
    if divisor[0] is None or divisor[0] < 0:
        return _UNBOUNDED
    number = divisor[0]
    if number and number == divisor[1]:
        return None if low is None else low // number, None if high is None else high // number
    # A divisor of 0 has no quotient, so at least 1: the quotient lies between the dividend and 0 (or -1).
    at_least = None if low is None else min(low, 0)
    return at_least, None if high is None else max(high, -1)


def _remainder_bounds(dividend: Bounds, divisor: Bounds) -> Bounds:
    if divisor[0] is None or divisor[0] < 0:
        return _UNBOUNDED
    limit = None if divisor[1] is None else divisor[1] - 1
    nonnegative = dividend[0] is not None and dividend[0] >= 0
    return 0, _smallest((limit, dividend[1])) if nonnegative else limit


def _monomial_bounds(monomial: Monomial) -> Bounds:
    if len(monomial) == 1:
        return monomial[0].low, monomial[0].high
    lows = [atom.low for atom in monomial if atom.low is not None and atom.low >= 0]
    if len(lows) == len(monomial):
        highs = [atom.high for atom in monomial if atom.high is not None]
        return math.prod(lows), math.prod(highs) if len(highs) == len(monomial) else None
    if all(count % 2 == 0 for count in Counter(monomial).values()):
        return 0, None
    low, high = 1, 1
    for atom in monomial:
        if atom.low is None or atom.high is None:
            return _UNBOUNDED
        corners = (low * atom.low, low * atom.high, high * atom.low, high * atom.high)
        low, high = min(corners), max(corners)
    return low, high


def _interval_low(terms: Terms, constant: int) -> int | None:
    total = constant
    for monomial, coefficient in terms:
        bound = _monomial_bounds(monomial)[coefficient < 0]
        if bound is None:
            return None
        total += bound * coefficient
    return total


def prove_low(terms: Terms, constant: int, skipped: tuple[Atom, ...] = (), depth: int = _DEPTH) -> int | None:
    """A number that the polynomial is never below, ``None`` when no such number is found.

    Interval arithmetic first; then operations that occur linearly are opened one by one, which cancels what the
    operands share with the rest: ``n - min(n, 5)`` is at least both ``n - n`` and ``n - 5``.

    Args:
        terms: the polynomial without its constant.
        constant: the constant.
        skipped: atoms that stay closed.
        depth: how many more atoms may be opened.
    """
    best = _interval_low(terms, constant)
    if depth:
        for monomial, coefficient in terms:
            atom = monomial[0]
            if atom.args and len(monomial) == 1 and atom.kind != "%" and atom not in skipped:
                rest = add_terms(terms, ((monomial, coefficient),), -1)
                best = _largest((best, _open(atom, coefficient, rest, constant, (skipped, depth - 1))))
                skipped = (*skipped, atom)
    return best


def _open(atom: Atom, coefficient: int, rest: Terms, constant: int, limits: tuple[tuple[Atom, ...], int]) -> int | None:
    """Lower bound of ``coefficient * atom + rest + constant`` by what the operation of the atom guarantees."""
    if atom.kind == "//":
        dividend, divisor = atom.args
        if type(divisor) is not int or type(dividend) is int:
            return None
        # With d > 0: x - d + 1 <= d * (x // d) <= x. Bound the polynomial times d, then divide.
        slack = divisor - 1 if coefficient > 0 else 0
        terms = add_terms(scale_terms(rest, divisor), dividend._terms, coefficient)
        low = prove_low(terms, divisor * constant + coefficient * (dividend._constant - slack), *limits)
        return None if low is None else -(-low // divisor)
    lows = [
        prove_low(rest, constant + coefficient * arg, *limits)
        if type(arg) is int
        else prove_low(add_terms(rest, arg._terms, coefficient), constant + coefficient * arg._constant, *limits)
        for arg in atom.args
    ]
    at_least_each = atom.kind == ("max" if coefficient > 0 else "min")
    return _largest(lows) if at_least_each else _smallest(_all_or_none(lows))
