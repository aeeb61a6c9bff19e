"""Elementwise arithmetic, conversions, and choices between elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from onnx import TensorProto

from xoptim.facts.dtypes import is_float
from xoptim.proof.calls import Call, denotes, is_arithmetic, pointwise_function, settled
from xoptim.proof.denotations.movement import number_of
from xoptim.proof.elements import ONE, ZERO, Element, Factor, function, inverse, of_dim
from xoptim.proof.indices import CaseFacts, Unproved
from xoptim.proof.kinds import AT_MOST, LESS, MASKED, MAXIMUM, MINIMUM, QUOTIENT, SPECIAL, WITHIN
from xoptim.proof.laws import comparison, exponential, extreme, power_of, root
from xoptim.proof.rewriting import rewritten
from xoptim.proof.tensors import Tensor, elementwise

_BROADCASTS_SINCE: Final = 7


def _pointwise(
    call: Call, compute: Callable[..., Element], *, takes_special: bool = False
) -> Tensor | None:
    """A function of an element of each operand, ``None`` unless these are integers or real numbers.

    It is uninterpreted for elements that may be NaN or infinite, unless ``takes_special``.
    """
    operands = [call.operand(place) for place in range(len(call.operands))]
    if not is_arithmetic(call) or (call.opset < _BROADCASTS_SINCE and not call.node.domain):
        return None
    if any(x.dtype != call.dtype() for x in operands):
        return None
    opaque_function = pointwise_function(call)

    def checked(*elements: Element) -> Element:
        if not takes_special and any(element.is_special for element in elements):
            return opaque_function(*elements)
        return compute(*elements)

    return elementwise(checked, operands, call.shape(), call.dtype())


def of_reals(call: Call, compute: Callable[..., Element]) -> Tensor | None:
    """A function of an element of each operand, ``None`` where these are not real numbers."""
    return _pointwise(call, compute) if is_float(call.dtype()) else None


@denotes("Add", "Sum")
def add(call: Call) -> Tensor | None:
    """The sum."""
    opaque_function = pointwise_function(call)

    def compute(*elements: Element) -> Element:
        if not any(element.is_special for element in elements):
            return _sum(*elements)
        total = _masked_sum(elements)
        return opaque_function(*elements) if total is None else total

    return _pointwise(call, compute, takes_special=True)


def _masked_sum(elements: Sequence[Element]) -> Element | None:
    """The sum of real numbers and one masked number, ``None`` for other elements."""
    special = [element for element in elements if element.is_special]
    single = special[0].single
    if len(special) > 1 or single is None or single.key[0] != MASKED:
        return None
    condition, value = single.args
    assert isinstance(value, Element)
    total = sum((element for element in elements if element is not special[0]), value)
    return None if value.is_special else function(MASKED, args=[condition, total])


def _sum(*elements: Element) -> Element:
    return sum(elements[1:], elements[0])


@denotes("Mean")
def mean(call: Call) -> Tensor | None:
    """The sum, divided by the number of operands."""
    share = Fraction(1, len(call.operands))
    return of_reals(call, lambda *elements: _sum(*elements).scaled(share))


@denotes("Sub")
def subtract(call: Call) -> Tensor | None:
    """The difference."""
    return _pointwise(call, lambda a, b: a - b)


@denotes("Mul")
def multiply(call: Call) -> Tensor | None:
    """The product."""
    return _pointwise(call, lambda a, b: a * b)


@denotes("Div")
def divide(call: Call) -> Tensor | None:
    """The quotient of real numbers, or of integers, where it is rounded toward zero."""
    dtype = call.dtype()
    if is_float(dtype):
        return of_reals(call, lambda a, b: a * inverse(b))
    return of_numbers(call, lambda a, b: quotient(dtype, a, b))


def quotient(dtype: int, dividend: Element, divisor: Element) -> Element:
    """The quotient of integers in the range of their type, rounded toward zero."""
    return dividend if divisor is ONE else function(QUOTIENT, dtype, args=[dividend, divisor])


@denotes("Neg")
def negate(call: Call) -> Tensor | None:
    """The negation."""
    return _pointwise(call, lambda a: -a)


@denotes("Reciprocal")
def reciprocal(call: Call) -> Tensor | None:
    """The inverse of a real number."""
    return of_reals(call, inverse)


@denotes("Sqrt")
def square_root(call: Call) -> Tensor | None:
    """The square root of a real number that is at least 0."""
    return of_reals(call, root)


@denotes("Exp")
def exp(call: Call) -> Tensor | None:
    """The exponential of a real number."""
    return of_reals(call, exponential)


@denotes("Sigmoid")
def sigmoid(call: Call) -> Tensor | None:
    """``1 / (1 + exp(-x))`` of a real number."""
    return of_reals(call, lambda a: inverse(ONE + exponential(-a)))


@denotes("Pow")
def power(call: Call) -> Tensor | None:
    """Powers by a small integer, or by a multiple of 1/4 from -1 to 1; others are uninterpreted."""
    x, exponents = call.operand(0), call.operand(1)
    if not is_float(call.dtype()) or call.case.is_exact or call.opset < _BROADCASTS_SINCE:
        return None
    opaque_function = pointwise_function(call)

    def compute(base: Element, exponent: Element) -> Element:
        result = None if base.is_special else power_of(base, exponent)
        return opaque_function(base, exponent) if result is None else result

    return elementwise(compute, [x, exponents], call.shape(), call.dtype())


@denotes("Relu")
def relu(call: Call) -> Tensor | None:
    """The maximum of a number and 0."""
    return of_numbers(call, lambda a: _maximum(a, ZERO))


@denotes("Max")
def maximum(call: Call) -> Tensor | None:
    """The maximum of real numbers, or of integers."""
    return of_numbers(call, _maximum)


@denotes("Min")
def minimum(call: Call) -> Tensor | None:
    """The minimum of real numbers, or of integers."""
    return of_numbers(call, _minimum)


def of_numbers(call: Call, compute: Callable[..., Element]) -> Tensor | None:
    """A function of real numbers, or of integers wrapped into the range of their type."""
    dtype = call.dtype()
    return _pointwise(call, lambda *elements: compute(*(settled(e, dtype) for e in elements)))


def _maximum(*elements: Element) -> Element:
    return extreme(MAXIMUM, *elements)


def _minimum(*elements: Element) -> Element:
    return extreme(MINIMUM, *elements)


@denotes("Clip")
def clip(call: Call) -> Tensor | None:
    """``min(high, max(low, x))``; an omitted limit does not apply."""
    x = call.operand(0)
    if not is_arithmetic(call):
        return None
    limits: list[Element | None] = []
    for place, name in ((1, "min"), (2, "max")):
        attribute = call.node.attribute.get(name)
        if attribute is not None:
            limits.append(number_of(call, x.dtype, attribute))
        elif call.has(place):
            limit = call.operand(place)
            limits.append(settled(limit.at([0] * limit.rank), x.dtype))
        else:
            limits.append(None)
    low, high = limits

    def compute(element: Element) -> Element:
        value = settled(element, x.dtype)
        value = value if low is None else _maximum(value, low)
        return value if high is None else _minimum(value, high)

    return x.mapped(compute)


@denotes("Where")
def where(call: Call) -> Tensor | None:
    """``then`` where the condition is 1, else ``otherwise``.

    For numbers and Booleans, this is a sum of products with the condition.
    """
    opaque_function = pointwise_function(call)
    is_real = is_float(call.dtype()) and not call.case.is_exact
    has_laws = is_arithmetic(call) or call.dtype() == TensorProto.BOOL

    def compute(condition: Element, then: Element, otherwise: Element) -> Element:
        if then is otherwise:
            return then
        if is_real and _is_lowest(otherwise) and not then.is_special:
            return function(MASKED, args=[condition, then])
        if is_real and _is_lowest(then) and not otherwise.is_special:
            return function(MASKED, args=[ONE - condition, otherwise])
        if not has_laws or then.is_special or otherwise.is_special:
            return opaque_function(condition, then, otherwise)
        return otherwise + condition * (then - otherwise)

    operands = [call.operand(place) for place in range(3)]
    if [x.dtype for x in operands] != [TensorProto.BOOL, call.dtype(), call.dtype()]:
        raise Unproved("a Where of several types")
    return elementwise(compute, operands, call.shape(), call.dtype())


def _is_lowest(value: Element) -> bool:
    return value.single is not None and value.single.key == (SPECIAL, "-inf")


@denotes("And", "Or", "Xor", "Not")
def logic(call: Call) -> Tensor | None:
    """Truth values as the numbers 0 and 1."""
    if call.opset < _BROADCASTS_SINCE:
        return None
    compute = _LOGIC[call.node.op_type]
    operands = [call.operand(place) for place in range(len(call.operands))]
    return elementwise(compute, operands, call.shape(), TensorProto.BOOL)


_LOGIC: Final[dict[str, Callable[..., Element]]] = {
    "And": lambda a, b: a * b,
    "Or": lambda a, b: a + b - a * b,
    "Xor": lambda a, b: a + b - (a * b).scaled(2),
    "Not": lambda a: ONE - a,
}


def decided(case: CaseFacts, value: Element) -> Element:
    """An element with 1 or 0 in place of conditions on indices that a case decides."""

    def change(base: Factor) -> Element | None:
        answer = None
        if base.key[0] == WITHIN and not isinstance(base.args[0], Element):
            answer = case.is_at_least_zero(base.args[0])
        return None if answer is None else of_dim(int(answer))

    return rewritten(value, change)


@denotes("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def compare(call: Call) -> Tensor | None:
    """A comparison, written with the smaller number first."""
    if call.opset < _BROADCASTS_SINCE:
        return None
    operands = [call.operand(0), call.operand(1)]
    dtype = operands[0].dtype
    name = call.node.op_type
    kind = AT_MOST if name.endswith("OrEqual") else LESS

    def compute(a: Element, b: Element) -> Element:
        pair = [settled(a, dtype), settled(b, dtype)]
        result = comparison(kind, dtype, *(pair[::-1] if name.startswith("Greater") else pair))
        return decided(call.case, result)

    return elementwise(compute, operands, call.shape(), call.dtype())
