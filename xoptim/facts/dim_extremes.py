"""Maximum, minimum and broadcasting of symbolic dimensions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from xoptim.facts.dim_bounds import INTEGER_BITS
from xoptim.facts.symbolic import (
    RULES,
    Dim,
    SymbolicDim,
    compound,
    content,
    fresh,
    is_nonnegative,
    lower_bound,
    opaque,
    order_of,
    single_atom,
    upper_bound,
)

MOST_OPERANDS: Final = 12
"""Most operands of one operation; a symbol stands for more of them."""


def _operands(kind: str, dim: Dim) -> Sequence[Dim]:
    """The operands of an operation of that kind; of anything else, itself."""
    atom = single_atom(dim)
    return atom.args if atom is not None and atom.kind == kind else (dim,)


def _is_at_most(a: Dim, b: Dim) -> bool:
    high = upper_bound(a - b)
    return high is not None and high <= 0


def _extreme(kind: str, dims: tuple[Dim, ...]) -> Dim:
    """Maximum or minimum: operands that another one makes redundant are dropped."""
    # A canonical order: which operands are dropped may depend on it, and equal maxima must be one object.
    groups = sorted((_operands(kind, dim) for dim in dims), key=lambda group: (-len(group), [order_of(dim) for dim in group]))
    kept = list(groups[0])  # operands of one operation have been compared
    for group in groups[1:]:
        rest = kept
        for dim in group:
            if dim not in rest:
                rest = _with_operand(kind, rest, dim)
        kept = rest
        if len(kept) > MOST_OPERANDS:
            kept = [opaque(kind, tuple(kept))]
    return kept[0] if len(kept) == 1 else compound(kind, tuple(sorted(kept, key=order_of)))


def _with_operand(kind: str, kept: list[Dim], dim: Dim) -> list[Dim]:
    """Operands of a maximum or minimum with one more."""
    most = kind == "max"
    if any(_is_at_most(dim, other) if most else _is_at_most(other, dim) for other in kept):
        return kept
    return [*(other for other in kept if not (_is_at_most(other, dim) if most else _is_at_most(dim, other))), dim]


def dim_max(*dims: Dim) -> Dim:
    """The largest of one or more dimensions."""
    return dims[0] if len(dims) == 1 else _extreme("max", dims)


def dim_min(*dims: Dim) -> Dim:
    """The smallest of one or more dimensions."""
    return dims[0] if len(dims) == 1 else _extreme("min", dims)


def broadcast(a: Dim, b: Dim) -> Dim:
    """The dimension of an axis where ``a`` and ``b`` meet under multidirectional broadcasting.

    It is the one that is not 1; where both may be 1, an atom stands for the pair. Two numbers that are not broadcast-compatible
    give an anonymous dimension: there is no value.
    """
    if a is b or (type(b) is int and b == 1):
        return a
    if type(a) is int and type(b) is int:
        return b if a == 1 else a if a == b else fresh()
    operands = dict.fromkeys((*_operands("broadcast", a), *_operands("broadcast", b)))
    dims = [dim for dim in sorted(operands, key=order_of) if dim != 1]
    # A size above a cut of at least 2 does not broadcast with the cut: m meets min(m, 5) only where both are m.
    dims = [dim for dim in dims if not any(_is_cut(dim, other) for other in dims)]
    if len(dims) > 1:
        certain = [dim for dim in dims if is_never_one(dim)]
        if certain:
            # In a valid model both are equal; a number is more precise than an expression.
            return next((dim for dim in certain if type(dim) is int), certain[0])
        return compound("broadcast", tuple(dims)) if len(dims) <= MOST_OPERANDS else opaque("broadcast", tuple(dims))
    return dims[0] if dims else 1


def _is_cut(dim: Dim, whole: Dim) -> bool:
    """Whether a dimension, where it meets another one, is that one or 1.

    That holds for the minimum of the other one and of sizes that are at least 2; and for the other one as an integer of
    fewer bits: 1 stays 1, and any other size is either kept or not broadcast-compatible with it, unless it becomes 1.
    """
    atom = single_atom(dim)
    if atom is None or not atom.args or whole not in atom.args:
        return False
    if atom.kind in INTEGER_BITS:
        return is_nonnegative(whole)
    return atom.kind == "min" and all(arg is whole or (lower_bound(arg) or 0) >= 2 for arg in atom.args)


def is_never_one(dim: Dim) -> bool:
    """Whether the dimension is provably not 1."""
    if type(dim) is not SymbolicDim:
        return dim != 1
    if (1 - dim.constant) % content(dim):
        return True
    low, high = dim.low, dim.high
    return (low is not None and low > 1) or (high is not None and high < 1)


RULES["max"] = dim_max
RULES["min"] = dim_min
RULES["broadcast"] = lambda *dims: functools.reduce(broadcast, dims)
