"""Inverse arithmetic: operands that give a number, and numbers that decide a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from onnx import NodeProto

_BITS: Final = 64
MAX_WAYS: Final = 6
"""Maximal number of ways to compute a number from other numbers that are tried."""
MIRRORED: Final = {
    "Less": "Greater",
    "Greater": "Less",
    "LessOrEqual": "GreaterOrEqual",
    "GreaterOrEqual": "LessOrEqual",
}
"""Comparisons of swapped operands."""
UNARY: Final[Mapping[str, Any]] = {
    "Neg": lambda v: [-v],
    "Abs": lambda v: [v, -v] if v else [v],
    "Sqrt": lambda v: [v * v],
    "Exp": lambda v: [math.log(v)] if v > 0 else [],
    "Log": lambda v: [math.exp(v)] if v < 80 else [],
    "Reciprocal": lambda v: [1 / v] if v else [],
    "Sign": lambda v: [3 * v],
    "BitwiseNot": lambda v: [-v - 1],
}
"""The operands with which an operator gives a number."""


def single_number(array: np.ndarray | None) -> Any:
    """The number of a constant of one element, ``None`` for other constants."""
    if array is None or array.size != 1 or array.dtype.kind in "OSU":
        return None
    return array.reshape(-1)[0].item()


def is_all(array: np.ndarray, value: Any) -> bool:
    """Whether all elements are a number or a text."""
    if isinstance(value, str) or array.dtype.kind in "OSU":
        return all(text_of(element) == value for element in array.reshape(-1))
    return bool(np.isclose(array.astype(np.float64), float(value), rtol=1e-6).all())


def text_of(element: Any) -> str:
    """An element of a string tensor as a text."""
    return element.decode("utf-8", "replace") if isinstance(element, bytes) else str(element)


def on_side(kind: str, bound: Any, truth: bool) -> Iterator[Any]:
    """Numbers for which a comparison with a bound is true, or false."""
    if isinstance(bound, (str, bytes)):
        yield from [text_of(bound)] if truth else []
        return
    if isinstance(bound, bool):
        yield bound if truth else not bound
        return
    step = 1 if float(bound).is_integer() else abs(bound) / 2
    if kind == "Equal":
        yield bound if truth else bound + step
    elif kind.startswith("Less") == truth:
        yield bound - step
        yield from [bound] if kind.endswith("OrEqual") == truth else []
        yield from [0] if bound > 0 else []
    else:
        yield bound + step
        yield from [bound] if kind.endswith("OrEqual") == truth else []


def undone(node: NodeProto, value: Any, constant: Any) -> Iterator[Any]:
    """The first operands of a node that give a number with a constant second operand."""
    kind = node.op_type
    if kind == "Add":
        yield value - constant
    elif kind == "Sub":
        yield value + constant
    elif kind == "Mul" and constant:
        quotient = value / constant
        yield int(quotient) if float(quotient).is_integer() else quotient
    elif kind == "Div":
        yield value * constant
    elif kind == "Mod":
        yield from (value + turns * constant for turns in range(MAX_WAYS))
    elif kind.startswith("Bit") and not math.isfinite(value):
        return
    elif kind == "BitwiseAnd":
        yield from [value] if int(value) & int(constant) == int(value) else []
        yield from [constant] if value else []
    elif kind == "BitwiseXor":
        yield int(value) ^ int(constant)
    elif kind == "BitShift" and 0 <= constant < _BITS:
        is_left = any(a.name == "direction" and a.s == b"LEFT" for a in node.attribute)
        yield int(value) >> int(constant) if is_left else int(value) << int(constant)


def undone_left(kind: str, value: Any, constant: Any) -> Iterator[Any]:
    """The second operands of an operator that give a number with a constant first operand."""
    if kind == "Add":
        yield value - constant
    elif kind == "Sub":
        yield constant - value
    elif kind == "Mul" and constant:
        quotient = value / constant
        yield int(quotient) if float(quotient).is_integer() else quotient
    elif kind == "Div" and value:
        yield constant / value
