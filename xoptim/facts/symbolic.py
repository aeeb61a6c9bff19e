"""The class of symbolic dimensions: interned polynomials of bounded size, their sums and products,
and their bounds.

`xoptim.facts.dims` defines operations that do not expand: divisions, extremes, broadcasting,
integers that wrap around. Each enters its rule in `RULES`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias, cast, final

from xoptim.facts.dim_bounds import deduced_low, operation_bounds
from xoptim.facts.dim_text import text_of
from xoptim.facts.polynomials import (
    Atom,
    Bounds,
    Table,
    Terms,
    add_terms,
    degree,
    digest_of,
    multiply_terms,
    opaque_atom,
    scale_terms,
    term_order,
)

LARGEST_SIZE: Final = 2**48 - 1
"""A process cannot address more memory, so no tensor has more elements, and no axis is longer."""
SIZES: Final = (0, LARGEST_SIZE)
"""The limits of a size."""
ALL_SIZES: Final = (0, 2**63 - 1)
"""The limits of a size where tensors of any number of elements are considered."""
MOST_TERMS: Final = 32
MOST_DEGREE: Final = 16
MOST_WEIGHT: Final = 200
"""Maximal number of atoms and numbers of an expression, those inside operations included."""
MOST_DEPTH: Final = 16
"""Maximal nesting depth of operations."""
MOST_BITS: Final = 192
"""Maximal number of bits of a coefficient."""

RULES: Final[dict[str, Callable[..., Dim]]] = {}
"""By kind of operation that does not expand, the function that applies it to operands."""

_UNKNOWN: Final = object()
_anonymous_serial = itertools.count()


@final
class SymbolicDim:
    """An integer expression that is not a constant: the polynomial ``terms + constant``.

    Equal expressions are the same object.

    Supports ``+ - * // %`` with integers and dimensions; a constant result is an ``int``. It has no
    order: compare by the `lower_bound` of a difference.
    """

    __slots__ = ("__weakref__", "_high", "_low", "_order", "constant", "terms")

    # called by `make` only, which interns the object
    def __init__(self, terms: Terms, constant: int) -> None:
        self.terms = terms
        self.constant = constant
        self._low: Any = _UNKNOWN
        self._high: Any = _UNKNOWN
        self._order: Any = None

    @property
    def is_anonymous(self) -> bool:
        """Whether a symbol occurs in the expression that is not a name of the model."""
        return any(atom.anonymous for monomial, _ in self.terms for atom, _ in monomial)

    @property
    def newest(self) -> int:
        """Serial number of the newest symbol that has one; -1 without such a symbol."""
        return max(atom.newest for monomial, _ in self.terms for atom, _ in monomial)

    @property
    def atom(self) -> Atom | None:
        """The atom of an expression that is one atom, else ``None``."""
        if not self.constant and len(self.terms) == 1:
            monomial, coefficient = self.terms[0]
            if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                return monomial[0][0]
        return None

    @property
    def is_symbol(self) -> bool:
        """Whether this is one symbol, named or anonymous, and nothing else."""
        atom = self.atom
        return atom is not None and not atom.args

    def symbol(self, name: str) -> SymbolicDim | None:
        """The symbol of this name, if it is a variable of the polynomial."""
        atoms = (atom for monomial, _ in self.terms for atom, _ in monomial)
        return next((of_atom(atom) for atom in atoms if atom.name == name), None)

    @property
    def is_polynomial(self) -> bool:
        """Whether the expression is a polynomial of symbols, without any other operation."""
        return not any(atom.args for monomial, _ in self.terms for atom, _ in monomial)

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols in the expression (``?12`` for an anonymous one)."""
        atoms = [atom for monomial, _ in self.terms for atom, _ in monomial]
        nested = (arg.symbols for atom in atoms for arg in atom.args if type(arg) is not int)
        return frozenset(atom.name for atom in atoms if not atom.args).union(*nested)

    @property
    def weight(self) -> int:
        """Number of atoms and numbers, those inside operations included."""
        return _weight(self.terms)

    @property
    def depth(self) -> int:
        """Nesting depth of operations."""
        return max(atom.depth for monomial, _ in self.terms for atom, _ in monomial)

    @property
    def low(self) -> int | None:
        """A number that the dimension is never below, if one is known."""
        if self._low is _UNKNOWN:
            self._low = deduced_low(self.terms, self.constant)
        return cast("int | None", self._low)

    @property
    def high(self) -> int | None:
        """A number that the dimension is never above, if one is known."""
        if self._high is _UNKNOWN:
            negated = deduced_low(scale_terms(self.terms, -1), -self.constant)
            self._high = None if negated is None else -negated
        return cast("int | None", self._high)

    @property
    def order(self) -> Any:
        """Unique sort key: by terms; symbolic dimensions precede numbers."""
        if self._order is None:
            self._order = (
                0,
                tuple([(*term_order(term), term[1]) for term in self.terms]),
                self.constant,
            )
        return self._order

    def __add__(self, other: Dim) -> Dim:
        if type(other) is SymbolicDim:
            return _grown(
                "+", self, other, add_terms(self.terms, other.terms), self.constant + other.constant
            )
        number = _index(other)
        return NotImplemented if number is None else make(self.terms, self.constant + number)

    __radd__ = __add__

    def __neg__(self) -> SymbolicDim:
        return cast(SymbolicDim, make(scale_terms(self.terms, -1), -self.constant))

    def __sub__(self, other: Dim) -> Dim:
        if type(other) is SymbolicDim:
            terms = add_terms(self.terms, other.terms, -1)
            return make(terms, self.constant - other.constant) if _fits(terms) else self + -other
        number = _index(other)
        return NotImplemented if number is None else make(self.terms, self.constant - number)

    def __rsub__(self, other: int) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        if type(other) is SymbolicDim:
            if len(self.terms) * len(other.terms) > MOST_TERMS**2 // 2:
                return opaque("*", (self, other))
            terms = multiply_terms(full_terms(self), full_terms(other))
            constant = terms[-1][1] if not terms[-1][0] else 0
            return _grown("*", self, other, terms[:-1] if constant else terms, constant)
        number = _index(other)
        if number is None:
            return NotImplemented
        return (
            _grown("*", self, number, scale_terms(self.terms, number), self.constant * number)
            if number
            else 0
        )

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return RULES["//"](self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return RULES["//"](other, self)

    def __mod__(self, other: Dim) -> Dim:
        return RULES["%"](self, other)

    def __rmod__(self, other: int) -> Dim:
        return RULES["%"](other, self)

    def __str__(self) -> str:
        return text_of(self.terms, self.constant)

    __repr__ = __str__

    def __copy__(self) -> SymbolicDim:
        return self

    def __deepcopy__(self, memo: object) -> SymbolicDim:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a symbolic dimension is unique in its process and cannot be pickled")


Dim: TypeAlias = int | SymbolicDim

DIMS: Final = Table[SymbolicDim]()
ATOMS: Final = Table[Atom]()
_find_dim = DIMS.find


def _index(value: Any) -> int | None:
    """The value as an ``int`` (NumPy's integers count), ``None`` for anything else."""
    if type(value) is int:
        return value
    return int(operator.index(value)) if hasattr(value, "__index__") else None


def _weight(terms: Terms) -> int:
    return sum([1 + sum([atom.weight for atom, _ in monomial]) for monomial, _ in terms])


def _fits(terms: Terms) -> bool:
    """Whether a polynomial is within the limits of size."""
    if len(terms) > MOST_TERMS or _weight(terms) > MOST_WEIGHT:
        return False
    return all(
        abs(number) >> MOST_BITS == 0 and degree(monomial) <= MOST_DEGREE
        for monomial, number in terms
    )


def make(terms: Terms, constant: int) -> Dim:
    """The dimension of a polynomial, always the same object."""
    if not terms:
        return constant
    key = (terms, constant)
    dim = _find_dim(key)
    if dim is not None:
        return dim
    return DIMS.add(key, SymbolicDim(terms, constant))


def _grown(kind: str, left: Dim, right: Dim, terms: Terms, constant: int) -> Dim:
    """The polynomial that an operation gives, or a symbol for the operation when it grows too
    large.
    """
    dim = _find_dim((terms, constant))
    if dim is not None:  # the lookup is cheaper than the test of the limits
        return dim
    return make(terms, constant) if _fits(terms) else opaque(kind, (left, right))


def full_terms(dim: Dim) -> Terms:
    """All terms, the constant one included."""
    if type(dim) is not SymbolicDim:
        return (((), dim),) if dim else ()
    return (*dim.terms, ((), dim.constant)) if dim.constant else dim.terms


def from_full(terms: Terms) -> Dim:
    """The dimension with these terms, the constant one included."""
    return make(terms[:-1], terms[-1][1]) if terms and not terms[-1][0] else make(terms, 0)


def single_atom(dim: Dim) -> Atom | None:
    """The atom of a dimension that is one atom, else ``None``."""
    return dim.atom if type(dim) is SymbolicDim else None


def of_atom(atom: Atom) -> SymbolicDim:
    """The dimension that consists of one atom."""
    return cast(SymbolicDim, make(((((atom, 1),), 1),), 0))


def order_of(dim: Dim) -> Any:
    """Unique sort key: symbolic dimensions first."""
    return dim.order if type(dim) is SymbolicDim else (1, (), dim)


def _digest(dim: Dim) -> bytes:
    if type(dim) is not SymbolicDim:
        return b"%d" % dim
    # Terms are sorted by digest: their own order depends on when anonymous symbols were created.
    factors = (
        (digest_of(*(b"%s^%d" % (atom.digest, power) for atom, power in monomial)), n)
        for monomial, n in dim.terms
    )
    return digest_of(
        *sorted(digest_of(factor, b"%d" % number) for factor, number in factors),
        b"%d" % dim.constant,
    )


def _operation_digest(kind: str, args: tuple[Dim, ...]) -> bytes:
    parts = [_digest(arg) for arg in args]  # sorted where the order of the operands does not matter
    return digest_of(
        kind.encode(), *(sorted(parts) if kind in ("+", "*", "max", "min", "broadcast") else parts)
    )


def opaque(kind: str, args: tuple[Dim, ...], limits: Bounds | None = None) -> SymbolicDim:
    """The anonymous symbol for the result of an operation; equal operands give the same symbol.

    An operation that `operation_bounds` does not know needs the limits of its result.
    """
    digest = _operation_digest(kind, args)
    atom = ATOMS.find(digest)
    if atom is None:
        numbered = any(arg.newest >= 0 for arg in args if type(arg) is SymbolicDim)
        limits = operation_bounds(kind, [bounds(arg) for arg in args]) if limits is None else limits
        atom = ATOMS.add(digest, opaque_atom(digest, limits, numbered=numbered))
    return of_atom(atom)


def compound(kind: str, args: tuple[Dim, ...]) -> SymbolicDim:
    """The expression that is one operation, or a symbol for it when it would be too large."""
    key = (kind, args)
    atom = ATOMS.find(key)
    if atom is None:
        operands = [arg for arg in args if type(arg) is SymbolicDim]
        if sum(arg.weight for arg in operands) + len(args) > MOST_WEIGHT // 2 or any(
            a.depth >= MOST_DEPTH for a in operands
        ):
            return opaque(kind, args)
        limits = operation_bounds(kind, [bounds(arg) for arg in args])
        atom = ATOMS.add(key, Atom(kind, args, limits, _operation_digest(kind, args)))
    return of_atom(atom)


