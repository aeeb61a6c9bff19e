"""Numpy kernels of exact arithmetic: integers, and the operations that IEEE 754 defines to the last bit."""

from typing import Any

import ml_dtypes
import numpy as np

from xoptim.evaluate.kernel_table import Array, EvaluationNode, is_number, kernel, required, without_nan
from xoptim.facts.dtypes import numpy_dtype


def _operands(node: EvaluationNode, inputs: list[Array | None]) -> tuple[Array, Array] | None:
    """Both operands, when they have one dtype and shapes that the operator set combines as numpy does."""
    a, b = required(inputs, 0), required(inputs, 1)
    if a.dtype != b.dtype or (node.opset < 7 and a.shape != b.shape):
        return None
    return a, b


def _binary(op_type: str, ufunc: np.ufunc, *, numbers: bool = True, truths: bool = False) -> None:
    @kernel(op_type)
    def compute(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
        pair = _operands(node, inputs)
        if pair is None or not ((numbers and is_number(*pair)) or (truths and pair[0].dtype == np.bool_)):
            return None
        return without_nan(np.asarray(ufunc(*pair)))


def _unary(op_type: str, ufunc: np.ufunc, kinds: str) -> None:
    @kernel(op_type)
    def compute(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
        x = required(inputs, 0)
        known = x.dtype.kind in kinds and (x.dtype == np.bool_ or is_number(x))
        return without_nan(np.asarray(ufunc(x))) if known else None


_binary("Add", np.add)
_binary("Sub", np.subtract)
_binary("Mul", np.multiply)
_unary("Neg", np.negative, "if")
_unary("Abs", np.abs, "iuf")
_unary("Sqrt", np.sqrt, "f")
_unary("Floor", np.floor, "f")
_unary("Ceil", np.ceil, "f")
_unary("Sign", np.sign, "iu")
_unary("Not", np.logical_not, "b")
_binary("Equal", np.equal, truths=True)
_binary("Greater", np.greater)
_binary("GreaterOrEqual", np.greater_equal)
_binary("Less", np.less)
_binary("LessOrEqual", np.less_equal)
_binary("And", np.logical_and, numbers=False, truths=True)
_binary("Or", np.logical_or, numbers=False, truths=True)
_binary("Xor", np.logical_xor, numbers=False, truths=True)


def divisor_is_safe(divisor: Array, dividend: Array | None = None) -> bool:
    """Whether an integer division by these values cannot stop the process.

    A zero divisor stops it on some builds of onnxruntime, -1 does when the dividend is the least number of its type.
    """
    if divisor.dtype.kind not in "iu":
        return True
    if bool((divisor == 0).any()):
        return False
    if divisor.dtype.kind == "u" or not bool((divisor == -1).any()):
        return True
    return dividend is not None and not bool((dividend == np.iinfo(divisor.dtype).min).any())


@kernel("Div")
def div(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
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


@kernel("Cast", "CastLike")
def cast(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The elements in another type, where the standard defines the result.

    Refused: NaN, floats out of the range of the integer type, double to half (onnxruntime rounds twice), text, and
    every type that numpy does not support but bfloat16.
    """
    x = required(inputs, 0)
    target = required(inputs, 1).dtype if node.op_type == "CastLike" else numpy_dtype(node.attribute("to"))
    if not all(dtype == _BFLOAT16 or (dtype.isbuiltin == 1 and dtype.kind in "iufb") for dtype in (x.dtype, target)):
        return None
    if x.dtype == target:
        return [x]
    return _cast_integer(x, target) if x.dtype.kind in "iub" else _cast_float(x, target)


_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_EXACT_IN_HALF = {np.dtype(np.float16): 1 << 11, _BFLOAT16: 1 << 8}


def _cast_integer(x: Array, target: np.dtype[Any]) -> list[Array] | None:
    # Beyond these numbers the cast would round, perhaps twice by way of another type.
    exact = _EXACT_IN_HALF.get(target)
    if exact is not None and x.dtype.kind != "b" and x.size and (x.min() < -exact or x.max() > exact):
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
    whole, limits = np.trunc(x), np.iinfo(target)
    # both bounds are powers of two (or zero), hence exact as floats
    if bool(((whole < float(limits.min)) | (whole >= float(limits.max + 1))).any()):
        return None
    return [x.astype(target)]
