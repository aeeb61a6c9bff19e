"""Operations of two integers that compute a dimension."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from xoptim.facts.dims import (
    Dim,
    SymbolicDim,
    as_integer,
    before_wrapping,
    exact_quotient,
    is_nonzero,
)
from xoptim.facts.polynomials import Atom
from xoptim.facts.symbolic import content, make, of_atom
from xoptim.operators.broadcasting import size_result

_ATOMS: Final = {"//": "Div", "%": "Mod", "max": "Max", "min": "Min"}
"""ONNX operators by the kind of an atom in an expression."""
_MAX_TERMS: Final = 4
"""Longer sums are split at both ends only."""

_NEUTRAL: Final = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}
"""The second operand with which an operator returns the first one."""


class Operation(NamedTuple):
    """One operation of two 64-bit integers."""

    op_type: str  # Add, Sub, Mul, Div, Mod, Max or Min
    left: Dim  # first operand
    right: Dim  # second operand


class Decompositions:
    """The operations that compute elements of vectors.

    ``observed`` are the operations by which the graph computes elements now.
    """

    def __init__(self, observed: Mapping[Dim, Sequence[Operation]]) -> None:
        self._observed = observed
        self._operations: dict[SymbolicDim, list[Operation]] = {}

    def of(self, dim: Dim) -> list[Operation]:
        """All operations that give an element; none for a number."""
        if not isinstance(dim, SymbolicDim):
            return []
        if dim not in self._operations:
            self._operations[dim] = list(
                dict.fromkeys([*self._observed.get(dim, ()), *operations_of(dim)])
            )
        return self._operations[dim]

    def by(self, op_type: str, dim: Dim) -> Operation | None:
        """The operation of an operator that gives an element, else the one that does not change
        the element.
        """
        operation = next((item for item in self.of(dim) if item.op_type == op_type), None)
        return (
            Operation(op_type, dim, _NEUTRAL[op_type])
            if operation is None and op_type in _NEUTRAL
            else operation
        )


def operations_of(dim: SymbolicDim) -> list[Operation]:
    """Operations of 64-bit integers that give an expression, from its canonical form.

    Operands are simpler than the result. Each operation is checked by inferring its result: it
    does not wrap around where the expression does not, and rounds as the operator does.
    """
    exact = before_wrapping(dim, 64)
    assert isinstance(exact, SymbolicDim)  # a number does not wrap around
    candidates = _of_polynomial(exact) if exact.atom is None else _of_operation(exact.atom)
    operations = (
        Operation(op_type, as_integer(left, 64), as_integer(right, 64))
        for op_type, left, right in candidates
    )
    return [item for item in dict.fromkeys(operations) if size_result(*item) is dim]


def _of_operation(atom: Atom) -> Iterator[Operation]:
    op_type = _ATOMS.get(atom.kind)
    if op_type is None or len(atom.args) != 2:
        return
    left, right = atom.args
    if op_type in ("Max", "Min") or is_nonzero(right):
        yield Operation(op_type, left, right)


def _of_polynomial(dim: SymbolicDim) -> Iterator[Operation]:
    if dim.constant:
        yield Operation("Add", dim - dim.constant, dim.constant)
        yield Operation("Sub", dim.constant, dim.constant - dim)
    else:
        factor = content(dim) * (1 if dim.terms[0][1] > 0 else -1)
        if factor != 1:
            # the coefficients have this factor
            yield Operation("Mul", cast(Dim, exact_quotient(dim, factor)), factor)
        yield from _factors(dim)
    if len(dim.terms) + bool(dim.constant) > 1:
        terms = dim.terms if len(dim.terms) <= _MAX_TERMS else (dim.terms[0], dim.terms[-1])
        for monomial, number in terms:
            if number > 0:
                yield Operation(
                    "Add", dim - make(((monomial, number),), 0), make(((monomial, number),), 0)
                )
            else:
                yield Operation(
                    "Sub", dim + make(((monomial, -number),), 0), make(((monomial, -number),), 0)
                )


def _factors(dim: SymbolicDim) -> Iterator[Operation]:
    """Products with an atom that all terms share."""
    for atom, _ in dim.terms[0][0]:
        factor = of_atom(atom)
        cofactor = exact_quotient(dim, factor)
        if cofactor is not None and cofactor != 1:
            yield Operation("Mul", cofactor, factor)