def named(name: str, limits: tuple[int, int] = SIZES) -> SymbolicDim:
    """The dimension of that name within these limits.

    The same name and limits always give the same object.
    """
    key = ("named", name, limits)
    atom = ATOMS.find(key)
    if atom is None:
        # A name from Python may hold lone surrogates, which strict UTF-8 cannot encode.
        digest = digest_of(b"named", name.encode("utf-8", "surrogatepass"), b"%d %d" % limits)
        atom = ATOMS.add(key, Atom("named", (), limits, digest, name))
    return of_atom(atom)


def fresh(nonnegative: bool = True, limits: tuple[int, int] = SIZES) -> SymbolicDim:
    """A new anonymous symbol, equal only to itself.

    It is a dimension within the limits or, with ``nonnegative=False``, any integer of 64 bits.
    """
    number = next(_anonymous_serial)
    limits = limits if nonnegative else (-(2**63), 2**63 - 1)
    return of_atom(
        Atom("anonymous", (), limits, digest_of(b"anonymous", b"%d" % number), f"?{number}")
    )


def bounds(dim: Dim) -> Bounds:
    """Sound bounds ``(low, high)`` of a dimension, ``None`` for an unknown one."""
    return (dim.low, dim.high) if type(dim) is SymbolicDim else (dim, dim)


