"""Symbolic dimensions as integers of 32 or 64 bits, which wrap around."""

from __future__ import annotations

from typing import cast

from xoptim.facts.dim_bounds import INTEGER_BITS, integer_range
from xoptim.facts.symbolic import RULES, Dim, SymbolicDim, bounds, compound, make, of_atom, single_atom


def as_integer(value: Dim, bits: int) -> Dim:
    """The integer of 32 or 64 bits that sums, differences, products and conversions give where ``value`` is exact.

    It is the value itself where its bounds prove that it is in range; else an operation ``int32`` or ``int64`` stands for
    the one number in range that differs by a multiple of ``2**bits``.
    """
    low, high = integer_range(bits)
    if type(value) is not SymbolicDim:
        return (value - low) % (1 << bits) + low
    if _is_within(value, low, high):
        return value
    value = _reduced(_unwrapped(value, bits), bits)
    return value if _is_within(value, low, high) else compound(f"int{bits}", (value,))


def _is_within(value: Dim, low: int, high: int) -> bool:
    least, most = bounds(value)
    return least is not None and most is not None and low <= least and most <= high


def _unwrapped(value: SymbolicDim, bits: int) -> Dim:
    """A number that differs by a multiple of ``2**bits``: earlier wrapping does not matter."""
    total: Dim = value.constant
    for monomial, coefficient in value.terms:
        term: Dim = coefficient
        for atom, exponent in monomial:
            inner = atom.args[0] if INTEGER_BITS.get(atom.kind, 0) >= bits else of_atom(atom)
            for _ in range(exponent):
                term = inner * term
        total = total + term
    return total


def _reduced(value: Dim, bits: int) -> Dim:
    """The same polynomial with coefficients of ``bits`` bits."""
    half = 1 << bits - 1
    if type(value) is not SymbolicDim:
        return (value + half) % (half * 2) - half
    terms = tuple([(m, r) for m, c in value.terms if (r := (c + half) % (half * 2) - half)])
    return make(terms, (value.constant + half) % (half * 2) - half)


def before_wrapping(value: Dim, bits: int = 32) -> Dim:
    """The exact value behind one that wrapped around in a type of at least ``bits`` bits."""
    atom = single_atom(value)
    return cast(Dim, atom.args[0]) if atom is not None and INTEGER_BITS.get(atom.kind, 0) >= bits else value


RULES["int32"] = lambda value: as_integer(value, 32)
RULES["int64"] = lambda value: as_integer(value, 64)
