"""Division of symbolic dimensions, rounded down as Python rounds."""

from __future__ import annotations

import operator
from typing import cast

from xoptim.facts.dim_atoms import Atom
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
    of_atom,
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
    """``a // b`` rounded down; raises `ZeroDivisionError` when ``b`` is the number 0."""
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
    """``a % b`` with the sign of ``b``, as in Python; raises `ZeroDivisionError` when ``b`` is the number 0."""
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
    opened = _opened(rest, b)
    if opened is not rest:
        return mod(opened, b)
    common = content(rest, b)
    if common > 1:
        # (g*x + c) mod (g*k) = g * ((x + floor(c/g)) mod k) + c mod g
        inner = make(tuple((m, c // common) for m, c in rest.terms), rest.constant // common)
        return mod(inner, b // common) * common + rest.constant % common
    return compound("%", (rest, b))


def _opened(a: SymbolicDim, b: int) -> Dim:
    """A dimension with the same remainder: x in place of a factor ``x % (k*b)``."""
    for monomial, coefficient in a.terms:
        for atom, _ in monomial:
            if atom.kind == "%" and type(atom.args[1]) is int and not atom.args[1] % b:
                rest = exact_quotient(make(((monomial, coefficient),), 0), of_atom(atom))
                return a if rest is None else a + rest * (atom.args[0] - of_atom(atom))
    return a


def ceil_div(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded up; raises `ZeroDivisionError` when ``b`` is the number 0."""
    if is_nonnegative(b - 1):
        return floor_div(a + b - 1, b)
    return -floor_div(-a, b)


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """The expression q with ``q * b == a`` for all sizes, ``None`` when none is found or ``b`` is the number 0."""
    if a is b and type(a) is SymbolicDim:
        return 1
    divisor = full_terms(b)
    quotient = divide_terms(full_terms(a), divisor, MOST_TERMS) if divisor else None
    if quotient is not None:
        return from_full(quotient)
    # With x in place of n * (x // n), where that is exact, the division may succeed.
    exact = _exact_quotients(b)
    rest = exact_quotient(b, of_atom(exact[0])) if exact else None
    return None if rest is None else exact_quotient(a * exact[0].args[1], rest * exact[0].args[0])


def _exact_quotients(dim: Dim) -> list[Atom]:
    """Factors of a product that are quotients by a number without a remainder."""
    if type(dim) is not SymbolicDim or dim.constant or len(dim.terms) > 1:
        return []
    divided = [atom for atom, _ in dim.terms[0][0] if atom.kind == "//" and type(atom.args[1]) is int]
    return [atom for atom in divided if mod(*atom.args) == 0]


def multiplied_out(dim: Dim) -> Dim:
    """A product with x in place of ``n * (x // n)`` where n divides x, if that occurs once; other sizes as they are."""
    exact = _exact_quotients(dim)
    rest = exact_quotient(dim, of_atom(exact[0]) * exact[0].args[1]) if len(exact) == 1 else None
    return dim if rest is None else rest * exact[0].args[0]


RULES["//"] = floor_div
RULES["%"] = mod
