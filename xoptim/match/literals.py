"""Compare constants with the numbers of patterns."""

import math
from functools import cache

import numpy as np

from xoptim.graph.constants import constant_array
from xoptim.graph.graph import Graph


def equals_literal(array: np.ndarray, value: float | bool) -> bool:
    """Whether a one-element array holds the number to which its element type rounds ``value``.

    A number that float16 holds (0, 1, -1, 2, 0.5, 6, ...) is compared exactly: every type can store
    it, and a computed constant equals it exactly. Other numbers (√2, 1/6, 0.044715) may be off by
    two units in the last place of the element type, which covers literals that were computed in
    another precision and then rounded.
    """
    item = array.reshape(())
    kind, size = item.dtype.kind, item.dtype.itemsize
    if kind == "f" and size >= 4 and not isinstance(value, bool):
        number = float(item)
        if number == value or is_short(value):
            return number == value
        return abs(number - value) <= (2.0**-22 if size == 4 else 2.0**-51) * abs(value) < math.inf
    if kind == "b" or isinstance(value, bool):
        return kind == "b" and bool(item) == value
    if kind in "iu":
        return int(item) == value
    if kind in "OUSc":
        return False
    with np.errstate(over="ignore"):
        literal = np.asarray(value).astype(item.dtype)
    if is_short(value) or not np.isfinite(np.float64(literal)):
        return bool(item == literal)
    digits = 2.0**-6 if item.dtype.name == "bfloat16" else 2.0**-9 if size == 2 else 2.0**-3
    return abs(float(item) - float(literal)) <= digits * abs(float(literal))


@cache
def is_short(value: float) -> bool:
    """Whether float16 holds a number exactly."""
    with np.errstate(over="ignore"):
        return float(np.float16(value)) == value


def constant_number(graph: Graph, name: str) -> float | int | bool | None:
    """The number in a constant with one element, ``None`` when the result is not such a constant.

    Larger constants are not read.
    """
    if not name:
        return None
    tensor = graph.tensor(name)
    if tensor is not None and tensor.size != 1:
        return None
    array = constant_array(graph, name)
    if array is None or array.size != 1 or array.dtype.kind in "OUS":
        return None
    item = array.reshape(()).item()
    return item if isinstance(item, (bool, int, float)) else None
