"""Symbolic dimensions: canonical polynomials with integer coefficients, interned so that equality is identity.

A polynomial is built over atoms: named symbols (the dimension names of a model), anonymous symbols, and operations that do
not expand: floor division, modulo, maximum, minimum, the dimension that two dimensions broadcast to, and integers that wrap
around. Every symbol is at least 0 unless it was made with ``fresh(nonnegative=False)``, and at most `LARGEST_SIZE`; every
simplification holds for all such assignments. Division and modulo round as Python's do.

Expressions are small: a result that would be large, deep or of high degree is an anonymous symbol instead, the same one
for the same operation on the same operands, with known bounds only.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from xoptim.facts.dim_operations import (
    as_integer,
    before_wrapping,
    broadcast,
    ceil_div,
    dim_max,
    dim_min,
    exact_quotient,
    floor_div,
    is_never_one,
    mod,
    multiplied_out,
)
from xoptim.facts.polynomials import Atom, Bounds
from xoptim.facts.symbolic import (
    LARGEST_SIZE,
    Dim,
    SymbolicDim,
    bounds,
    fresh,
    is_nonnegative,
    is_nonzero,
    lower_bound,
    named,
    opaque,
    single_atom,
    substituted,
    upper_bound,
)

__all__ = [
    "LARGEST_SIZE",
    "Bounds",
    "Dim",
    "SymbolicDim",
    "as_integer",
    "before_wrapping",
    "bounds",
    "broadcast",
    "ceil_div",
    "dim_max",
    "dim_min",
    "evaluate",
    "exact_quotient",
    "floor_div",
    "fresh",
    "is_anonymous",
    "is_never_one",
    "is_nonnegative",
    "is_nonzero",
    "lower_bound",
    "mod",
    "multiplied_out",
    "named",
    "opaque",
    "product",
    "substitute",
    "upper_bound",
]


def is_anonymous(dim: Dim) -> bool:
    """Whether a dimension is unknown: a symbol without a name in the model, or an expression with one."""
    return not isinstance(dim, int) and dim.is_anonymous


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all dimensions, 1 for none."""
    number = 1
    symbolic: Dim = 1
    for dim in dims:
        if type(dim) is int:
            number *= dim
        else:
            symbolic = dim * symbolic
    return symbolic * number


def substitute(dim: Dim, values: Mapping[Any, Dim]) -> Dim:
    """The expression with symbols, given by name (``str``) or as an object (`SymbolicDim`), replaced all at once.

    Raises ``ValueError`` for a key that is an expression, ``ZeroDivisionError`` when a divisor becomes 0.
    """
    if type(dim) is not SymbolicDim:
        return dim
    replaced: dict[str | Atom, Dim] = {}
    for key, value in values.items():
        atom = key if isinstance(key, str) else single_atom(key)
        if atom is None or (isinstance(atom, Atom) and atom.args):
            raise ValueError(f"{key} is not a symbol")
        replaced[atom] = value
    return substituted(dim, replaced)


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The value of the expression, given one for each symbol (the key of an anonymous one is its text, ``?12``).

    Raises ``KeyError`` for symbols without a value, ``ZeroDivisionError``, and ``ValueError`` where sizes are not
    broadcast-compatible.
    """
    if type(dim) is not SymbolicDim:
        return dim
    if missing := dim.symbols - values.keys():
        raise KeyError(*sorted(missing))
    if type(result := substitute(dim, values)) is not int:
        raise ValueError(f"{dim} has no value for {dict(values)}")
    return result