def lower_bound(dim: Dim) -> int | None:
    """A number that the dimension is never below, if one is known."""
    return dim.low if type(dim) is SymbolicDim else dim


def upper_bound(dim: Dim) -> int | None:
    """A number that the dimension is never above, ``None`` when none is known."""
    return dim.high if type(dim) is SymbolicDim else dim


def is_nonnegative(dim: Dim) -> bool:
    """Whether the dimension is known to be at least 0."""
    low = lower_bound(dim)
    return low is not None and low >= 0


def is_nonzero(dim: Dim) -> bool:
    """Whether the dimension is known not to be 0."""
    low = lower_bound(dim)
    if low is not None and low > 0:
        return True
    high = upper_bound(dim)
    return high is not None and high < 0


def content(dim: SymbolicDim, *more: int) -> int:
    """Greatest common divisor of the coefficients (the constant excluded) and of further
    numbers.
    """
    return math.gcd(*(coefficient for _, coefficient in dim.terms), *more)


def substituted(dim: Dim, values: Mapping[str | Atom, Dim]) -> Dim:
    """The expression with symbols, given by name or as atoms, replaced all at once."""

    def value(atom: Atom) -> Dim:
        if atom.args:
            return RULES[atom.kind](*[substituted(arg, values) for arg in atom.args])
        replacement = values.get(atom)
        return values.get(atom.name, of_atom(atom)) if replacement is None else replacement

    return with_atoms(dim, value) if type(dim) is SymbolicDim else dim


def with_atoms(dim: SymbolicDim, value: Callable[[Atom], Dim]) -> Dim:
    """The expression with a value in place of each atom."""
    total: Dim = dim.constant
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for atom, exponent in monomial:
            factor = value(atom)
            for _ in range(exponent):
                term = factor * term
        total = total + term
    return total
