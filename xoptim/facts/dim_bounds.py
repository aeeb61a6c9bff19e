"""Bounds of symbolic dimensions: interval arithmetic, and operations replaced by their operands."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, TypeAlias

from xoptim.facts.polynomials import Atom, Bounds, Monomial, Terms, merge_terms, scale_terms

_UNBOUNDED: Final = (None, None)
INTEGER_BITS: Final = {"int32": 32, "int64": 64}
"""Operations that wrap around, and the number of bits that they keep."""
_MAX_BITS: Final = 256
_MAX_DEPTH: Final = 4
"""Maximal number of operations that a deduction of a bound opens in a row."""
DEDUCTION_STEPS: Final = 32
"""Maximal number of polynomials that a deduction of a bound visits in all."""
_Limits: TypeAlias = tuple[tuple[Atom, ...], int]
"""The arguments ``skipped`` and ``depth`` of `_Deduction.low`."""


def _largest(numbers: Iterable[int | None]) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


def _smallest(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _all_or_none(numbers: Sequence[int | None]) -> Sequence[int | None]:
    return () if None in numbers else numbers


def integer_range(bits: int) -> tuple[int, int]:
    """The least and the largest integer of this many bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def operation_bounds(kind: str, operands: Sequence[Bounds]) -> Bounds:
    """Bounds of an operation from the bounds of its operands.

    A bound of more than `_MAX_BITS` bits is dropped.
    """
    low, high = _operation_bounds(kind, operands)
    return _kept(low), _kept(high)


def _kept(bound: int | None) -> int | None:
    return None if bound is None or abs(bound) >> _MAX_BITS else bound


def _operation_bounds(kind: str, operands: Sequence[Bounds]) -> Bounds:
    if kind in _INTERVALS:
        return _INTERVALS[kind](*operands)
    if kind in INTEGER_BITS:
        return integer_range(INTEGER_BITS[kind])
    lows, highs = zip(*operands, strict=True)
    low = _largest(lows) if kind == "max" else _smallest(_all_or_none(lows))
    return low, _smallest(highs) if kind == "min" else _largest(_all_or_none(highs))


def _sum_bounds(a: Bounds, b: Bounds) -> Bounds:
    low = None if a[0] is None or b[0] is None else a[0] + b[0]
    return low, None if a[1] is None or b[1] is None else a[1] + b[1]


def _product_bounds(a: Bounds, b: Bounds) -> Bounds:
    if a[0] is not None and b[0] is not None:
        if a[0] >= 0 and b[0] >= 0:
            return a[0] * b[0], None if a[1] is None or b[1] is None else a[1] * b[1]
        if a[1] is not None and b[1] is not None:
            corners = [x * y for x in (a[0], a[1]) for y in (b[0], b[1])]
            return min(corners), max(corners)
    return _UNBOUNDED


def _power_bounds(base: Bounds, exponent: int) -> Bounds:
    low, high = [None if bound is None else bound**exponent for bound in base]
    if exponent % 2 or (base[0] is not None and base[0] >= 0):
        return low, high
    if base[1] is not None and base[1] <= 0:
        return high, low
    return 0, _largest(_all_or_none((low, high)))


def _quotient_bounds(dividend: Bounds, divisor: Bounds) -> Bounds:
    low, high = dividend
    if divisor[0] is None or divisor[0] < 0:
        return _UNBOUNDED
    number = divisor[0]
    if number and number == divisor[1]:
        return None if low is None else low // number, None if high is None else high // number
    # There is no quotient by 0, so the divisor is at least 1: the quotient lies between the
    # dividend and 0 (or -1).
    at_least = None if low is None else min(low, 0)
    return at_least, None if high is None else max(high, -1)


def _truncated_quotient_bounds(dividend: Bounds, _divisor: Bounds) -> Bounds:
    if dividend[0] is None or dividend[1] is None:
        return _UNBOUNDED
    magnitude = max(abs(dividend[0]), abs(dividend[1]))
    return -magnitude, magnitude


def _remainder_bounds(dividend: Bounds, divisor: Bounds) -> Bounds:
    if divisor[0] is None or divisor[0] < 0:
        return _UNBOUNDED
    limit = None if divisor[1] is None else divisor[1] - 1
    nonnegative = dividend[0] is not None and dividend[0] >= 0
    return 0, _smallest((limit, dividend[1])) if nonnegative else limit


