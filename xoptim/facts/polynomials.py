"""Multivariate polynomials with integer coefficients over atoms, and the weak table that makes
equal expressions one object.

A polynomial without its constant term is a tuple of ``(monomial, coefficient)`` pairs in graded
lexicographic order; a monomial is a tuple of ``(atom, exponent)`` pairs in the order of the atoms.
"""

import itertools
from hashlib import blake2b
from typing import Any, Final, Generic, TypeAlias, TypeVar
from weakref import ReferenceType, ref

Bounds: TypeAlias = tuple[int | None, int | None]
Item = TypeVar("Item")

_KINDS: Final = {
    kind: rank
    for rank, kind in enumerate(
        ("named", "anonymous", "opaque", "//", "%", "max", "min", "broadcast", "int32", "int64")
    )
}
_serial = itertools.count()


class _Entry(ref):  # type: ignore[type-arg]
    """A weak reference with its key, so that the entry of a dead object can be removed."""

    __slots__ = ("key",)
    key: Any


class Table(Generic[Item]):
    """Objects by their structure, held weakly."""

    def __init__(self) -> None:
        self.entries: dict[Any, ReferenceType[Any]] = {}

    def find(self, key: Any) -> Item | None:
        """The object of a key, if it is still alive."""
        entry = self.entries.get(key)
        return None if entry is None else entry()

    def add(self, key: Any, item: Item) -> Item:
        """The object to use for a key: ``item``, or the object that another thread added first."""
        entry = _Entry(item, self._forget)
        entry.key = key
        while True:
            winner = self.entries.setdefault(key, entry)
            referent: Item | None = winner()
            if referent is not None:
                return referent
            self._forget(winner)

    def _forget(self, entry: Any) -> None:
        key = entry.key
        if self.entries.get(key) is entry:
            del self.entries[key]


