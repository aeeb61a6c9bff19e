"""Elementwise operators of one tensor: elementary functions, activations, casts."""

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim, dim_max, dim_min, is_nonnegative, is_nonzero
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.shapes import Info
from xoptim.operators.axes import unchanged_axes
from xoptim.operators.costs import CostKind, no_operations, one_per_element
from xoptim.operators.definitions import defines
from xoptim.operators.evaluate.kernel_table import is_number, kernel, required, without_nan
from xoptim.operators.inference.arguments import dtype_of, place_of
from xoptim.operators.inference.shared import like_first, like_first_operand
from xoptim.operators.inference.values import INTEGERS, pairwise, valued, values, wrapped
from xoptim.operators.protocols import Array, EvaluationNode, NodeContext, Results
from xoptim.operators.registry import (
    Trait,
    carries,
    costs,
    counts,
    describes,
    infers,
    kinks,
    register,
    takes,
)

_ELEMENTWISE: Final = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil"),
    *("Celu", "Clip", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid"),
    *("HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal"),
    *("Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus"),
    *("Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu"),
)
register(Trait.ELEMENTWISE, *_ELEMENTWISE)
register(Trait.SAME_SHAPE, *_ELEMENTWISE, "CastLike", "Dropout")
register(Trait.KEEPS_FINITE, "Abs", "Relu", "Sigmoid", "Tanh")
register(
    Trait.ROUNDS,
    *("Cos", "Elu", "Erf", "Exp", "Gelu", "Log", "Mish", "Reciprocal", "Selu", "Sigmoid", "Sin"),
    *("Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh"),
)
register(Trait.ROUNDS, "BiasGelu", "Gelu", "QuickGelu", domain="com.microsoft")
# The last elements of a tensor are computed without vector instructions. (Exp and Tanh are not
# listed: for them, that matters in float64 only.)
register(
    Trait.ROUNDS_BY_POSITION,
    *("Acos", "Asin", "Atan", "Celu", "Cos", "Elu", "Log", "Mish", "Selu", "Sin", "Softplus"),
)
register(Trait.BOUNDS, "Clip")
register(Trait.TAKES_EMPTY, "Clip")
register(
    Trait.UNEVEN,
    *("Abs", "Cast", "Celu", "Clip", "Elu", "HardSigmoid", "HardSwish", "Not", "Reciprocal"),
    *("Round", "Shrink", "Sign", "ThresholdedRelu"),
)
register(Trait.TIES, "Round")
kinks("Clip", "min", "max")
kinks("Exp", 80.0)  # beyond 88.7, the result is infinite in float32
register(
    Trait.KEEPS_FLOAT16,
    *("Abs", "Celu", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "IsNaN"),
    *("LeakyRelu", "Mish", "Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Swish"),
    *("Tanh", "ThresholdedRelu"),
)
register(Trait.KEEPS_FLOAT16, "BiasGelu", "FastGelu", "Gelu", "QuickGelu", domain="com.microsoft")
register(Trait.KEEPS_NUMBER, "Cast", "CastLike", "Ceil", "Clip", "Floor", "Relu", "Round")
takes({0: "mask"}, "Not")
takes({0: "positive"}, "Log", "Sqrt")
takes({0: "unit"}, "Acos", "Asin", "Atanh")
takes({1: "zero"}, "Dropout")
carries("Cast", "CastLike", "Clip", "Dropout")
register(Trait.NON_DETERMINISTIC, "Dropout")
register(
    Trait.NON_DETERMINISTIC,
    *("BiasDropout", "BitmaskDropout", "BitmaskBiasDropout"),
    domain="com.microsoft",
)
_LIGHT: Final = (
    *("Abs", "Cast", "Ceil", "Clip", "Floor", "LeakyRelu", "Neg", "Not", "Relu", "Sign"),
)
costs(CostKind.LIGHT, *_LIGHT)
costs(CostKind.HEAVY, *(name for name in _ELEMENTWISE if name not in _LIGHT))
counts(*(name for name in _ELEMENTWISE if name != "Cast"))(one_per_element)
counts("Cast")(no_operations)

