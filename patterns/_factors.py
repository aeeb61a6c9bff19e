"""Numbers that become attributes, which are 32-bit floats."""

import numpy as np
from onnx import TensorProto

from xoptim.facts.errors import Declined
from xoptim.match import GraphView

from ._folding import rounded


def scaled(g: GraphView, like: str, factor: float, name: str, *, division: bool = False) -> float:
    """A factor times, or divided by, a constant with one element; the product is an attribute that multiplies ``like``.

    Raises:
        Declined: when the constant is zero, or the result is out of the range of the attribute or needs 64 bits.
    """
    number = g.get_constant_scalar(name)
    if not number:
        raise Declined("a factor is not a number, or 0")
    value = factor / float(number) if division else factor * float(number)
    rounded(value, np.dtype(np.float32))  # a guard only: the attribute is rounded where it is written
    if not fits(g, like, value):
        raise Declined("a factor would lose digits as an attribute")
    return value


def fits(g: GraphView, like: str, *values: float) -> bool:
    """Whether attributes keep the digits of numbers that are used with the type of a result."""
    return g.try_infer_type(like) != TensorProto.DOUBLE or all(float(np.float32(value)) == value for value in values)
