"""Symbolic dimensions: canonical polynomials with integer coefficients, interned so that equality is identity.

A polynomial is built over atoms: named symbols (the dimension names of a model), anonymous symbols, and what does not
expand: floor division, modulo, maximum, minimum, and the dimension that two dimensions broadcast to. Every symbol is at
least 0 unless it was made with ``fresh(nonnegative=False)``; every simplification holds for all such assignments.
Division and modulo round as Python's do.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeAlias, cast, final

from xoptim.facts.dim_atoms import Atom, Bounds, Table
from xoptim.facts.dim_bounds import operation_bounds, prove_low
from xoptim.facts.polynomials import Terms, add_terms, divide_terms, format_terms, multiply_terms, scale_terms, term_order

Dim: TypeAlias = "int | SymbolicDim"
_anonymous_serial = itertools.count()


@final
class SymbolicDim:
    """An integer expression that is not a constant. Equal expressions are the same object.

    Supports ``+ - * // %`` with integers and dimensions; a constant result is an ``int``. It has no order: ask
    `lower_bound` of a difference.
    """

    __slots__ = ("__weakref__", "_bounds", "_constant", "_terms", "_text")

    _terms: Terms
    _constant: int
    _bounds: Bounds | None
    _text: str | None

    @property
    def is_anonymous(self) -> bool:
        """Whether an anonymous symbol occurs in the expression."""
        return any(atom.anonymous for monomial, _ in self._terms for atom in monomial)

    @property
    def is_symbol(self) -> bool:
        """Whether this is one symbol, named or anonymous, and nothing else."""
        atom = _single_atom(self)
        return atom is not None and not atom.args

    @property
    def is_polynomial(self) -> bool:
        """Whether the expression is a polynomial of symbols, without any other operation."""
        return not any(atom.args for monomial, _ in self._terms for atom in monomial)

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols in the expression (``?12`` for an anonymous one)."""
        return frozenset().union(*(atom.names for monomial, _ in self._terms for atom in monomial))

    def __add__(self, other: Dim) -> Dim:
        if type(other) is SymbolicDim:
            return _make(add_terms(self._terms, other._terms), self._constant + other._constant)
        number = _index(other)
        return NotImplemented if number is None else _make(self._terms, self._constant + number)

    __radd__ = __add__

    def __neg__(self) -> SymbolicDim:
        return cast(SymbolicDim, _make(scale_terms(self._terms, -1), -self._constant))

    def __sub__(self, other: Dim) -> Dim:
        if type(other) is SymbolicDim:
            return _make(add_terms(self._terms, other._terms, -1), self._constant - other._constant)
        number = _index(other)
        return NotImplemented if number is None else _make(self._terms, self._constant - number)

    def __rsub__(self, other: int) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        if type(other) is SymbolicDim:
            return _from_full(multiply_terms(_full_terms(self), _full_terms(other)))
        number = _index(other)
        if number is None:
            return NotImplemented
        return _make(scale_terms(self._terms, number), self._constant * number) if number else 0

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floor_div(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floor_div(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: int) -> Dim:
        return mod(other, self)

    def __str__(self) -> str:
        if self._text is None:
            self._text = format_terms(self._terms, self._constant)
        return self._text

    __repr__ = __str__

    def __copy__(self) -> SymbolicDim:
        return self

    def __deepcopy__(self, memo: object) -> SymbolicDim:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a symbolic dimension is the same object as its equals: it cannot leave its process")


_DIMS: Final = Table[SymbolicDim]()
_ATOMS: Final = Table[Atom]()
_NAMED: Final = Table[SymbolicDim]()
_find_dim = _DIMS.find
_find_named = _NAMED.find


def _index(value: Any) -> int | None:
    """The value as an ``int`` (NumPy's integers count), ``None`` for anything else."""
    if type(value) is int:
        return value
    return int(operator.index(value)) if hasattr(value, "__index__") else None


def _make(terms: Terms, constant: int) -> Dim:
    """The one object for a polynomial."""
    if not terms:
        return constant
    key = (terms, constant)
    found = _find_dim(key)
    if found is not None:
        return found
    dim = SymbolicDim.__new__(SymbolicDim)
    dim._terms = terms
    dim._constant = constant
    dim._bounds = None
    dim._text = None
    return _DIMS.add(key, dim)


def _full_terms(dim: Dim) -> Terms:
    """All terms, the constant one included."""
    if type(dim) is not SymbolicDim:
        return (((), dim),) if dim else ()
    return (*dim._terms, ((), dim._constant)) if dim._constant else dim._terms


def _from_full(terms: Terms) -> Dim:
    return _make(terms[:-1], terms[-1][1]) if terms and not terms[-1][0] else _make(terms, 0)


def _single_atom(dim: Dim) -> Atom | None:
    """The atom that is the whole expression, if any."""
    if type(dim) is SymbolicDim and not dim._constant and len(dim._terms) == 1:
        monomial, coefficient = dim._terms[0]
        if coefficient == 1 and len(monomial) == 1:
            return monomial[0]
    return None


def _of_atom(atom: Atom) -> SymbolicDim:
    return cast(SymbolicDim, _make((((atom,), 1),), 0))


def _compound(kind: str, args: tuple[Dim, ...]) -> SymbolicDim:
    """The expression that is one operation."""
    key = (kind, args)
    atom = _ATOMS.find(key)
    if atom is None:
        if kind in ("//", "%"):
            text = f"{_operand(args[0])}{kind}{_operand(args[1])}"
        else:
            text = f"{kind}({', '.join(map(str, args))})"
        limits = operation_bounds(kind, [bounds(arg) for arg in args])
        atom = _ATOMS.add(key, Atom(kind, args, text, limits))
    return _of_atom(atom)


def _operand(dim: Dim) -> str:
    atom = _single_atom(dim)
    return str(dim) if type(dim) is int or (atom is not None and atom.tight) else f"({dim})"


def _dim_order(dim: Dim) -> tuple[bool, list[tuple[Any, int]], int]:
    """Sort key that no two dimensions share: symbolic ones first, in the order of their terms."""
    if type(dim) is not SymbolicDim:
        return True, [], dim
    return False, [(term_order(term), term[1]) for term in dim._terms], dim._constant


def named(name: str) -> SymbolicDim:
    """The dimension of that name, at least 0. The same name always gives the same object."""
    found = _find_named(name)
    if found is not None:
        return found
    key = ("named", name)
    atom = _ATOMS.find(key)
    if atom is None:
        atom = _ATOMS.add(key, Atom("named", (), name, (0, None)))
    return _NAMED.add(name, _of_atom(atom))


def fresh(nonnegative: bool = True) -> SymbolicDim:
    """A new anonymous symbol, equal to nothing but itself. Numbered in the order of creation."""
    return _of_atom(Atom("anonymous", (), f"?{next(_anonymous_serial)}", (0 if nonnegative else None, None)))


def _content(dim: SymbolicDim, *more: int) -> int:
    """Greatest common divisor of the coefficients (the constant excluded) and of further numbers."""
    return math.gcd(*(coefficient for _, coefficient in dim._terms), *more)


def _divide_by_number(a: SymbolicDim, b: int) -> Dim:
    """``a // b`` for ``b > 1``."""
    common = _content(a, b)
    if common > 1:
        # floor((g*x + c) / (g*k)) = floor((x + floor(c/g)) / k)
        a = cast(SymbolicDim, _make(tuple((m, c // common) for m, c in a._terms), a._constant // common))
        b //= common
        if b == 1:
            return a
    # Multiples of b leave the division. A coefficient keeps its sign, which keeps the bounds of what remains tight.
    whole = tuple((m, q) for m, c in a._terms if (q := abs(c) // b if c > 0 else -(abs(c) // b)))
    quotient = _make(whole, a._constant // b)
    rest = _make(add_terms(a._terms, whole, -b), a._constant % b)
    if type(rest) is not SymbolicDim:
        return quotient
    low, high = bounds(rest)
    if low is not None and high is not None and low // b == high // b:
        return quotient + low // b
    inner = _single_atom(rest - rest._constant)
    if inner is not None and inner.kind == "//" and type(inner.args[1]) is int and inner.args[1] > 0:
        dividend, divisor = inner.args
        return quotient + floor_div(dividend + rest._constant * divisor, divisor * b)
    return quotient + _compound("//", (rest, b))


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
    return _compound("//", (a, b))


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
    return _compound("%", (a, b))


def _reduce_by_number(a: SymbolicDim, b: int) -> Dim:
    """``a % b`` for ``b > 0``."""
    rest = _make(tuple((m, r) for m, c in a._terms if (r := c % b)), a._constant % b)
    if type(rest) is not SymbolicDim:
        return rest
    low, high = bounds(a)
    if low is not None and high is not None and low >= 0 and high < b:
        return a
    common = _content(rest, b)
    if common > 1:
        # (g*x + c) mod (g*k) = g * ((x + floor(c/g)) mod k) + c mod g
        inner = _make(tuple((m, c // common) for m, c in rest._terms), rest._constant // common)
        return mod(inner, b // common) * common + rest._constant % common
    return _compound("%", (rest, b))


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
    divisor = _full_terms(b)
    quotient = divide_terms(_full_terms(a), divisor) if divisor else None
    return None if quotient is None else _from_full(quotient)


def _flatten(kind: str, dims: Iterable[Dim]) -> list[Dim]:
    """The operands of nested operations of one kind, without repetition, in canonical order."""
    flat: dict[Dim, None] = {}
    for dim in dims:
        atom = _single_atom(dim)
        flat.update(dict.fromkeys(atom.args if atom is not None and atom.kind == kind else (dim,)))
    return sorted(flat, key=_dim_order)


def _extreme(kind: str, sign: int, dims: tuple[Dim, ...]) -> Dim:
    """Maximum (``sign`` 1) or minimum (-1): operands that another one makes redundant are dropped."""
    kept: list[Dim] = []
    for dim in _flatten(kind, dims):
        differences = [bounds((dim - other) * sign) for other in kept]
        if not any(high is not None and high <= 0 for _, high in differences):
            pairs = zip(kept, differences, strict=True)
            kept = [other for other, (low, _) in pairs if low is None or low < 0]
            kept.append(dim)
    return kept[0] if len(kept) == 1 else _compound(kind, tuple(kept))


def dim_max(*dims: Dim) -> Dim:
    """The largest of one or more dimensions."""
    return dims[0] if len(dims) == 1 else _extreme("max", 1, dims)


def dim_min(*dims: Dim) -> Dim:
    """The smallest of one or more dimensions."""
    return dims[0] if len(dims) == 1 else _extreme("min", -1, dims)


def broadcast(a: Dim, b: Dim) -> Dim:
    """The dimension of an axis where ``a`` and ``b`` meet under multidirectional broadcasting.

    It is whichever is not 1; where both may be 1, an atom remembers the pair. Two numbers that do not broadcast give an
    anonymous dimension: there is no value to give.
    """
    if a is b or (type(b) is int and b == 1):
        return a
    if type(a) is int and type(b) is int:
        return b if a == 1 else a if a == b else fresh()
    dims = [dim for dim in _flatten("broadcast", (a, b)) if dim != 1]
    # Cut to at least 2, what is longer than the cut does not broadcast: m meets min(m, 5) only where both are m.
    dims = [dim for dim in dims if not any(_is_cut(dim, other) for other in dims)]
    if len(dims) > 1:
        certain = [dim for dim in dims if is_never_one(dim)]
        if certain:
            # Valid models agree on it; a number says more than an expression.
            return next((dim for dim in certain if type(dim) is int), certain[0])
        return _compound("broadcast", tuple(dims))
    return dims[0] if dims else 1


def _is_cut(dim: Dim, whole: Dim) -> bool:
    """Whether a dimension is the minimum of another one and of what is at least 2."""
    atom = _single_atom(dim)
    if atom is None or atom.kind != "min" or whole not in atom.args:
        return False
    return all(arg is whole or (lower_bound(arg) or 0) >= 2 for arg in atom.args)


def is_never_one(dim: Dim) -> bool:
    """Whether the dimension is provably not 1."""
    if type(dim) is not SymbolicDim:
        return dim != 1
    if (1 - dim._constant) % _content(dim):
        return True
    low, high = bounds(dim)
    return (low is not None and low > 1) or (high is not None and high < 1)


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


def bounds(dim: Dim) -> Bounds:
    """Sound bounds ``(low, high)`` of a dimension, ``None`` where nothing is known."""
    if type(dim) is not SymbolicDim:
        return dim, dim
    known = dim._bounds
    if known is None:
        low = prove_low(dim._terms, dim._constant)
        high = prove_low(scale_terms(dim._terms, -1), -dim._constant)
        known = dim._bounds = (low, None if high is None else -high)
    return known


def lower_bound(dim: Dim) -> int | None:
    """A number that the dimension is never below, if one is known."""
    return bounds(dim)[0]


def upper_bound(dim: Dim) -> int | None:
    """A number that the dimension is never above, ``None`` when none is known."""
    return bounds(dim)[1]


def is_nonnegative(dim: Dim) -> bool:
    """Whether the dimension is provably at least 0."""
    low = bounds(dim)[0]
    return low is not None and low >= 0


def is_nonzero(dim: Dim) -> bool:
    """Whether the dimension is provably not 0."""
    low, high = bounds(dim)
    return (low is not None and low > 0) or (high is not None and high < 0)


def substitute(dim: Dim, values: Mapping[Any, Dim]) -> Dim:
    """The expression with symbols, given by name (``str``) or as an object (`SymbolicDim`), replaced all at once.

    Raises ``ValueError`` for a key that is an expression, ``ZeroDivisionError`` when a divisor becomes 0.
    """
    if type(dim) is not SymbolicDim:
        return dim
    replaced: dict[str | Atom, Dim] = {}
    for key, value in values.items():
        atom = key if isinstance(key, str) else _single_atom(key)
        if atom is None or (isinstance(atom, Atom) and atom.args):
            raise ValueError(f"{key} is not a symbol")
        replaced[atom] = value
    return _substitute(dim, replaced)


def _substitute(dim: Dim, values: dict[str | Atom, Dim]) -> Dim:
    if type(dim) is not SymbolicDim:
        return dim
    total: Dim = dim._constant
    for monomial, coefficient in dim._terms:
        term: Dim = coefficient
        for atom in monomial:
            if atom.args:
                term = _RULES[atom.kind](*(_substitute(arg, values) for arg in atom.args)) * term
            else:
                value = values.get(atom)
                term = term * (values.get(atom.text, _of_atom(atom)) if value is None else value)
        total = total + term
    return total


_RULES: Final[dict[str, Callable[..., Dim]]] = {
    "//": floor_div,
    "%": mod,
    "max": dim_max,
    "min": dim_min,
    "broadcast": lambda *dims: functools.reduce(broadcast, dims),
}


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The number that the expression is, given one for each symbol (an anonymous one goes by its text, ``?12``).

    Raises ``KeyError`` for symbols without a value, ``ZeroDivisionError``, and ``ValueError`` where nothing broadcasts.
    """
    if type(dim) is not SymbolicDim:
        return dim
    if missing := dim.symbols - values.keys():
        raise KeyError(*sorted(missing))
    if type(result := substitute(dim, values)) is not int:
        raise ValueError(f"{dim} has no value for {dict(values)}")
    return result