_INTERVALS: Final = {
    "+": _sum_bounds,
    "*": _product_bounds,
    "//": _quotient_bounds,
    "/": _truncated_quotient_bounds,
    "%": _remainder_bounds,
}


def _monomial_bounds(monomial: Monomial) -> Bounds:
    return reduce(
        _product_bounds,
        (_power_bounds((atom.low, atom.high), exponent) for atom, exponent in monomial),
    )


def _interval_low(terms: Terms, constant: int) -> int | None:
    total = constant
    for monomial, coefficient in terms:
        atom, exponent = monomial[0]
        if exponent == len(monomial) == 1:
            bound = atom.high if coefficient < 0 else atom.low
        else:
            bound = _monomial_bounds(monomial)[coefficient < 0]
        if bound is None:
            return None
        total += bound * coefficient
    return total


def deduced_low(terms: Terms, constant: int) -> int | None:
    """A number that the polynomial ``terms + constant`` is never below, ``None`` when no such
    number is found.

    Interval arithmetic gives a first bound. Then operations that occur linearly are opened one by
    one, which means replaced by an operand. The terms of the operand may cancel other terms:
    ``n - min(n, 5)`` is at least ``n - n`` and at least ``n - 5``. After `DEDUCTION_STEPS`
    polynomials, the best bound is returned.
    """
    return _Deduction().low(terms, constant, (), _MAX_DEPTH)


class _Deduction:
    """A search for a lower bound, and the number of polynomials that it may still visit."""

    def __init__(self) -> None:
        self.steps = DEDUCTION_STEPS

    def low(self, terms: Terms, constant: int, skipped: tuple[Atom, ...], depth: int) -> int | None:
        """A lower bound; opens at most ``depth`` operations in a row, none in ``skipped``."""
        self.steps -= 1
        best = _interval_low(terms, constant)
        if depth:
            for monomial, coefficient in terms:
                if self.steps <= 0:
                    break
                atom, exponent = monomial[0]
                if atom.args and exponent == len(monomial) == 1 and atom not in skipped:
                    rest = merge_terms(terms, ((monomial, coefficient),), -1)
                    best = _largest(
                        (best, self.open(atom, coefficient, rest, constant, (skipped, depth - 1)))
                    )
                    # opening the same operations in another order gives the same bound
                    skipped = (*skipped, atom)
        return best

    def open(
        self,
        atom: Atom,
        coefficient: int,
        rest: Terms,
        constant: int,
        limits: _Limits,
    ) -> int | None:
        """Lower bound of ``coefficient * atom + rest + constant`` by the bounds that the operation
        of the atom guarantees.
        """
        if atom.kind == "//":
            return self.open_quotient(atom, coefficient, rest, constant, limits)
        args = atom.args
        if atom.kind == "%" or atom.kind in INTEGER_BITS:
            # A remainder, and an integer cut to fewer bits, never exceed an operand that is at
            # least 0.
            low = None if type(args[0]) is int else args[0].low
            if coefficient > 0 or low is None or low < 0:
                return None
            args = args[:1]
        lows = [
            (
                self.low(rest, constant + coefficient * arg, *limits)
                if type(arg) is int
                else self.low(
                    merge_terms(rest, arg.terms, coefficient),
                    constant + coefficient * arg.constant,
                    *limits,
                )
            )
            for arg in args
        ]
        # A maximum is at least each operand, so the best bound counts; of a minimum, the worst one
        # holds.
        at_least_each = atom.kind == ("max" if coefficient > 0 else "min")
        return _largest(lows) if at_least_each else _smallest(_all_or_none(lows))

    def open_quotient(
        self,
        atom: Atom,
        coefficient: int,
        rest: Terms,
        constant: int,
        limits: _Limits,
    ) -> int | None:
        """As `open`, for a floor division by a number."""
        dividend, divisor = atom.args
        if type(divisor) is not int or type(dividend) is int:
            return None
        # With d > 0: x - d + 1 <= d * (x // d) <= x. Bound the polynomial times d, then divide.
        slack = divisor - 1 if coefficient > 0 else 0
        terms = merge_terms(scale_terms(rest, divisor), dividend.terms, coefficient)
        low = self.low(
            terms, divisor * constant + coefficient * (dividend.constant - slack), *limits
        )
        return None if low is None else -(-low // divisor)
