"""Symbolic dimensions: canonical polynomials with integer coefficients, interned so that equality
is identity.

A polynomial is built over atoms: named symbols (the dimension names of a model), anonymous symbols,
and operations that do not expand: floor division, modulo, maximum, minimum, the dimension that two
dimensions broadcast to, and integers that wrap around. A symbol is in the range 0 to
`LARGEST_SIZE`, unless it was created with ``nonnegative=False`` or other limits; simplifications
hold for all values in range. Division and modulo round as Python's do.

Expressions are small: an anonymous symbol takes the place of a result that would be large, deep or
of high degree. Only its bounds are known; the same operation on the same operands has one symbol.
"""

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from xoptim.facts.dim_bounds import INTEGER_BITS, integer_range
from xoptim.facts.polynomials import Atom, Bounds as Bounds, add_terms, divide_terms
from xoptim.facts.symbolic import (
    ALL_SIZES as ALL_SIZES,
    LARGEST_SIZE as LARGEST_SIZE,
    MOST_TERMS,
    RULES,
    SIZES as SIZES,
    Dim as Dim,
    SymbolicDim as SymbolicDim,
    bounds as bounds,
    compound,
    content as content,
    fresh as fresh,
    from_full,
    full_terms,
    is_nonnegative as is_nonnegative,
    is_nonzero as is_nonzero,
    lower_bound as lower_bound,
    make,
    named as named,
    of_atom,
    opaque as opaque,
    order_of,
    single_atom,
    substituted,
    upper_bound as upper_bound,
    with_atoms,
)


def is_anonymous(dim: Dim) -> bool:
    """Whether a dimension contains a symbol without a name in the model."""
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
    """The expression with symbols, given by name (``str``) or as an object (`SymbolicDim`),
    replaced all at once.

    Raises ``ValueError`` for a key that is an expression, ``ZeroDivisionError`` when a divisor
    becomes 0.
    """
    if type(dim) is not SymbolicDim:
        return dim
    replacements: dict[str | Atom, Dim] = {}
    for key, value in values.items():
        atom = key if isinstance(key, str) else single_atom(key)
        if atom is None or (isinstance(atom, Atom) and atom.args):
            raise ValueError(f"{key} is not a symbol")
        replacements[atom] = value
    return substituted(dim, replacements)


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The value of the expression for a value of each symbol (the key of an anonymous symbol is its
    text, ``?12``).

    Raises ``KeyError`` for symbols without a value, ``ZeroDivisionError``, and ``ValueError`` where
    sizes are not broadcast-compatible.
    """
    if type(dim) is not SymbolicDim:
        return dim
    if missing := dim.symbols - values.keys():
        raise KeyError(*sorted(missing))
    if type(result := substitute(dim, values)) is not int:
        raise ValueError(f"{dim} has no value for {dict(values)}")
    return result


def _divide_by_number(a: SymbolicDim, b: int) -> Dim:
    common = content(a, b)
    if common > 1:
        # floor((g*x + c) / (g*k)) = floor((x + floor(c/g)) / k)
        a = cast(
            SymbolicDim, make(tuple((m, c // common) for m, c in a.terms), a.constant // common)
        )
        b //= common
        if b == 1:
            return a
    # Multiples of b are divided exactly. The coefficients of the remainder keep their signs, which
    # keeps its bounds tight.
    multiples = tuple((m, q) for m, c in a.terms if (q := abs(c) // b if c > 0 else -(abs(c) // b)))
    quotient = make(multiples, a.constant // b)
    remainder = make(add_terms(a.terms, multiples, -b), a.constant % b)
    if type(remainder) is not SymbolicDim:
        return quotient
    low, high = bounds(remainder)
    if low is not None and high is not None and low // b == high // b:
        return quotient + low // b
    inner = single_atom(remainder - remainder.constant)
    if (
        inner is not None
        and inner.kind == "//"
        and type(inner.args[1]) is int
        and inner.args[1] > 0
    ):
        dividend, divisor = inner.args
        return quotient + floor_div(dividend + remainder.constant * divisor, divisor * b)
    return quotient + compound("//", (remainder, b))


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
    """``a % b`` with the sign of ``b``, as in Python.

    Raises `ZeroDivisionError` when ``b`` is the number 0.
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
    return compound("%", (a, b))


