"""Division of symbolic dimensions, rounded down as Python rounds."""

from __future__ import annotations

import operator
from typing import cast

from xoptim.facts.polynomials import add_terms, divide_terms
from xoptim.facts.symbolic import (
    MOST_TERMS,
    RULES,
    Dim,
    SymbolicDim,
    bounds,
    compound,
    content,
    from_full,
    full_terms,
    is_nonnegative,
    is_nonzero,
    make,
    single_atom,
)


def _divide_by_number(a: SymbolicDim, b: int) -> Dim:
    """``a // b`` for ``b > 1``."""
    common = content(a, b)
    if common > 1:
        # floor((g*x + c) / (g*k)) = floor((x + floor(c/g)) / k)
        a = cast(SymbolicDim, make(tuple((m, c // common) for m, c in a.terms), a.constant // common))
        b //= common
        if b == 1:
            return a
    # Multiples of b leave the division. A coefficient keeps its sign, which keeps the bounds of what remains tight.
    whole = tuple((m, q) for m, c in a.terms if (q := abs(c) // b if c > 0 else -(abs(c) // b)))
    quotient = make(whole, a.constant // b)
    rest = make(add_terms(a.terms, whole, -b), a.constant % b)
    if type(rest) is not SymbolicDim:
        return quotient
    low, high = bounds(rest)
    if low is not None and high is not None and low // b == high // b:
        return quotient + low // b
    inner = single_atom(rest - rest.constant)
    if inner is not None and inner.kind == "//" and type(inner.args[1]) is int and inner.args[1] > 0:
        dividend, divisor = inner.args
        return quotient + floor_div(dividend + rest.constant * divisor, divisor * b)
    return quotient + compound("//", (rest, b))


def floor_div(a: Dim, b: Dim) -> Dim:
    """``a // b`` rounded down.

    Raises:
        ZeroDivisionError: ``b`` is the number 0.
    """
    if type(b) is not SymbolicDim:
        if type(a) is not SymbolicDim:
            return a // b
        if not b:
            raise ZeroDivisionError(f"({a})//0")
        b = operator.index(b)
        if b < 0:
            a, b = -a, -b
        return a if b == 1 else _divide_by_number(a, b)
    if is_nonzero(b):
        quotient = exact_quotient(a, b)
        if quotient is not None:
            return quotient
        if is_nonnegative(a) and is_nonnegative(b - a - 1):
            return 0
    return compound("//", (a, b))


def mod(a: Dim, b: Dim) -> Dim:
    """``a % b`` with the sign of ``b``, as in Python.

    Raises:
        ZeroDivisionError: ``b`` is the number 0.
    """
    if type(b) is not SymbolicDim:
        if type(a) is not SymbolicDim:
            return a % b
        if not b:
            raise ZeroDivisionError(f"({a})%0")
        b = operator.index(b)
        return _reduce_by_number(a, b) if b > 0 else -_reduce_by_number(-a, -b)
    if is_nonzero(b):
        if exact_quotient(a, b) is not None:
            return 0
        if is_nonnegative(a) and is_nonnegative(b - a - 1):
            return a
    return compound("%", (a, b))


def _reduce_by_number(a: SymbolicDim, b: int) -> Dim:
    """``a % b`` for ``b > 0``."""
    rest = make(tuple((m, r) for m, c in a.terms if (r := c % b)), a.constant % b)
    if type(rest) is not SymbolicDim:
        return rest
    low, high = bounds(a)
    if low is not None and high is not None and low >= 0 and high < b:
        return a
    common = content(rest, b)
    if common > 1:
        # (g*x + c) mod (g*k) = g * ((x + floor(c/g)) mod k) + c mod g
        inner = make(tuple((m, c // common) for m, c in rest.terms), rest.constant // common)
        return mod(inner, b // common) * common + rest.constant % common
    return compound("%", (rest, b))


def ceil_div(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded up.

    Raises:
        ZeroDivisionError: ``b`` is the number 0.
    """
    if is_nonnegative(b - 1):
        return floor_div(a + b - 1, b)
    return -floor_div(-a, b)


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """The polynomial q with ``q * b == a``, ``None`` when there is none or ``b`` is the number 0."""
    if a is b and type(a) is SymbolicDim:
        return 1
    divisor = full_terms(b)
    quotient = divide_terms(full_terms(a), divisor, MOST_TERMS) if divisor else None
    return None if quotient is None else from_full(quotient)


RULES["//"] = floor_div
RULES["%"] = mod
