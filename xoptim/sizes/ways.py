"""Ways to compute an expression of sizes by one operation on simpler ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from xoptim.facts.dims import Dim, SymbolicDim, as_integer, before_wrapping, exact_quotient, is_nonzero
from xoptim.facts.polynomials import Atom
from xoptim.facts.symbolic import content, make, of_atom
from xoptim.inference.binary import size_result

_ATOMS: Final = {"//": "Div", "%": "Mod", "max": "Max", "min": "Min"}
"""Operators of the operations that expressions do not expand."""
_MOST_TERMS: Final = 4
"""Longer sums are taken apart at both ends only."""

_NEUTRAL: Final = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}
"""The second operand with which an operator returns the first one."""


class Way(NamedTuple):
    """One operation of two 64-bit integers.

    Attributes:
        op_type: Add, Sub, Mul, Div, Mod, Max or Min.
        left: first operand.
        right: second operand.
    """

    op_type: str
    left: Dim
    right: Dim


class Ways:
    """Ways to elements of vectors.

    Args:
        observed: operations by which a graph computes elements now.
    """

    def __init__(self, observed: Mapping[Dim, Sequence[Way]]) -> None:
        self._observed = observed
        self._known: dict[SymbolicDim, list[Way]] = {}

    def to(self, dim: Dim) -> list[Way]:
        """All ways to an element; none to a number."""
        if not isinstance(dim, SymbolicDim):
            return []
        if dim not in self._known:
            self._known[dim] = list(dict.fromkeys([*self._observed.get(dim, ()), *ways_of(dim)]))
        return self._known[dim]

    def by(self, op_type: str, dim: Dim) -> Way | None:
        """The way to an element by an operator, or the one that leaves it as it is."""
        found = next((way for way in self.to(dim) if way.op_type == op_type), None)
        return Way(op_type, dim, _NEUTRAL[op_type]) if found is None and op_type in _NEUTRAL else found


def ways_of(dim: SymbolicDim) -> list[Way]:
    """Operations that give an expression in 64-bit integers, by its canonical form; operands are simpler than the result.

    Each of them is proved by inferring its result: it does not wrap around where the expression does not, and rounds as the
    operator does.
    """
    exact = before_wrapping(dim, 64)
    assert isinstance(exact, SymbolicDim)  # a number does not wrap around
    found = _of_polynomial(exact) if exact.atom is None else _of_operation(exact.atom)
    wrapped = (Way(op_type, as_integer(left, 64), as_integer(right, 64)) for op_type, left, right in found)
    return [way for way in dict.fromkeys(wrapped) if size_result(*way) is dim]


def _of_operation(atom: Atom) -> Iterator[Way]:
    op_type = _ATOMS.get(atom.kind)
    if op_type is None or len(atom.args) != 2:
        return
    left, right = atom.args
    if op_type in ("Max", "Min") or is_nonzero(right):
        yield Way(op_type, left, right)


def _of_polynomial(dim: SymbolicDim) -> Iterator[Way]:
    if dim.constant:
        yield Way("Add", dim - dim.constant, dim.constant)
        yield Way("Sub", dim.constant, dim.constant - dim)
    else:
        factor = content(dim) * (1 if dim.terms[0][1] > 0 else -1)
        if factor != 1:
            yield Way("Mul", _of(exact_quotient(dim, factor)), factor)
        yield from _factors(dim)
    if len(dim.terms) + bool(dim.constant) > 1:
        terms = dim.terms if len(dim.terms) <= _MOST_TERMS else (dim.terms[0], dim.terms[-1])
        for monomial, number in terms:
            if number > 0:
                yield Way("Add", dim - make(((monomial, number),), 0), make(((monomial, number),), 0))
            else:
                yield Way("Sub", dim + make(((monomial, -number),), 0), make(((monomial, -number),), 0))


def _factors(dim: SymbolicDim) -> Iterator[Way]:
    """Products with an atom that all terms share."""
    for atom, _ in dim.terms[0][0]:
        factor = of_atom(atom)
        rest = exact_quotient(dim, factor)
        if rest is not None and rest != 1:
            yield Way("Mul", rest, factor)


def _of(quotient: Dim | None) -> Dim:
    assert quotient is not None  # the coefficients have this factor
    return quotient
