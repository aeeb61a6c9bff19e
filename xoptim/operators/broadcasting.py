"""Elementwise operators of several operands with multidirectional broadcasting."""

from collections.abc import Callable
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import (
    Dim,
    bounds,
    dim_max,
    dim_min,
    exact_quotient,
    floor_div,
    is_nonnegative,
    mod,
    opaque,
)
from xoptim.facts.shapes import Info, Shape, broadcast_all, broadcast_shapes
from xoptim.operators.axes import Axes, AxesView, AxisOperand, Shapes, label_range
from xoptim.operators.costs import CostKind, one_per_element
from xoptim.operators.evaluate.kernel_table import (
    divisor_is_safe,
    is_number,
    kernel,
    required,
    without_nan,
)
from xoptim.operators.inference.arguments import integer, shapes
from xoptim.operators.inference.shared import broadcast_operands, like_first
from xoptim.operators.inference.values import (
    INTEGERS,
    Values,
    is_exact_in_double,
    pairwise,
    valued,
    values,
    wrapped,
)
from xoptim.operators.protocols import Array, EvaluationNode, NodeContext, NodeView, Results
from xoptim.operators.registry import (
    Trait,
    carries,
    costs,
    counts,
    describes,
    infers,
    register,
    steers,
    takes,
)

_BROADCASTING: Final = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where"),
    *("And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
)
register(Trait.BROADCASTS, *_BROADCASTING)
register(Trait.BROADCASTS_SECOND, "PRelu")
register(Trait.COMPARES, "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
register(Trait.ROUNDS, "Add", "Div", "Mul", "Pow", "Sub", "Sum")
register(Trait.BOUNDS, "Add", "Max", "Min", "Mod", "Sub", "Where")
register(Trait.UNEVEN, "Div", "Max", "Min", "Mod", "Where")
register(Trait.TIES, "Equal", "GreaterOrEqual", "LessOrEqual")
register(
    Trait.KEEPS_FLOAT16, "Add", "Div", "Max", "Mean", "Min", "Mul", "PRelu", "Sub", "Sum", "Where"
)
register(Trait.KEEPS_NUMBER, "Max", "Min")
takes({0: "positive"}, "Pow")
takes({1: "positive"}, "Div", "Mod")
takes({1: "one"}, "BitShift")
carries("Where", operands=(1, 2))
steers(1, "BitShift", "Div", "Mod")
register(Trait.COMMUTATIVE, "Add", "Mul", "And", "Or", "Xor", "Equal", "Max", "Min", "Sum", "Mean")
register(Trait.COMMUTATIVE, "BitwiseAnd", "BitwiseOr", "BitwiseXor")
register(Trait.ASSOCIATIVE, "Add", "Mul", "And", "Or", "Xor", "Max", "Min", "Sum")
register(Trait.ASSOCIATIVE, "BitwiseAnd", "BitwiseOr", "BitwiseXor")
register(Trait.VARIADIC, "Max", "Mean", "Min", "Sum")
register(Trait.KEEPS_FINITE, "Max", "Min", "Where")
_LIGHT: Final = (
    *("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "Where", "And", "Or", "Xor"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
)
costs(CostKind.LIGHT, *_LIGHT)
costs(CostKind.HEAVY, *(name for name in _BROADCASTING if name not in _LIGHT), "PRelu")
counts(*_BROADCASTING, "PRelu")(one_per_element)


def elementwise(dtype: int, shape: Shape | None, a: Info, b: Info) -> Info:
    """Facts about a result; the same object as the facts about an operand, if they are equal."""
    if shape is a.shape and dtype == a.dtype and a.data is None:
        return a
    if shape is b.shape and dtype == b.dtype and b.data is None:
        return b
    return Info(dtype, shape)


@infers("Where")
def where(ctx: NodeContext) -> Results:
    """Condition, X and Y broadcast together.

    Values are known where the condition is known or does not matter.
    """
    condition, x, y = ctx.input(0), ctx.input(1), ctx.input(2)
    if condition is None or x is None or y is None:
        return ()
    dtype = x.dtype or y.dtype
    shape = broadcast_all((x.shape, y.shape, condition.shape))
    if condition.data is None and x.data is None and y.data is None:
        return (elementwise(dtype, shape, x, y),)
    size = shape[0] if shape else 1
    if shape is None or len(shape) > 1 or type(size) is not int:
        return (elementwise(dtype, shape, x, y),)
    return (valued(dtype, shape, _choose(size, values(ctx, 0), values(ctx, 1), values(ctx, 2))),)


def _choose(
    size: int, condition: Values | None, x: Values | None, y: Values | None
) -> list[Dim | None]:
    elements: list[Dim | None] = []
    for index in range(size):
        test, yes, no = (_element(operand, index) for operand in (condition, x, y))
        elements.append(yes if test == 1 or yes == no else no if test == 0 else None)
    return elements


def _element(operand: Values | None, index: int) -> Dim | None:
    if not operand:
        return None
    return operand[0] if len(operand) == 1 else operand[index] if index < len(operand) else None


EXTREMES: Final[dict[str, Callable[[Dim, Dim], Dim]]] = {
    "Max": lambda a, b: dim_max(a, b),
    "Min": lambda a, b: dim_min(a, b),
}
"""The larger and the smaller of two values."""


@infers("Max", "Min", "Sum", "Mean")
def variadic(ctx: NodeContext) -> Results:
    """Operands broadcast since operator set 8; before, they all have one shape."""
    operands = [info for info in ctx.inputs if info is not None and not info.container]
    if not operands or len(operands) != len(ctx.inputs):
        return ()
    first, last = operands[0], operands[-1]
    dtype = next((info.dtype for info in operands if info.dtype), 0)
    shape: Shape | None
    if ctx.opset >= 8:
        shape = broadcast_all(info.shape for info in operands)
    else:
        shape = next((info.shape for info in operands if info.shape is not None), None)
    if all(info.data is None for info in operands):
        return (elementwise(dtype, shape, first, last),)
    # A partial sum of floating-point numbers may be inexact although the total is small; there is
    # no Sum of integers.
    return (valued(dtype, shape, _fold(ctx, EXTREMES.get(ctx.op_type), len(operands))),)


def _fold(ctx: NodeContext, rule: Callable[[Dim, Dim], Dim] | None, count: int) -> Values | None:
    if rule is None:
        return None
    result = values(ctx, 0)
    for index in range(1, count):
        data = pairwise(rule, result, values(ctx, index))
        result = None if data is None else tuple(value for value in data if value is not None)
    return result


Rule = Callable[[Dim, Dim], "Dim | None"]


def _integer_quotient(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` rounded toward zero, a symbol for it where signs are unknown.

    A run in which the divisor is 0 has no result, so the divisor is assumed not to be 0.
    """
    if b == 0:
        return None
    if type(a) is int and type(b) is int:
        return a // b if (a < 0) == (b < 0) else -(-a // b)
    quotient = exact_quotient(a, b)
    if quotient is not None:
        return quotient
    return floor_div(a, b) if is_nonnegative(a) and is_nonnegative(b) else opaque("/", (a, b))


def _float_quotient(a: Dim, b: Dim) -> Dim | None:
    if type(a) is not int or type(b) is not int or b == 0 or a % b:
        return None
    return a // b if a or b > 0 else None  # zero divided by a negative number is a negative zero


def _float_product(a: Dim, b: Dim) -> Dim | None:
    if type(a) is not int or type(b) is not int:
        return None
    # Zero times a negative number is a negative zero.
    return a * b if (a and b) or (a >= 0 and b >= 0) else None


def _c_modulo(a: Dim, b: Dim) -> Dim | None:
    """The remainder with the sign of ``a``, which onnxruntime computes in double precision."""
    if b == 0 or not is_exact_in_double(a) or not is_exact_in_double(b):
        return None
    return mod(a, b) if is_nonnegative(a) and is_nonnegative(b) else None


def _equal(a: Dim, b: Dim) -> Dim | None:
    low, high = bounds(a - b)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return 0
    return 1 if low == high == 0 else None


def _at_least(a: Dim, b: Dim) -> Dim | None:
    low, high = bounds(a - b)
    return 1 if low is not None and low >= 0 else 0 if high is not None and high < 0 else None


def _above(a: Dim, b: Dim) -> Dim | None:
    low, high = bounds(a - b)
    return 1 if low is not None and low > 0 else 0 if high is not None and high <= 0 else None


_INTEGER_RULES: Final[dict[str, Rule]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _integer_quotient,
    "Mod": lambda a, b: None if b == 0 else mod(a, b),
}
WRAPPING: Final = ("Add", "Sub", "Mul")
"""Operators whose results may be out of the range of the type, unlike quotients and remainders."""
_FLOAT_RULES: Final[dict[str, Rule]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": _float_product,
    "Div": _float_quotient,
}
# Booleans are 0 and 1, so the logical operators are polynomials, also of symbols.
_TRUTH_RULES: Final[dict[str, Rule]] = {
    "Equal": _equal,
    "Greater": _above,
    "GreaterOrEqual": _at_least,
    "Less": lambda a, b: _above(b, a),
    "LessOrEqual": lambda a, b: _at_least(b, a),
    "And": lambda a, b: a * b,
    "Or": lambda a, b: a + b - a * b,
    "Xor": lambda a, b: a + b - 2 * a * b,
}


SIZE_OPERATORS: Final = (*_INTEGER_RULES, *EXTREMES)
"""Operators that `size_result` evaluates."""


def size_result(op_type: str, a: Dim, b: Dim) -> Dim | None:
    """The result of an operator on two 64-bit integers, ``None`` when unknown; Mod rounds down."""
    rule = _INTEGER_RULES.get(op_type, EXTREMES.get(op_type))
    value = None if rule is None else rule(a, b)
    return wrapped(TensorProto.INT64, value) if op_type in WRAPPING else value


def _shape(ctx: NodeContext, a: Info, b: Info) -> Shape | None:
    # Before operator set 7 the second operand was broadcast to the first one, at an axis that an
    # attribute gave.
    return broadcast_shapes(a.shape, b.shape) if ctx.opset >= 7 else a.shape


@infers(
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"
)
def arithmetic(ctx: NodeContext) -> Results:
    """Operands and result have one type.

    The exponent of Pow may have another type since operator set 12.
    """
    a, b = ctx.input(0), ctx.input(1)
    if a is None or b is None or a.container or b.container:
        return ()
    dtype = a.dtype or (0 if ctx.op_type == "Pow" and ctx.opset >= 12 else b.dtype)
    shape = _shape(ctx, a, b)
    if a.data is None and b.data is None:
        return (elementwise(dtype, shape, a, b),)
    rule = _INTEGER_RULES.get(ctx.op_type) if dtype in INTEGERS else _FLOAT_RULES.get(ctx.op_type)
    if ctx.op_type == "Mod" and integer(ctx, "fmod", 0) != 0:
        rule = _c_modulo if dtype in INTEGERS else None
    if rule is None:
        return (Info(dtype, shape),)
    return (
        _valued(ctx, dtype, shape, _wrapping(rule, dtype) if ctx.op_type in WRAPPING else rule),
    )


def _wrapping(rule: Rule, dtype: int) -> Rule:
    """A rule whose result is wrapped to the range of an element type.

    A result that is one of the operands, as in a product with 1, is in range.
    """

    def apply(a: Dim, b: Dim) -> Dim | None:
        value = rule(a, b)
        return value if value is a or value is b else wrapped(dtype, value)

    return apply


@infers("And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def comparison(ctx: NodeContext) -> Results:
    """One truth value per element."""
    a, b = ctx.input(0), ctx.input(1)
    if a is None or b is None or a.container or b.container:
        return (Info(TensorProto.BOOL),)
    shape = _shape(ctx, a, b)
    if a.data is None and b.data is None:
        return (elementwise(TensorProto.BOOL, shape, a, b),)
    return (_valued(ctx, TensorProto.BOOL, shape, _TRUTH_RULES[ctx.op_type]),)


def _valued(ctx: NodeContext, dtype: int, shape: Shape | None, rule: Rule) -> Info:
    return valued(dtype, shape, pairwise(rule, values(ctx, 0), values(ctx, 1)))


@shapes("PRelu", operands=(0, 1))
def prelu(ctx: NodeContext, x: Shape | None, slope: Shape | None) -> Shape | None:
    """The standard broadcasts the slope to the first operand; onnxruntime broadcasts both ways.

    Before operator set 7, there is one slope for each channel, or one for all.
    """
    if ctx.opset >= 7:
        return broadcast_shapes(x, slope)
    if x is None or len(x) < 2 or slope is None or len(slope) != 1:
        return x
    is_for_channels = isinstance(slope[0], int) and slope[0] > 1
    return (x[0], slope[0], *x[2:]) if is_for_channels and not isinstance(x[1], int) else x


# pairs of numbers on the last axis
shapes("ComplexMul", "ComplexMulConj", operands=(0, 1), domain="com.microsoft")(broadcast_operands)
shapes("MulInteger", dtype=TensorProto.INT32, operands=(0, 2), domain="com.microsoft")(
    broadcast_operands
)
infers("BiasAdd", "BiasGelu", "FastGelu", "GatedAdd", domain="com.microsoft")(like_first)


@describes(*_BROADCASTING, "PRelu")
def broadcast_axes(_g: AxesView, _node: NodeView, shapes: Shapes) -> Axes:
    """The axes of each operand are the last ones of the result."""
    rank = max(map(len, shapes))
    return Axes(
        tuple(AxisOperand(label_range(len(shape), rank), broadcasts=True) for shape in shapes),
        (label_range(rank),),
    )


def _operands(node: EvaluationNode, inputs: list[Array | None]) -> tuple[Array, Array] | None:
    """Both operands, if they have one dtype and shapes that numpy broadcasts in the same way."""
    a, b = required(inputs, 0), required(inputs, 1)
    broadcasts = bool(node.domain) or node.opset >= 7
    if a.dtype != b.dtype or (a.shape != b.shape and not broadcasts):
        return None
    return a, b


def _binary(op_type: str, ufunc: np.ufunc, *, numbers: bool = True, truths: bool = False) -> None:
    @kernel(op_type)
    def compute(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
        pair = _operands(node, inputs)
        if pair is None or not (
            (numbers and is_number(*pair)) or (truths and pair[0].dtype == np.bool_)
        ):
            return None
        return without_nan(np.asarray(ufunc(*pair)))


_binary("Add", np.add)
_binary("Sub", np.subtract)
_binary("Mul", np.multiply)
_binary("Equal", np.equal, truths=True)
_binary("Greater", np.greater)
_binary("GreaterOrEqual", np.greater_equal)
_binary("Less", np.less)
_binary("LessOrEqual", np.less_equal)
_binary("And", np.logical_and, numbers=False, truths=True)
_binary("Or", np.logical_or, numbers=False, truths=True)
_binary("Xor", np.logical_xor, numbers=False, truths=True)


@kernel("Div")
def div_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Quotient: rounded towards zero for integers, to nearest for floats."""
    pair = _operands(node, inputs)
    if pair is None or not is_number(*pair):
        return None
    a, b = pair
    if a.dtype.kind == "f":
        return without_nan(np.asarray(a / b))
    if not divisor_is_safe(b, a):
        return None
    quotient = np.floor_divide(a, b)
    # floor_divide rounds down: one more where the exact quotient is negative and not whole
    return [np.asarray(quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(a.dtype))]


@kernel("Where")
def where_kernel(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Elements of the second input where the first holds, of the third elsewhere."""
    condition, x, y = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    if condition.dtype != np.bool_ or x.dtype != y.dtype:
        return None
    result = np.where(condition, x, y)
    # onnxruntime returns 0 in place of some negative zeros
    if x.dtype.kind == "f" and bool((np.signbit(result) & (result == 0)).any()):
        return None
    return [result]