defines("""
    Abs (x) => (y)
    {
        number = Constant <value_int = 0> ()
        zero = CastLike (number, x)
        negative = Sub (zero, x)
        y = Max (x, negative)
    }
""")
defines("""
    Ceil (x) => (y)
    {
        negative = Neg (x)
        floor = Floor (negative)
        y = Neg (floor)
    }
""")
defines("""
    Round (x) => (y)
    {
        one_half = Constant <value_float = 0.5> ()
        floor = Floor (x)
        rest = Sub (x, floor)
        half = Mul (floor, one_half)
        half_floor = Floor (half)
        is_odd = Greater (half, half_floor)
        is_half = Equal (rest, one_half)
        is_middle = And (is_half, is_odd)
        is_above = Greater (rest, one_half)
        is_up = Or (is_above, is_middle)
        step = CastLike (is_up, x)
        y = Add (floor, step)
    }
""")
defines("""
    Sign (x) => (y)
    {
        zero = Constant <value_int = 0> ()
        one = Constant <value_int = 1> ()
        minus_one = Constant <value_int = -1> ()
        zero_of_x = CastLike (zero, x)
        one_of_x = CastLike (one, x)
        minus_one_of_x = CastLike (minus_one, x)
        is_negative = Less (x, zero_of_x)
        negative = Where (is_negative, minus_one_of_x, x)
        is_positive = Greater (x, zero_of_x)
        y = Where (is_positive, one_of_x, negative)
    }
""")
defines("""
    Cosh (x) => (y)
    {
        half = Constant <value_float = 0.5> ()
        negative = Neg (x)
        power = Exp (x)
        inverse = Exp (negative)
        sum = Add (power, inverse)
        y = Mul (sum, half)
    }
""")
defines("""
    Sinh (x) => (y)
    {
        half = Constant <value_float = 0.5> ()
        negative = Neg (x)
        power = Exp (x)
        inverse = Exp (negative)
        difference = Sub (power, inverse)
        y = Mul (difference, half)
    }
""")
defines("""
    Tan (x) => (y)
    {
        sine = Sin (x)
        cosine = Cos (x)
        y = Div (sine, cosine)
    }
""")


def _itself(value: Dim) -> Dim:
    return value


def _sign(value: Dim) -> Dim | None:
    if type(value) is int:
        return (value > 0) - (value < 0)
    return 1 if is_nonnegative(value - 1) else -1 if is_nonnegative(-value - 1) else None


_RULES: Final[dict[str, Callable[[Dim], Dim | None]]] = {
    "Abs": lambda value: (
        value if is_nonnegative(value) else -value if is_nonnegative(-value) else None
    ),
    "Ceil": _itself,
    "Floor": _itself,
    "Neg": lambda value: -value,
    "Relu": lambda value: dim_max(value, 0),
    "Round": _itself,
    "Sign": _sign,
}
_OWN_FORMULAS: Final = ("Cast", "Clip", "IsInf", "IsNaN", "Not")
"""Elementwise operators with a formula of their own: more facts are known about their results, or
these have another type.
"""


@infers(*(name for name in _ELEMENTWISE if name not in _OWN_FORMULAS))
def unary(ctx: NodeContext) -> Results:
    """Type and shape of the first input, and values that a rule gives."""
    inputs = ctx.inputs
    x = inputs[0] if inputs else None
    if x is None or x.data is None:
        return (x,)
    rule = _RULES.get(ctx.op_type)
    if rule is None:
        return (Info(x.dtype, x.shape),)
    # The opposite of zero is a negative zero in floating point.
    if ctx.op_type == "Neg" and x.dtype not in INTEGERS and 0 in x.data:
        return (Info(x.dtype, x.shape),)
    return (valued(x.dtype, x.shape, [wrapped(x.dtype, rule(value)) for value in x.data]),)


@infers("IsInf", "IsNaN", "Not")
def predicate(ctx: NodeContext) -> Results:
    """One truth value per element."""
    x = ctx.input(0)
    if x is None or x.container:
        return (Info(TensorProto.BOOL),)
    if x.data is not None and ctx.op_type == "Not":
        return (valued(TensorProto.BOOL, x.shape, [1 - value for value in x.data]),)
    return (
        x if x.dtype == TensorProto.BOOL and x.data is None else Info(TensorProto.BOOL, x.shape),
    )


@infers("Dropout")
def dropout(ctx: NodeContext) -> Results:
    """The data and a mask, which is of type BOOL since operator set 10 and of the type of the data
    before.
    """
    x = ctx.input(0)
    if x is None:
        return ()
    result = x if x.data is None else Info(x.dtype, x.shape)
    return (result, Info(TensorProto.BOOL if ctx.opset >= 10 else x.dtype, x.shape))


