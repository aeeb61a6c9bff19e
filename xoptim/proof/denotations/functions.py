"""Functions of one real number, comparisons for equality, and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import bits, is_float, is_signed_integer
from xoptim.operators.activations import PARAMETERS
from xoptim.proof.calls import Call, denotes, settled, settled_tensor
from xoptim.proof.denotations.arithmetic import of_numbers, of_reals, quotient
from xoptim.proof.denotations.movement import number_of
from xoptim.proof.elements import ONE, ZERO, Element, function, inverse
from xoptim.proof.kinds import EQUAL, ERF, LESS, MAXIMUM, MINIMUM, SPECIAL, TANH
from xoptim.proof.laws import comparison, exponential, extreme, floor, logarithm, odd, rounded
from xoptim.proof.tensors import Tensor, elementwise, require_vector, stored_tensor

_HALF: Final = Fraction(1, 2)


@denotes("Abs")
def absolute(call: Call) -> Tensor | None:
    """The maximum of a number and its negation, which wraps around for the least integer."""
    dtype = call.dtype()
    if not is_float(dtype) and not is_signed_integer(dtype):
        return None

    def compute(a: Element) -> Element:
        value = settled(a, dtype)
        return extreme(MAXIMUM, value, settled(-value, dtype))

    return of_numbers(call, compute)


@denotes("Sign")
def sign(call: Call) -> Tensor | None:
    """1 for a positive number, -1 for a negative one, the number itself for 0."""
    dtype = call.dtype()

    def compute(a: Element) -> Element:
        above, below = comparison(LESS, dtype, ZERO, a), comparison(LESS, dtype, a, ZERO)
        return a + above * (ONE - a) - below * (ONE + a)

    return of_numbers(call, compute)


@denotes("Log")
def log(call: Call) -> Tensor | None:
    """The natural logarithm of a positive real number."""
    return of_reals(call, logarithm)


@denotes("Tanh")
def tanh(call: Call) -> Tensor | None:
    """The hyperbolic tangent."""
    return of_reals(call, lambda a: odd(TANH, a))


@denotes("Erf")
def erf(call: Call) -> Tensor | None:
    """The error function."""
    return of_reals(call, lambda a: odd(ERF, a))


@denotes("Ceil")
def ceil(call: Call) -> Tensor | None:
    """``-floor(-x)``."""
    return of_reals(call, lambda a: -floor(-a))


@denotes("Floor")
def floor_of(call: Call) -> Tensor | None:
    """The greatest integer that is at most a real number."""
    return of_reals(call, floor)


@denotes("Round")
def round_of(call: Call) -> Tensor | None:
    """The closest integer, with half to even."""
    return of_reals(call, rounded)


@denotes("IsNaN")
def is_nan(call: Call) -> Tensor:
    """1 for NaN, which is not equal to itself."""
    dtype = call.operand(0).dtype
    return call.operand(0).mapped(lambda a: ONE - comparison(EQUAL, dtype, a, a), TensorProto.BOOL)


@denotes("IsInf")
def is_infinite(call: Call) -> Tensor:
    """1 for an infinity of one of the signs that are asked for."""
    dtype = call.operand(0).dtype
    names = [
        name
        for name, attribute in (("inf", "detect_positive"), ("-inf", "detect_negative"))
        if call.attribute(attribute, 1)
    ]

    def compute(a: Element) -> Element:
        parts = [comparison(EQUAL, dtype, a, function(SPECIAL, name)) for name in names]
        return sum(parts[1:], parts[0]) if parts else ZERO

    return call.operand(0).mapped(compute, TensorProto.BOOL)


@denotes("Mod")
def modulo(call: Call) -> Tensor | None:
    """The remainder: with ``fmod``, it has the sign of the dividend, else that of the divisor."""
    dtype, is_like_dividend = call.dtype(), call.attribute("fmod", 0)
    if is_float(dtype) and not is_like_dividend:
        return None

    def of_integers(a: Element, b: Element) -> Element:
        result = a - b * quotient(dtype, a, b)
        if is_like_dividend:
            return result
        remainder = settled(result, dtype)
        is_divisor_negative = comparison(LESS, dtype, b, ZERO)
        has_wrong_sign = is_divisor_negative * comparison(LESS, dtype, ZERO, remainder)
        return result + b * (
            has_wrong_sign + (ONE - is_divisor_negative) * comparison(LESS, dtype, remainder, ZERO)
        )

    def of_real_numbers(a: Element, b: Element) -> Element:
        ratio = a * inverse(b)
        floored, ceiling = floor(ratio), -floor(-ratio)
        return a - b * (floored + comparison(LESS, dtype, ratio, ZERO) * (ceiling - floored))

    if is_float(dtype):
        return of_reals(call, of_real_numbers)
    return of_numbers(call, of_integers)


@denotes("BitShift")
def bit_shift(call: Call) -> Tensor | None:
    """The product with a power of 2, for a constant number of bits to the left; to the right, the
    quotient.
    """
    if call.attribute("direction") == "RIGHT":
        return _shifted_right(call)
    counts = call.ints(1)
    if counts is None or len(set(counts)) != 1 or call.attribute("direction") != "LEFT":
        return None
    count = counts[0]
    if not 0 <= count < bits(call.dtype()):
        return None
    pair = [call.operand(0), call.operand(1)]
    return elementwise(lambda a, _: a.scaled(1 << count), pair, call.shape(), call.dtype())


def _shifted_right(call: Call) -> Tensor | None:
    counts, dtype = call.array(1), call.dtype()
    if counts is None or not counts.size or int(counts.max()) >= bits(dtype):
        return None
    powers = stored_tensor(1 << counts.astype(np.uint64), dtype, keeps_zeros=False)
    operands = [settled_tensor(call.operand(0)), powers]
    return elementwise(lambda a, b: quotient(dtype, a, b), operands, call.shape(), dtype)


@denotes("Equal")
def equal(call: Call) -> Tensor | None:
    """1 where two operands are equal, else 0."""
    if call.opset < 7:
        return None
    operands = [call.operand(0), call.operand(1)]
    dtype = operands[0].dtype
    if dtype == TensorProto.STRING:
        return None

    def compute(a: Element, b: Element) -> Element:
        if dtype == TensorProto.BOOL:
            return ONE - a - b + (a * b).scaled(2)
        return comparison(EQUAL, dtype, settled(a, dtype), settled(b, dtype))

    return elementwise(compute, operands, call.shape(), call.dtype())


def sigmoid_of(value: Element) -> Element:
    """``1 / (1 + exp(-x))``."""
    return inverse(ONE + exponential(-value))


@denotes("Gelu", domain="com.microsoft")
def gelu(call: Call) -> Tensor | None:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    root = number_of(call, call.dtype(), 0.5**0.5) if is_float(call.dtype()) else ONE
    return of_reals(call, lambda a: _gelu(a, root))


@denotes("BiasGelu", domain="com.microsoft")
def bias_gelu(call: Call) -> Tensor | None:
    """The Gelu of a sum."""
    require_vector(call.operand(1), call.operand(0).shape[-1])
    root = number_of(call, call.dtype(), 0.5**0.5) if is_float(call.dtype()) else ONE
    return of_reals(call, lambda a, b: _gelu(a + b, root))


def _gelu(value: Element, root: Element) -> Element:
    return value.scaled(_HALF) * (ONE + odd(ERF, value * root))


@denotes("FastGelu", domain="com.microsoft")
def fast_gelu(call: Call) -> Tensor | None:
    """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`` of an operand plus a bias."""
    if not is_float(call.dtype()):
        return None
    if call.has(1):
        require_vector(call.operand(1), call.operand(0).shape[-1])
    first, third = (number_of(call, call.dtype(), c) for c in (0.7978845608, 0.044715))

    def compute(a: Element, *bias: Element) -> Element:
        x = sum(bias, a)
        inner = first * (x + third * x.power(3))
        return x.scaled(_HALF) * (ONE + odd(TANH, inner))

    return of_reals(call, compute)


@denotes("QuickGelu", domain="com.microsoft")
def quick_gelu(call: Call) -> Tensor | None:
    """``x * sigmoid(alpha * x)``."""
    if not is_float(call.dtype()):
        return None
    alpha = number_of(call, call.dtype(), call.attribute("alpha", 1.702))
    return of_reals(call, lambda a: a * sigmoid_of(alpha * a))


def activation_of(
    call: Call, name: str, parameters: Sequence[float]
) -> Callable[[Element], Element] | None:
    """A function by the name of an activation, with its parameters; ``None`` for others."""
    numbers = [number_of(call, call.dtype(), value) for value in parameters]
    first, second = (*numbers, ZERO, ZERO)[:2]
    table: dict[str, Callable[[Element], Element]] = {
        "": lambda a: a,
        "Relu": lambda a: extreme(MAXIMUM, a, ZERO),
        "Sigmoid": sigmoid_of,
        "Tanh": lambda a: odd(TANH, a),
        "LeakyRelu": lambda a: extreme(MAXIMUM, a, ZERO) + first * extreme(MINIMUM, a, ZERO),
        "Clip": lambda a: extreme(MINIMUM, extreme(MAXIMUM, a, first), second),
        "HardSigmoid": lambda a: extreme(MINIMUM, extreme(MAXIMUM, first * a + second, ZERO), ONE),
    }
    return table.get(name) if len(PARAMETERS.get(name, ())) == len(numbers) else None
