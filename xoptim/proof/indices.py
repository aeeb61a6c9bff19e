"""Indices of elements, as polynomials of sizes and index symbols: their signs, and their quotients
by sizes.

Where the answer depends on the index or the size, `CaseSplit` is raised. The code that introduced
the symbol catches it and repeats the comparison for each case.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, Protocol, Self

from xoptim.facts.dims import (
    LARGEST_SIZE,
    Dim,
    SymbolicDim,
    ceil_div,
    exact_quotient,
    floor_div,
    is_nonnegative,
    mod,
    named,
    substitute,
)
from xoptim.facts.symbolic import full_terms, make, of_atom, with_atoms

INDEX: Final = "#"
"""First character of the names of free indices."""
BOUND: Final = "@"
"""First character of the names of the indices of sums."""
PLACE: Final = "&"
"""First character of the symbols that stand for every index along an axis (`CaseFacts.place`).

Functions of complete tensors, such as LSTM, read their operands at these symbols.
"""
ELEMENT: Final = "$"
"""First character of the names of indices that are read from a tensor."""
UNNAMED: Final = "~"
"""First character of the names of sizes without a name, and of elements of integer inputs."""
RESERVED: Final = (INDEX, BOUND, PLACE, ELEMENT, UNNAMED, "?")
"""First characters that no size of a model may have."""
_OPAQUE: Final = "?_"
"""First characters of the names of symbols for operations that would be too large."""
_MAX_CONDITIONS: Final = 8
"""Maximal number of conditions whose pairwise sums are used to decide a sign."""


class Unproved(Exception):  # noqa: N818
    """A rewrite is not proved; the message is the reason."""


class OutOfTime(Unproved):
    """A proof takes more CPU time than `DEADLINE` allows."""

    def __init__(self) -> None:
        super().__init__("the time limit is reached")


class Impossible(Exception):  # noqa: N818
    """An operator fails for all sizes of this case."""


class CaseSplit(Exception):  # noqa: N818
    """A question whose answer differs between cases."""


class SignSplit(CaseSplit):
    """Whether ``condition`` is at least 0."""

    def __init__(self, condition: SymbolicDim) -> None:
        super().__init__(str(condition))
        self.condition = condition


class IndexSplit(CaseSplit):
    """An index that has to be written as ``outer * inner_extent + inner``."""

    def __init__(self, name: str, outer: Dim, inner: Dim) -> None:
        super().__init__(f"{name} = {outer} * {inner}")
        self.name = name
        self.outer = outer  # extent of the outer index
        self.inner = inner  # extent of the inner index


class SizeSplit(CaseSplit):
    """Sizes of inputs to be replaced; the cases cover all sizes that the model accepts."""

    def __init__(self, *cases: Mapping[str, Dim]) -> None:
        super().__init__("; ".join(map(str, cases)))
        self.cases = cases


DEADLINE: Final[ContextVar[float]] = ContextVar("DEADLINE", default=math.inf)
"""The time of the `CLOCK` at which a proof ends."""
CLOCK: Final[ContextVar[Callable[[], float]]] = ContextVar("CLOCK", default=time.thread_time)
"""The clock, in seconds: CPU time of the thread, so that other programs make no difference."""


def check_time() -> None:
    """Raise `OutOfTime` after the deadline."""
    if CLOCK.get()() > DEADLINE.get():
        raise OutOfTime


def multiple_of(name: str, divisor: int) -> dict[str, Dim]:
    """The case in which a size is a multiple of a number."""
    quotient = named(f"{name}/{divisor}", (1, LARGEST_SIZE // divisor))
    return {name: quotient * divisor}


def index_symbol(name: str, extent: Dim) -> SymbolicDim:
    """The symbol of an index from 0 to ``extent - 1``."""
    last = extent - 1 if isinstance(extent, int) else LARGEST_SIZE
    return named(name, (0, last))


class Content(Protocol):
    """The element of a tensor that an `ElementName` refers to; implemented by
    `xoptim.proof.elements.Element`.
    """

    @property
    def free(self) -> frozenset[str]:
        """The names of its symbols."""

    @property
    def level(self) -> int:
        """The nesting depth of sums in it."""

    @property
    def serial(self) -> int:
        """A unique number."""

    def substituted(self, values: Mapping[str, Dim]) -> Self:
        """The same with expressions in place of symbols."""


class ElementName(str):
    """The name of a symbol for an index that is read from a tensor."""

    content: Content
    extent: Dim


def read_index(content: Content, extent: Dim) -> SymbolicDim:
    """The symbol for an index that is an element of a tensor, from 0 to ``extent - 1``."""
    name = ElementName(f"{ELEMENT}{content.serial}")
    name.content = content
    name.extent = extent
    return index_symbol(name, extent)


def symbols_of(dim: Dim) -> frozenset[str]:
    """The names of all symbols, those of indices that are read included.

    Raises `Unproved` for an expression that was too large.
    """
    return frozenset() if isinstance(dim, int) else _symbols_of(dim)


@lru_cache(maxsize=1 << 14)
def _symbols_of(dim: SymbolicDim) -> frozenset[str]:
    symbols = dim.symbols
    if any(name.startswith(_OPAQUE) for name in symbols):
        raise Unproved("an index or a size is too large an expression")
    contents = (name.content.free for name in symbols if isinstance(name, ElementName))
    return symbols.union(*contents)


def level_of(dim: Dim) -> int:
    """The nesting depth of sums in the indices that an expression reads."""
    names = () if isinstance(dim, int) else dim.symbols
    return max((name.content.level for name in names if isinstance(name, ElementName)), default=0)


def replaced(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """The expression with ``values`` in place of symbols, also in indices that are read."""
    if isinstance(dim, int) or values.keys().isdisjoint(symbols_of(dim)):
        return dim
    contents = {
        name: read_index(name.content.substituted(values), replaced(name.extent, values))
        for name in dim.symbols
        if isinstance(name, ElementName)
    }
    return substitute(dim, {**values, **contents})


def linear_parts(dim: Dim, name: str) -> tuple[Dim, Dim] | None:
    """The coefficient of a symbol, and the rest; ``None`` where the expression is not linear."""
    if isinstance(dim, int):
        return 0, dim
    coefficient: Dim = 0
    rest: Dim = dim.constant
    for monomial, number in dim.terms:
        factors = tuple((atom, power) for atom, power in monomial if atom.name != name or atom.args)
        if any(name in of_atom(atom).symbols for atom, _ in factors):
            return None
        power = next((power for atom, power in monomial if (atom, power) not in factors), 0)
        if power > 1:
            return None
        term = make(((factors, number),), 0) if factors else number
        if power:
            coefficient = coefficient + term
        else:
            rest = rest + term
    return coefficient, rest


class CaseFacts:
    """The facts about the indices and sizes in one branch of a proof.

    ``is_exact``: only movement, integers and equal operators are understood, so equal elements
    have the same bits. Otherwise, floating-point numbers are read as real numbers.
    ``unrolls``: a sum of few terms is written term by term.
    ``has_zeros``: some sizes are 0. All others are at least 1.
    """

    def __init__(self, *, is_exact: bool, unrolls: bool = False, has_zeros: bool = False) -> None:
        self.is_exact = is_exact
        self.unrolls = unrolls
        self.has_zeros = has_zeros
        # ids of nodes that may fail, by reason ("ReduceMax of an empty tensor")
        self.fragile = dict[str, set[int]]()
        self.extents: dict[str, Dim] = {}
        self.conditions: list[Dim] = []  # expressions that are at least 0
        self.is_original = True  # whether the side that is read is the original
        self._required = set[Hashable]()  # conditions without which the original fails
        self._serial = itertools.count()
        self._signs: dict[Dim, bool | None] = {}
        self._places: dict[tuple[int, Dim], Dim] = {}
        self._sizes: dict[tuple[Hashable, ...], Dim] = {}

    def index(self, extent: Dim, prefix: str = INDEX) -> SymbolicDim:
        """A new index from 0 to ``extent - 1``."""
        name = f"{prefix}n{next(self._serial)}"
        self.extents[name] = extent
        return index_symbol(name, extent)

    def place(self, axis: int, extent: Dim) -> Dim:
        """The symbol that stands for all indices along an axis of an operand."""
        if extent in (0, 1):
            return 0
        if (axis, extent) not in self._places:
            self._places[axis, extent] = self.index(extent, PLACE)
        return self._places[axis, extent]

    def unknown_size(self, *key: Hashable, size: Dim) -> Dim:
        """The size of a result that depends on values: the same one for the same key."""
        return self._sizes.setdefault(key, size)

    def require(self, *condition: Hashable) -> bool:
        """Whether a node may rely on a condition without which it fails.

        Conditions of the original hold wherever it runs, so they are recorded. A node of the
        result may rely only on a recorded condition.
        """
        if self.is_original:
            self._required.add(condition)
        return condition in self._required

    def is_at_least_zero(self, dim: Dim) -> bool | None:
        """Whether an expression is at least 0; ``None`` if only for some values, or not found."""
        if isinstance(dim, int):
            return dim >= 0
        if dim not in self._signs:
            self._signs[dim] = self._sign(dim)
        return self._signs[dim]

    def decide(self, dim: Dim) -> bool:
        """Whether an expression is at least 0; raises `SignSplit` where that is not known."""
        answer = self.is_at_least_zero(dim)
        if answer is None:
            assert isinstance(dim, SymbolicDim)
            raise SignSplit(dim)
        return answer

    def _sign(self, dim: SymbolicDim) -> bool | None:
        symbols_of(dim)  # raises `Unproved` for an expression that was too large
        pairs = (a + b for a, b in itertools.combinations(self.conditions[:_MAX_CONDITIONS], 2))
        for margin in (0, *self.conditions, *pairs):
            check_time()
            if self._is_never_negative(dim - margin):
                return True
            if self._is_never_negative(-dim - 1 - margin):
                return False
        return None

    def _is_never_negative(self, dim: Dim) -> bool:
        """Whether an expression is at least 0 for all indices.

        Each index is replaced by the end of its range at which the expression is least.
        """
        while isinstance(dim, SymbolicDim):
            name = max(dim.symbols & self.extents.keys(), default=None)
            if name is None:
                break
            parts = linear_parts(dim, name)
            if parts is None:
                break
            coefficient, rest = parts
            if self._is_never_negative(coefficient):
                dim = rest
            elif self._is_never_negative(-coefficient):
                dim = rest + coefficient * (self.extents[name] - 1)
            else:
                return False
        return _is_nonnegative_size(dim)

    def divided(self, dim: Dim, size: Dim) -> tuple[Dim, Dim]:
        """The quotient and the remainder of an index by a size of at least 1.

        Raises `IndexSplit` where an index has to be written as two.
        """
        for quotient, rest in (_by_terms(dim, size), _by_lead(dim, size), (0, dim)):
            if self.is_at_least_zero(rest) and self.is_at_least_zero(size - 1 - rest):
                return quotient, rest
        quotient, rest = _by_terms(dim, size)
        self._split(rest, size)
        return quotient + floor_div(rest, size), mod(rest, size)

    def _split(self, rest: Dim, size: Dim) -> None:
        """Raise `IndexSplit` for an index in ``rest`` whose upper part is a multiple of ``size``.

        With ``size = 6``, ``3 * i`` for ``i`` below 8 is split: ``i = 2 * outer + inner``.
        """
        names = symbols_of(rest) & self.extents.keys()
        for name in sorted(names):
            parts = None if name.startswith(PLACE) else linear_parts(rest, name)
            inner = None if parts is None else exact_quotient(size, parts[0])
            if inner is None or inner == 1 or not self.is_at_least_zero(inner - 1):
                continue
            outer = exact_quotient(self.extents[name], inner)
            if outer is not None and outer != 1:
                raise IndexSplit(name, outer, inner)

    def cut(self, condition: Dim, name: str) -> Dim | None:
        """The index ``name`` at which the sign of a condition changes.

        ``None`` where the sign is the same over the range of the index, or the condition is not
        linear in it. Raises `SignSplit` where it depends on sizes whether the sign changes.
        """
        parts = linear_parts(condition, name)
        coefficient, rest = parts or (0, 0)
        if not isinstance(coefficient, int) or not coefficient:
            return None
        first = ceil_div(-rest, coefficient)
        if coefficient < 0:
            first = floor_div(rest, -coefficient) + 1
        if any(symbol[0] in (BOUND, PLACE) for symbol in symbols_of(first)):
            return None
        is_inside = self.decide(first - 1) and self.decide(self.extents[name] - 1 - first)
        return first if is_inside else None


def _is_nonnegative_size(dim: Dim) -> bool:
    """Whether an expression of sizes is at least 0, by the lower bounds of its symbols."""
    if isinstance(dim, int) or is_nonnegative(dim):
        return is_nonnegative(dim)
    if any(atom.low is None for monomial, _ in dim.terms for atom, _ in monomial):
        return False
    # Each symbol now stands for its excess over its lower bound.
    shifted = with_atoms(dim, lambda atom: of_atom(atom) + (atom.low or 0))
    return all(number >= 0 for _, number in full_terms(shifted))


def _by_terms(dim: Dim, size: Dim) -> tuple[Dim, Dim]:
    """The sum of the terms' quotients by ``size``, and the sum of their remainders.

    A term that ``size`` does not divide is a remainder. For a ``size`` that is a number, the
    coefficient of each term is divided.
    """
    if isinstance(dim, int) and isinstance(size, int):
        return divmod(dim, size)
    if isinstance(dim, int):
        return 0, dim
    quotient: Dim = 0
    rest: Dim = 0
    for term in (*(make((term,), 0) for term in dim.terms), dim.constant):
        exact = exact_quotient(term, size)
        if exact is not None:
            quotient = quotient + exact
        elif isinstance(size, int):
            multiple, remainder = _coefficient_divided(term, size)
            quotient, rest = quotient + multiple, rest + remainder
        else:
            rest = rest + term
    return quotient, rest


def _coefficient_divided(term: Dim, size: int) -> tuple[Dim, Dim]:
    if isinstance(term, int):
        return divmod(term, size)
    monomial, number = term.terms[0]
    multiple, remainder = divmod(number, size)
    return make(((monomial, 1),), 0) * multiple, make(((monomial, 1),), 0) * remainder


def _by_lead(dim: Dim, size: Dim) -> tuple[Dim, Dim]:
    """The quotient of polynomials by the first term of a size that is a sum, and the rest."""
    if isinstance(dim, int) or isinstance(size, int) or len(size.terms) + bool(size.constant) < 2:
        return 0, dim
    lead = make(size.terms[:1], 0)
    quotient: Dim = 0
    for term in dim.terms:
        part = exact_quotient(make((term,), 0), lead)
        quotient = quotient if part is None else quotient + part
    return quotient, dim - quotient * size