def _reduce_by_number(a: SymbolicDim, b: int) -> Dim:
    remainder = make(tuple((m, r) for m, c in a.terms if (r := c % b)), a.constant % b)
    if type(remainder) is not SymbolicDim:
        return remainder
    low, high = bounds(a)
    if low is not None and high is not None and low >= 0 and high < b:
        return a
    replacement = _without_inner_modulo(remainder, b)
    if replacement is not remainder:
        return mod(replacement, b)
    common = content(remainder, b)
    if common > 1:
        # (g*x + c) mod (g*k) = g * ((x + floor(c/g)) mod k) + c mod g
        inner = make(
            tuple((m, c // common) for m, c in remainder.terms), remainder.constant // common
        )
        return mod(inner, b // common) * common + remainder.constant % common
    return compound("%", (remainder, b))


def _without_inner_modulo(a: SymbolicDim, b: int) -> Dim:
    """A dimension with the same remainder modulo b: x in place of a factor ``x % (k*b)``."""
    for monomial, coefficient in a.terms:
        for atom, _ in monomial:
            if atom.kind == "%" and type(atom.args[1]) is int and not atom.args[1] % b:
                cofactor = exact_quotient(make(((monomial, coefficient),), 0), of_atom(atom))
                replacement = (
                    a if cofactor is None else a + cofactor * (atom.args[0] - of_atom(atom))
                )
                # If the product is too large to expand, it is a symbol, and the factor remains.
                is_gone = type(replacement) is not SymbolicDim or monomial not in dict(
                    replacement.terms
                )
                return replacement if is_gone else a
    return a


def ceil_div(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded up; raises `ZeroDivisionError` when ``b`` is the number 0."""
    if is_nonnegative(b - 1):
        return floor_div(a + b - 1, b)
    return -floor_div(-a, b)


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """The expression q with ``q * b == a`` for all sizes, ``None`` when none is found or ``b`` is
    the number 0.
    """
    if a is b and type(a) is SymbolicDim:
        return 1
    divisor = full_terms(b)
    quotient = divide_terms(full_terms(a), divisor, MOST_TERMS) if divisor else None
    if quotient is not None:
        return from_full(quotient)
    # If b has a factor x // n, and n divides x, divide n * a by b with x in place of the factor.
    factors = _whole_quotient_factors(b)
    cofactor = exact_quotient(b, of_atom(factors[0])) if factors else None
    if cofactor is None:
        return None
    dividend, divisor = factors[0].args
    return exact_quotient(a * divisor, cofactor * dividend)


def _whole_quotient_factors(dim: Dim) -> list[Atom]:
    """The factors ``x // n`` of a product for which the number n divides x."""
    if type(dim) is not SymbolicDim or dim.constant or len(dim.terms) > 1:
        return []
    quotients = [
        atom for atom, _ in dim.terms[0][0] if atom.kind == "//" and type(atom.args[1]) is int
    ]
    return [atom for atom in quotients if mod(*atom.args) == 0]


def multiplied_out(dim: Dim) -> Dim:
    """A product with x in place of ``n * (x // n)``, if it has one such factor and n divides x.

    Any other dimension is returned unchanged.
    """
    factors = _whole_quotient_factors(dim)
    if len(factors) != 1:
        return dim
    dividend, divisor = factors[0].args
    cofactor = exact_quotient(dim, of_atom(factors[0]) * divisor)
    return dim if cofactor is None else cofactor * dividend


RULES["//"] = floor_div
RULES["%"] = mod


MOST_OPERANDS: Final = 12
"""Maximal number of operands of one operation; a symbol stands for an operation on more."""


def _operands(kind: str, dim: Dim) -> Sequence[Dim]:
    """The operands of a dimension that is one operation of this kind, else the dimension alone."""
    atom = single_atom(dim)
    return atom.args if atom is not None and atom.kind == kind else (dim,)


def _is_at_most(a: Dim, b: Dim) -> bool:
    high = upper_bound(a - b)
    return high is not None and high <= 0


def _extreme(kind: str, dims: tuple[Dim, ...]) -> Dim:
    """Maximum or minimum, without operands that another operand makes redundant."""
    # A canonical order: which operands are dropped may depend on it, and equal maxima must be one
    # object.
    groups = sorted(
        (_operands(kind, dim) for dim in dims),
        key=lambda group: (-len(group), [order_of(dim) for dim in group]),
    )
    operands = list(groups[0])  # operands of one operation have been compared
    for group in groups[1:]:
        rest = operands
        for dim in group:
            if dim not in rest:
                rest = _with_operand(kind, rest, dim)
        operands = rest
        if len(operands) > MOST_OPERANDS:
            operands = [opaque(kind, tuple(operands))]
    return (
        operands[0] if len(operands) == 1 else compound(kind, tuple(sorted(operands, key=order_of)))
    )


def _with_operand(kind: str, operands: list[Dim], dim: Dim) -> list[Dim]:
    is_max = kind == "max"
    if any(
        _is_at_most(dim, operand) if is_max else _is_at_most(operand, dim) for operand in operands
    ):
        return operands
    return [
        *(
            operand
            for operand in operands
            if not (_is_at_most(operand, dim) if is_max else _is_at_most(dim, operand))
        ),
        dim,
    ]


def dim_max(*dims: Dim) -> Dim:
    """The largest of one or more dimensions."""
    return dims[0] if len(dims) == 1 else _extreme("max", dims)


def dim_min(*dims: Dim) -> Dim:
    """The smallest of one or more dimensions."""
    return dims[0] if len(dims) == 1 else _extreme("min", dims)


def broadcast(a: Dim, b: Dim) -> Dim:
    """The dimension that ``a`` and ``b`` give under multidirectional broadcasting.

    If one of them is 1, the result is the other one. If one of them is known not to be 1, it is the
    result. If both may be 1, the result is an operation ``broadcast`` of both. Two numbers that are
    not broadcast-compatible give an anonymous dimension, as there is no value.
    """
    if a is b or (type(b) is int and b == 1):
        return a
    if type(a) is int and type(b) is int:
        return b if a == 1 else a if a == b else fresh()
    operands = dict.fromkeys((*_operands("broadcast", a), *_operands("broadcast", b)))
    dims = [dim for dim in sorted(operands, key=order_of) if dim != 1]
    # m broadcasts with min(m, 5) only where both are m: for m > 5, they differ and neither is 1.
    dims = [dim for dim in dims if not any(_is_size_or_one(dim, operand) for operand in dims)]
    if len(dims) > 1:
        never_one = [dim for dim in dims if is_never_one(dim)]
        if never_one:
            # In a valid model, all dimensions that are never 1 are equal; a number is preferred.
            return next((dim for dim in never_one if type(dim) is int), never_one[0])
        return (
            compound("broadcast", tuple(dims))
            if len(dims) <= MOST_OPERANDS
            else opaque("broadcast", tuple(dims))
        )
    return dims[0] if dims else 1


def _is_size_or_one(dim: Dim, size: Dim) -> bool:
    """Whether ``dim`` is ``size`` or 1 wherever the two are broadcast-compatible.

    True for the minimum of ``size`` and dimensions that are at least 2. Also true for ``size``
    wrapped around to fewer bits: no value other than ``size`` and 1 is broadcast-compatible.
    """
    atom = single_atom(dim)
    if atom is None or not atom.args or size not in atom.args:
        return False
    if atom.kind in INTEGER_BITS:
        return is_nonnegative(size)
    return atom.kind == "min" and all(
        arg is size or (lower_bound(arg) or 0) >= 2 for arg in atom.args
    )


def is_never_one(dim: Dim) -> bool:
    """Whether the dimension is known not to be 1."""
    if type(dim) is not SymbolicDim:
        return dim != 1
    if (1 - dim.constant) % content(dim):
        return True
    low, high = dim.low, dim.high
    return (low is not None and low > 1) or (high is not None and high < 1)


RULES["max"] = dim_max
RULES["min"] = dim_min
RULES["broadcast"] = lambda *dims: functools.reduce(broadcast, dims)


def as_integer(value: Dim, bits: int) -> Dim:
    """The result of integer arithmetic of 32 or 64 bits whose exact result is ``value``.

    ``value`` itself where its bounds show that it is in range; else an operation ``int32`` or
    ``int64``, the number in range that differs from ``value`` by a multiple of ``2**bits``.
    """
    low, high = integer_range(bits)
    if type(value) is not SymbolicDim:
        return (value - low) % (1 << bits) + low
    if _is_within(value, low, high):
        return value
    # Earlier wrapping, which adds a multiple of 2**bits, does not matter.
    value = with_atoms(
        value,
        lambda atom: atom.args[0] if INTEGER_BITS.get(atom.kind, 0) >= bits else of_atom(atom),
    )
    value = _wrapped_coefficients(value, bits)
    return value if _is_within(value, low, high) else compound(f"int{bits}", (value,))


def _is_within(value: Dim, low: int, high: int) -> bool:
    lower, upper = bounds(value)
    return lower is not None and upper is not None and low <= lower and upper <= high


def _wrapped_coefficients(value: Dim, bits: int) -> Dim:
    """The polynomial with its coefficients wrapped around to ``bits`` bits."""
    half = 1 << bits - 1
    if type(value) is not SymbolicDim:
        return (value + half) % (half * 2) - half
    terms = tuple([(m, r) for m, c in value.terms if (r := (c + half) % (half * 2) - half)])
    return make(terms, (value.constant + half) % (half * 2) - half)


def before_wrapping(value: Dim, bits: int = 32) -> Dim:
    """The exact value before it wrapped around in a type of at least ``bits`` bits."""
    atom = single_atom(value)
    return (
        cast(Dim, atom.args[0])
        if atom is not None and INTEGER_BITS.get(atom.kind, 0) >= bits
        else value
    )


RULES["int32"] = lambda value: as_integer(value, 32)
RULES["int64"] = lambda value: as_integer(value, 64)
