"""Functions that simplify for some arguments, such as square roots, maxima and comparisons."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from typing import Any, Final

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import is_integer
from xoptim.proof.elements import (
    LAWS,
    ONE,
    ZERO,
    Element,
    Factor,
    Number,
    Term,
    element,
    factor,
    first_term,
    function,
    number,
    of_dim,
    of_factor,
)
from xoptim.proof.kinds import (
    AT_MOST,
    CONSTANT,
    EQUAL,
    ERF,
    EXP,
    EXTREMES,
    FLOOR,
    LESS,
    LOG,
    MAXIMUM,
    MINIMUM,
    ROOT,
    ROUND,
    SIZE,
    SPECIAL,
    SUM,
    TANH,
    WITHIN,
    WRAPPED,
    Stored,
    limits_of,
)
from xoptim.proof.terms import order_of_term

_MAX_EXPONENT: Final = 8


def dim_of(value: Element) -> Dim | None:
    """The sum of products of sizes and indices that an element is; ``None`` for other elements."""
    total: Dim = 0
    for (sums, powers), coefficient in value.terms.items():
        is_integer = all(base.key[0] == SIZE and power > 0 for base, power in powers)
        if sums or not is_integer or not isinstance(coefficient, int):
            return None
        term: Dim = coefficient
        for base, power in powers:
            for _ in range(power):
                term = base.args[0] * term  # type: ignore[operator]
        total = total + term
    return total


def within(condition: Dim) -> Element:
    """1 where an expression is at least 0, and 0 elsewhere."""
    if isinstance(condition, int):
        return ONE if condition >= 0 else ZERO
    return function(WITHIN, args=[condition])


def root(value: Element) -> Element:
    """The square root of an element that is at least 0; a positive coefficient is taken out."""
    if not value.terms:
        return ZERO
    scale = value.terms[first_term(value)]
    if scale <= 0 or (scale == 1 and value is not ONE):
        return function(ROOT, args=[value])
    rest = value.scaled(1 / Fraction(scale))
    factor_of_scale = _root_of(Fraction(scale))
    return factor_of_scale if rest is ONE else factor_of_scale * function(ROOT, args=[rest])


def _root_of(value: Fraction) -> Element:
    parts = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if parts[0] ** 2 == value.numerator and parts[1] ** 2 == value.denominator:
        return number(Fraction(*parts))
    return function(ROOT, args=[number(value)])


def exponential(value: Element) -> Element:
    """The exponential of an element; of a sum, it is the product of exponentials."""
    result = ONE
    for term, coefficient in value.terms.items():
        # exp(-x) is the inverse of exp(x).
        sign = 1 if coefficient > 0 else -1
        argument = element({term: coefficient * sign})
        power = _power_of_log(term, coefficient)
        image = of_factor(factor(EXP, args=[argument]), sign) if power is None else power
        result = result * image
    return result


def _power_of_log(term: Term, coefficient: Number) -> Element | None:
    """``x^n``, the exponential of a term ``n * log(x)`` of a positive x; else ``None``."""
    sums, powers = term
    if sums or not isinstance(coefficient, int) or [power for _, power in powers] != [1]:
        return None
    base = powers[0][0]
    is_inverse = base.key[0] == LOG and is_positive(_argument(base))
    return _argument(base).power(coefficient) if is_inverse else None


def power_of(base: Element, exponent: Element) -> Element | None:
    """A power whose exponent is a small integer or a multiple of a quarter; else ``None``."""
    if exponent.number is None:
        return None
    value = Fraction(exponent.number)
    if abs(value) > _MAX_EXPONENT:
        return None
    if value == int(value):
        return base.power(int(value))
    quarters = value * 4
    if quarters != int(quarters) or abs(value) > 1:
        return None
    if int(quarters) % 2 == 0:
        return root(base).power(int(quarters) // 2)
    return root(root(base)).power(int(quarters))


def extreme(kind: str, *elements: Element) -> Element:
    """A maximum or a minimum of elements in any order, each once, and at most one number.

    A positive factor of the first operand is taken out. ``min(high, max(low, x))`` with ``low <=
    high`` is written as ``max(low, min(high, x))``.
    """
    operands: dict[Element, None] = {}
    for value in elements:
        operands.update(dict.fromkeys(_operands(kind, value)))
    numbers = [n for n in (value.number for value in operands) if n is not None]
    rest = [value for value in operands if value.number is None]
    limit = (max if kind == MAXIMUM else min)(numbers) if numbers else None
    if not rest:
        return number(limit or 0)
    scale = min(map(_scale_of, rest))[1]
    if scale != 1:
        scaled = [value.scaled(1 / scale) for value in operands]
        return extreme(kind, *scaled).scaled(scale)
    if kind == MINIMUM and limit is not None and len(rest) == 1:
        inner = _operands(MAXIMUM, rest[0])
        low = next((e.number for e in inner if e.number is not None), None)
        if len(inner) > 1 and low is not None and low <= limit:
            variables = [value for value in inner if value.number is None]
            minimum = extreme(MINIMUM, number(limit), extreme(MAXIMUM, *variables))
            return extreme(MAXIMUM, number(low), minimum)
    ordered = sorted(rest, key=lambda value: value.serial)
    if limit is not None:
        ordered.append(number(limit))
    return ordered[0] if len(ordered) == 1 else function(kind, args=ordered)


def _scale_of(value: Element) -> tuple[Any, Fraction]:
    """The sort key of the first term, and the magnitude of its coefficient."""
    first = first_term(value)
    return order_of_term(first), abs(Fraction(value.terms[first]))


def _operands(kind: str, value: Element) -> list[Element]:
    """The operands of a maximum or a minimum; any other element itself."""
    single = value.single
    if single is None or single.key != (kind,):
        return [value]
    return [arg for arg in single.args if isinstance(arg, Element)]


def logarithm(value: Element) -> Element:
    """The logarithm of a positive element; of a product of exponentials and sums, it is a sum."""
    total = ZERO
    rest = value
    if len(value.terms) == 1 and (single := _logarithms(value)) is not None:
        return single
    shared = exponentials_of(value)
    for base, power in shared:
        rest = rest * of_factor(base, -power)
        total = total + _argument(base).scaled(power)
    return total + function(LOG, args=[rest])


def _logarithms(value: Element) -> Element | None:
    """The logarithm of one product of factors that are positive, ``None`` for another product."""
    ((sums, powers), scale), *_ = value.terms.items()
    if sums or scale <= 0 or not powers:
        return None
    total = ZERO if scale == 1 else function(LOG, args=[number(scale)])
    for base, power in powers:
        if base.key[0] == EXP:
            total = total + _argument(base).scaled(power)
        elif base.key[0] == SUM and is_positive(_argument(base)):
            total = total + logarithm(_argument(base)).scaled(power)
        else:
            return None
    return total


def is_positive(value: Element) -> bool:
    """Whether an element is a sum of products of exponentials with positive coefficients."""
    return bool(value.terms) and all(
        coefficient > 0 and all(base.key[0] == EXP for base, _ in powers)
        for (_, powers), coefficient in value.terms.items()
    )


def exponentials_of(value: Element) -> list[tuple[Factor, int]]:
    """The exponentials in a positive element with their least power in its terms, if not 0."""
    if not is_positive(value):
        return []
    bases = {base for _, powers in value.terms for base, _ in powers}
    least: list[tuple[Factor, int]] = []
    for base in bases:
        if any(base.free & {name for name, _ in sums} for sums, _ in value.terms):
            continue
        power = min(dict(powers).get(base, 0) for _, powers in value.terms)
        if power:
            least.append((base, power))
    return least


def _argument(base: Factor) -> Element:
    (argument,) = base.args
    assert isinstance(argument, Element)
    return argument


def comparison(kind: str, dtype: int, first: Element, second: Element) -> Element:
    """1 where a comparison of two numbers of a type holds, else 0.

    All types of integers are compared alike. A number is less than a minimum if it is less than
    all its operands.
    """
    if is_integer(dtype):
        a, b = dim_of(first), dim_of(second)
        dtype = TensorProto.INT64
        if a is not None and b is not None:
            return _comparison_of_indices(kind, a, b)
        if first is second:
            return ZERO if kind == LESS else ONE
    left, right = first.number, second.number
    if left is not None and right is not None:
        holds = {LESS: left < right, AT_MOST: left <= right, EQUAL: left == right}[kind]
        return ONE if holds else ZERO
    for place, extreme_kind in enumerate((MAXIMUM, MINIMUM)):
        parts = _operands(extreme_kind, (first, second)[place])
        if kind != EQUAL and len(parts) > 1:
            pairs = [(part, second) if place == 0 else (first, part) for part in parts]
            result = ONE
            for pair in pairs:
                result = result * comparison(kind, dtype, *pair)
            return result
    if kind == EQUAL and (equality := _equality(dtype, first, second)) is not None:
        return equality
    ordered = [first, second]
    if kind == EQUAL:
        ordered.sort(key=lambda element: element.serial)
    return function(kind, dtype, args=ordered)


def _equality(dtype: int, *pair: Element) -> Element | None:
    """The equality of an element with a number or an infinity, in a simpler form; ``None`` where
    there is none.
    """
    for value, target in (pair, pair[::-1]):
        single = value.single
        if single is not None and single.key[0] == WRAPPED and target.number is not None:
            return _equality_modulo(single, target.number)
        if target.single is None or target.single.key not in _INFINITIES or not value.terms:
            continue
        opposite = function(*_INFINITIES[target.single.key])
        parts = _operands(MAXIMUM, value)
        if len(parts) == 2 and parts[0] is -parts[1] and target.single.key[1] == "inf":
            # a magnitude is infinite where the number is inf or -inf
            return comparison(EQUAL, dtype, parts[0], target) + comparison(
                EQUAL, dtype, parts[0], opposite
            )
        if value.terms[first_term(value)] < 0 and not value.is_special:
            return comparison(EQUAL, dtype, -value, opposite)
    return None


_INFINITIES: Final[dict[tuple[Hashable, ...], tuple[str, str]]] = {
    (SPECIAL, "inf"): (SPECIAL, "-inf"),
    (SPECIAL, "-inf"): (SPECIAL, "inf"),
}


def _equality_modulo(single: Factor, target: Number) -> Element | None:
    """Whether an integer input plus a number, wrapped to its type, is ``target``.

    Exactly one value of the input satisfies it, and is compared with the input. ``None`` for other
    elements, or a target out of range.
    """
    dtype, value = single.key[1], _argument(single)
    shift = value.terms.get(_UNIT, 0)
    base = value - number(shift)
    source = None if base.single is None else base.single.key
    is_input = source is not None and source[0] == "input" and source[2] == dtype
    if not is_input or not isinstance(dtype, int) or not isinstance(target, int):
        return None
    low, high = limits_of(dtype)
    if not isinstance(shift, int) or not low <= target <= high:
        return None
    solution = (target - shift - low) % (high - low + 1) + low
    return comparison(EQUAL, dtype, base, number(solution))


_UNIT: Final[Term] = ((), ())


def _comparison_of_indices(kind: str, first: Dim, second: Dim) -> Element:
    """A comparison of integers that are made of sizes and indices."""
    if kind == LESS:
        return within(second - first - 1)
    at_most = within(second - first)
    return at_most if kind == AT_MOST else at_most * within(first - second)


def _compared(key: tuple[Hashable, ...], args: list[Any]) -> Element:
    kind, dtype = key
    assert isinstance(kind, str)
    assert isinstance(dtype, int)
    return comparison(kind, dtype, *args)


def rounded(value: Element) -> Element:
    """A real number, rounded half to even; in a maximum or a minimum, each operand is rounded."""
    if is_integral(value):
        return value
    limits = _limited(value)
    if limits is not None:
        kind, operands = limits
        return extreme(kind, *map(rounded, operands))
    return odd(ROUND, value)


def _limited(value: Element) -> tuple[str, list[Element]] | None:
    """The kind and the scaled operands of a positive multiple of a maximum or a minimum."""
    if len(value.terms) != 1:
        return None
    (((sums, powers), scale),) = value.terms.items()
    if sums or len(powers) != 1 or powers[0][1] != 1 or scale < 0:
        return None
    base = powers[0][0]
    if base.key[0] not in EXTREMES:
        return None
    operands = [arg.scaled(scale) for arg in base.args if isinstance(arg, Element)]
    return str(base.key[0]), operands


def is_integral(value: Element) -> bool:
    """Whether an element is known to be an integer."""
    return all(
        isinstance(coefficient, int)
        and all(power > 0 and _is_integral_factor(base) for base, power in powers)
        for (_, powers), coefficient in value.terms.items()
    )


def _is_integral_factor(base: Factor) -> bool:
    kind = base.key[0]
    if kind in (SIZE, ROUND, FLOOR) or base.is_boolean:
        return True
    if kind == "input":
        return isinstance(base.key[2], int) and is_integer(base.key[2])
    if kind == CONSTANT:
        return isinstance(base.key[1], Stored) and base.key[1].is_integral
    return kind in EXTREMES and all(
        is_integral(arg) for arg in base.args if isinstance(arg, Element)
    )


def floor(value: Element) -> Element:
    """The greatest integer that is at most a real number."""
    return value if is_integral(value) else function(FLOOR, args=[value])


def odd(kind: str, value: Element) -> Element:
    """An odd function, ``f(-x) = -f(x)``, of an argument whose first coefficient is positive."""
    if not value.terms:
        return ZERO
    is_negative = value.terms[first_term(value)] < 0
    return -function(kind, args=[-value]) if is_negative else function(kind, args=[value])


LAWS[SIZE] = lambda _key, args: of_dim(args[0])
LAWS[WITHIN] = lambda _key, args: within(args[0])
LAWS[ROOT] = lambda _key, args: root(args[0])
LAWS[EXP] = lambda _key, args: exponential(args[0])
LAWS[LESS] = LAWS[AT_MOST] = LAWS[EQUAL] = _compared
LAWS[ROUND] = lambda _key, args: rounded(args[0])
LAWS[FLOOR] = lambda _key, args: floor(args[0])
LAWS[TANH] = lambda _key, args: odd(TANH, args[0])
LAWS[ERF] = lambda _key, args: odd(ERF, args[0])
LAWS[LOG] = lambda _key, args: logarithm(args[0])
LAWS[MAXIMUM] = lambda _key, args: extreme(MAXIMUM, *args)
LAWS[MINIMUM] = lambda _key, args: extreme(MINIMUM, *args)