def digest_of(*parts: bytes) -> bytes:
    """Digest of a sequence of byte strings, the same in every process."""
    state = blake2b(digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


class Atom:
    """The variable of a polynomial: a symbol (no ``args``), or an operation that does not expand.

    The kind is ``named``, ``anonymous``, ``opaque`` (a symbol for an operation that would be too
    large), or the operation.
    """

    __slots__ = (
        "__weakref__",
        "anonymous",
        "args",
        "depth",
        "digest",
        "high",
        "key",
        "kind",
        "low",
        "name",
        "newest",
        "weight",
    )

    def __init__(
        self, kind: str, args: tuple[Any, ...], bounds: Bounds, digest: bytes, name: str = ""
    ) -> None:
        self.kind = kind
        self.args = args  # operands, integers and symbolic dimensions
        self.name = name  # of a symbol
        self.low, self.high = bounds  # ``None`` when unbounded
        self.digest = digest  # the structure in 16 bytes
        symbolic_args = [arg for arg in args if type(arg) is not int]
        # whether it is or contains a symbol without a name in the model
        self.anonymous = any(arg.is_anonymous for arg in symbolic_args) or (
            not args and kind != "named"
        )
        # number of atoms and numbers
        self.weight = 1 + sum(1 if type(arg) is int else arg.weight for arg in args)
        # how deeply operations are nested
        self.depth = 1 + max((arg.depth for arg in symbolic_args), default=0) if args else 0
        # Unique sort key. It depends on the structure and on the order in which anonymous symbols
        # were created, on nothing else in the process
        rank = self._rank()
        self.key = (_KINDS[kind], rank)
        # serial number of the newest symbol inside that has one; -1 without such a symbol
        self.newest = max((arg.newest for arg in symbolic_args), default=-1)
        if kind == "anonymous":
            self.newest = rank

    def _rank(self) -> Any:
        """Sort key among atoms of one kind."""
        if self.kind == "named":
            return self.name, self.low, self.high
        if self.args:
            return tuple([(1, (), arg) if type(arg) is int else arg.order for arg in self.args])
        return next(_serial)


def opaque_atom(digest: bytes, bounds: Bounds, *, numbered: bool) -> Atom:
    """A symbol, within some bounds, for the result of an operation.

    Its name contains the digest of operation and operands. ``numbered``: whether operands contain a
    symbol with a serial number. If not, the operation is the same in every process, and the symbol
    is ordered by its digest.
    """
    atom = Atom("opaque", (), bounds, digest, f"?_{digest.hex()}")
    atom.newest = next(_serial) if numbered else -1
    atom.key = (_KINDS["opaque"], (1, atom.newest) if numbered else (0, digest))
    return atom


Factor: TypeAlias = tuple[Atom, int]
Monomial: TypeAlias = tuple[Factor, ...]
Term: TypeAlias = tuple[Monomial, int]
Terms: TypeAlias = tuple[Term, ...]


def degree(monomial: Monomial) -> int:
    """Number of factors, each power counted with its exponent."""
    return sum([exponent for _, exponent in monomial])


def term_order(term: Term) -> tuple[int, tuple[Any, ...]]:
    """Sort key of a term: higher degree first, then by atoms.

    It is an admissible order, so division may rely on it.
    """
    monomial = term[0]
    if len(monomial) == 1:
        atom, exponent = monomial[0]
        return -exponent, ((atom.key, -exponent),)
    return -degree(monomial), tuple([(atom.key, -exponent) for atom, exponent in monomial])


def merge_terms(left: Terms, right: Terms, factor: int = 1) -> Terms:
    """``left + factor * right``, the terms in any order."""
    merged = dict(left)
    for monomial, coefficient in right:
        total = merged.get(monomial, 0) + coefficient * factor
        if total:
            merged[monomial] = total
        else:
            del merged[monomial]
    return tuple(merged.items())


def add_terms(left: Terms, right: Terms, factor: int = 1) -> Terms:
    """``left + factor * right``."""
    merged = merge_terms(left, right, factor)
    return tuple(sorted(merged, key=term_order)) if len(merged) > 1 else merged


def scale_terms(terms: Terms, factor: int) -> Terms:
    """``factor * terms`` for a factor other than zero."""
    return tuple([(monomial, coefficient * factor) for monomial, coefficient in terms])


def _multiply_monomials(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, exponent in right:
        powers[atom] = powers.get(atom, 0) + exponent
    return tuple(sorted(powers.items(), key=lambda factor: factor[0].key))


def multiply_terms(left: Terms, right: Terms) -> Terms:
    """``left * right``; a constant is written with the empty monomial."""
    merged: dict[Monomial, int] = {}
    for first, scale in left:
        for second, coefficient in right:
            monomial = _multiply_monomials(first, second)
            merged[monomial] = merged.get(monomial, 0) + scale * coefficient
    return tuple(sorted(((m, c) for m, c in merged.items() if c), key=term_order))


def _divide_monomial(dividend: Monomial, divisor: Monomial) -> Monomial | None:
    powers = dict(dividend)
    for atom, exponent in divisor:
        remaining_exponent = powers.get(atom, 0) - exponent
        if remaining_exponent < 0:
            return None
        if remaining_exponent:
            powers[atom] = remaining_exponent
        else:
            del powers[atom]
    return tuple(powers.items())


def divide_terms(dividend: Terms, divisor: Terms, most: int) -> Terms | None:
    """The polynomial q with ``q * divisor == dividend``, ``None`` when there is none of at most
    ``most`` terms.

    Constants are written with the empty monomial. Long division by the leading term: in an
    admissible order it finds the quotient whenever one with integer coefficients exists.
    """
    lead, lead_coefficient = divisor[0]
    quotient: list[Term] = []
    remainder = dividend
    while remainder:
        if len(quotient) == most:
            return None
        monomial, coefficient = remainder[0]
        ratio = _divide_monomial(monomial, lead)
        if ratio is None or coefficient % lead_coefficient:
            return None
        term = (ratio, coefficient // lead_coefficient)
        quotient.append(term)
        remainder = add_terms(remainder, multiply_terms((term,), divisor), -1)
    return tuple(quotient)