@infers("Cast")
def cast(ctx: NodeContext) -> Results:
    """The attribute is the number of an element type; before operator set 6 it is its name."""
    to = ctx.attribute("to", 0)
    if isinstance(to, str):
        names = TensorProto.DataType.keys()
        to = TensorProto.DataType.Value(to) if to in names else 0
    return (_converted(ctx, to if type(to) is int else 0),)


@infers("CastLike")
def cast_like(ctx: NodeContext) -> Results:
    """The type of the second input."""
    return (_converted(ctx, dtype_of(ctx.input(1))),)


def _converted(ctx: NodeContext, dtype: int) -> Info:
    x = ctx.input(0)
    if x is None or x.container:
        return Info(dtype)
    if x.data is None:
        return x if dtype == x.dtype else Info(dtype, x.shape)
    data = values(ctx, 0)
    if data is not None and dtype == TensorProto.BOOL:
        truth = [
            int(value != 0) if type(value) is int else 1 if is_nonzero(value) else None
            for value in data
        ]
        return valued(dtype, x.shape, truth)
    return valued(
        dtype, x.shape, None if data is None else [wrapped(dtype, value) for value in data]
    )


@infers("Clip")
def clip(ctx: NodeContext) -> Results:
    """Limits are scalars; known values are clipped where the limits are operands."""
    x = ctx.input(0)
    if x is None or x.data is None:
        return (x,)
    data: list[Dim | None] | None = list(x.data)
    for name, rule in (("min", dim_max), ("max", dim_min)):
        place = place_of(ctx, name)
        if place is None:
            data = None
        elif ctx.input(place) is not None:
            data = (
                None
                if data is None
                else pairwise(rule, tuple(v for v in data if v is not None), values(ctx, place))
            )
    return (valued(x.dtype, x.shape, data),)


infers("SwiGLU")(like_first_operand)
infers("Gelu", "QuickGelu", "SampleOp", "ScaledSiLU", domain="com.microsoft")(like_first)


describes(*_ELEMENTWISE, "CastLike")(unchanged_axes)


def _unary(op_type: str, ufunc: np.ufunc, kinds: str) -> None:
    @kernel(op_type)
    def compute(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
        x = required(inputs, 0)
        is_supported = x.dtype.kind in kinds and (x.dtype == np.bool_ or is_number(x))
        return without_nan(np.asarray(ufunc(x))) if is_supported else None


_unary("Neg", np.negative, "if")
_unary("Abs", np.abs, "iuf")
_unary("Sqrt", np.sqrt, "f")
_unary("Floor", np.floor, "f")
_unary("Ceil", np.ceil, "f")
_unary("Sign", np.sign, "iu")
_unary("Not", np.logical_not, "b")


@kernel("Cast", "CastLike")
def cast_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The elements in another type, where the standard defines the result.

    Refused: NaN, floats out of the range of the integer type, double to half (onnxruntime rounds
    twice), text, and types that numpy does not support, except bfloat16.
    """
    x = required(inputs, 0)
    target = (
        required(inputs, 1).dtype
        if node.op_type == "CastLike"
        else numpy_dtype(node.attribute("to"))
    )
    if not all(
        dtype == _BFLOAT16 or (dtype.isbuiltin == 1 and dtype.kind in "iufb")
        for dtype in (x.dtype, target)
    ):
        return None
    if x.dtype == target:
        return [x]
    return _cast_integer(x, target) if x.dtype.kind in "iub" else _cast_float(x, target)


_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_EXACT_IN_HALF = {np.dtype(np.float16): 1 << 11, _BFLOAT16: 1 << 8}


def _cast_integer(x: Array, target: np.dtype[Any]) -> list[Array] | None:
    # Beyond these numbers the cast would round, perhaps twice by way of another type.
    exact = _EXACT_IN_HALF.get(target)
    if (
        exact is not None
        and x.dtype.kind != "b"
        and x.size
        and (x.min() < -exact or x.max() > exact)
    ):
        return None
    return [x.astype(target)]


def _cast_float(x: Array, target: np.dtype[Any]) -> list[Array] | None:
    if x.dtype != np.float64 and x.dtype != np.float32:
        x = x.astype(np.float32)
    if bool(np.isnan(x).any()):
        return None
    if target in _EXACT_IN_HALF:
        return [x.astype(target)] if x.dtype == np.float32 else None
    if target.kind in "fb":
        return [x.astype(target)]
    integers, limits = np.trunc(x), np.iinfo(target)
    # both bounds are powers of two (or zero), hence exact as floats
    if bool(((integers < float(limits.min)) | (integers >= float(limits.max + 1))).any()):
        return None
    return [x.astype(target)]
