"""Conversions between element types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import LOSSLESS, bits, is_float, numpy_dtype
from xoptim.proof.calls import RING_TYPES, Call, denotes, is_truth, settled, wrapped
from xoptim.proof.constants import of_number
from xoptim.proof.elements import ONE, ZERO, Element, Factor, function
from xoptim.proof.kinds import CONSTANT, EQUAL, SIZE, WITHIN
from xoptim.proof.laws import comparison, is_integral
from xoptim.proof.ranges import range_of
from xoptim.proof.tensors import Tensor


@denotes("Cast", "CastLike")
def cast(call: Call) -> Tensor:
    """The same number, where the new type represents all numbers of the old one; else rounded."""
    x = call.operand(0)
    source, target = x.dtype, call.dtype()
    if source == target:
        return x
    saturates = call.attribute("saturate", 1)
    rounding = call.attribute("round_mode", "up")
    is_plain = TensorProto.STRING not in (source, target)
    if {source, target} <= RING_TYPES and bits(target) <= bits(source):
        # the low bits of sums and products do not depend on the higher bits that a type drops
        return x.mapped(lambda element: wrapped(element, target), target)

    def compute(element: Element) -> Element:
        value = settled(element, source)
        origin = _origin(value, source)
        if is_plain and (origin == target or target in LOSSLESS.get(origin, ())):
            return value
        if target == TensorProto.BOOL and is_plain:
            return value if is_truth(value) else ONE - comparison(EQUAL, source, value, ZERO)
        if is_exactly_float(value, target):
            return value
        if source in LOSSLESS.get(target, ()):
            rounded = _rounded(value, source, target)
            if rounded is not None:
                return rounded
        return function("cast", origin, target, saturates, rounding, args=[value])

    return x.mapped(compute, target)


def _origin(value: Element, source: int) -> int:
    """The type of the input that has this element, before lossless casts; else ``source``."""
    single = value.single
    if single is None or single.key[0] != "input" or not isinstance(single.key[2], int):
        return source
    return single.key[2]


_EXACT: Final[dict[int, int]] = {
    TensorProto.BFLOAT16: 1 << 8,
    TensorProto.FLOAT16: 1 << 11,
    TensorProto.FLOAT: 1 << 24,
    TensorProto.DOUBLE: 1 << 53,
}
"""Floating-point types, and the integer up to which they represent all integers."""


def is_exactly_float(value: Element, dtype: int) -> bool:
    """Whether an integer of known limits has the same value in a floating-point type."""
    low, high = range_of(value)
    limit = _EXACT.get(dtype, -1)
    return (
        is_integral(value)
        and low is not None
        and high is not None
        and -limit <= low
        and high <= limit
    )


def _rounded(value: Element, source: int, target: int) -> Element | None:
    """A constant rounded to another floating-point type; ``None`` for others, or an overflow."""
    number = value.number
    if number is None or not (is_float(source) and is_float(target)):
        return None
    with np.errstate(all="ignore"):
        source_number = np.float64(number).astype(numpy_dtype(source))
        target_number = source_number.astype(numpy_dtype(target))
    is_kept = float(source_number) == number and np.isfinite(target_number.astype(np.float64))
    return of_number(target_number) if is_kept else None


def without_last_rounding(value: Element, dtype: int) -> Element:
    """Remove the Cast of a result to ``dtype`` if the result is computed from this type only.

    An operator of that type rounds its results as well, so over real numbers this is the same.
    """
    single = value.single
    if single is None or single.key[0] != "cast" or single.key[2] != dtype:
        return value
    (content,) = single.args
    is_wide = isinstance(single.key[1], int) and single.key[1] in LOSSLESS.get(dtype, ())
    if not isinstance(content, Element) or not is_wide or not is_float(dtype):
        return value
    return content if _is_computed_from(content, dtype) else value


def _is_computed_from(value: Element, dtype: int) -> bool:
    """Whether an element is computed only from constants, sizes, conditions on sizes, and inputs
    (at least one) whose values ``dtype`` represents exactly.
    """
    leaves = {*_leaves(value)}
    types = {*(leaf.key[2] for leaf in leaves if leaf.key[0] == "input")}
    kinds = {leaf.key[0] for leaf in leaves if leaf.key[0] != "input"}
    return (
        bool(types)
        and kinds <= {CONSTANT, SIZE, WITHIN}
        and all(t == dtype or dtype in LOSSLESS.get(int(str(t)), ()) for t in types)
    )


def _leaves(value: Element) -> Iterator[Factor]:
    """The factors of an element that are casts, or not functions of other elements; also those
    inside functions.
    """
    for _, powers in value.terms:
        for base, _ in powers:
            arguments = [arg for arg in base.args if isinstance(arg, Element)]
            if not arguments or base.key[0] == "cast":
                yield base
            for arg in arguments:
                yield from _leaves(arg)
