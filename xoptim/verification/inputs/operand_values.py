"""Other values for inputs that decide what an operator does: bounds of a Slice, a target shape,
axes, a number of trips.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.verification.inputs.input_kinds import ValueKind

_NUMBERS: Final[dict[str, tuple[int, ...]]] = {
    "zero": (1, -1, 2, -2, 5),
    "all": (1, 2, -1, 3, -2),
    "one": (2, -1, 0, 3, 7),
    "count": (1, 0, 5, -1, 9),
}
"""For each kind, numbers in place of the number with which every model runs."""
_FRACTIONS: Final = (0.5, 1.5, 2.0, 3.0)
"""Numbers for an operand of floats, such as the scales of a Resize."""
_MAX_CODED: Final = 16  # elements that are told apart
_MAX_SINGLE_CHANGES: Final = 4  # elements that are changed one by one


def alternatives(
    kind: ValueKind, element: int, usual: np.ndarray, bounds: Sequence[int] = ()
) -> Iterator[np.ndarray]:
    """Other values for an input, as different from ``usual`` as a model may accept.

    ``bounds`` are numbers to try as well.
    """
    if element == TensorProto.BOOL:
        yield np.asarray(~usual)
        return
    for numbers in (
        *(np.full(usual.shape, bound) for bound in bounds),
        *_alternatives(kind, element, usual),
    ):
        yield np.asarray(numbers).astype(numpy_dtype(element))


def _alternatives(kind: ValueKind, element: int, usual: np.ndarray) -> Iterator[np.ndarray]:
    if not usual.size:
        return
    if kind == "axes":
        yield from _axes(usual)
    elif kind == "keep":
        yield from _targets(usual)
    else:
        numbers = _FRACTIONS if is_float(element) else _NUMBERS.get(kind, ())
        yield from (np.full(usual.shape, number) for number in numbers[:1])
        yield from (_coded(usual, bit, numbers[0]) for bit in range(_bits(usual)) if numbers)
        yield from (np.full(usual.shape, number) for number in numbers[1:])
        if 1 < usual.size <= _MAX_SINGLE_CHANGES:
            yield from (
                _with_one_changed(usual, place, number)
                for number in numbers[:2]
                for place in range(usual.size)
            )


def _bits(usual: np.ndarray) -> int:
    """The binary digits that number the elements from 1; none for one element or for many."""
    return usual.size.bit_length() if 1 < usual.size <= _MAX_CODED else 0


def _coded(usual: np.ndarray, bit: int, number: float) -> np.ndarray:
    """The usual values, but for the elements whose number, from 1, has a binary digit of 1.

    Over all digits, any two elements differ: such as the amounts of a Pad at both ends of an axis.
    """
    is_changed = (np.arange(1, usual.size + 1) >> bit & 1).reshape(usual.shape) == 1
    return np.where(is_changed, number, usual)


def _with_one_changed(usual: np.ndarray, place: int, number: float) -> np.ndarray:
    numbers = usual.astype(np.float64).reshape(-1)
    numbers[place] = number
    return numbers.reshape(usual.shape)


def _axes(usual: np.ndarray) -> Iterator[np.ndarray]:
    """Axes counted from the end, the next ones, and the usual ones in another order."""
    count = usual.shape[-1] if usual.ndim else 1
    yield usual - count
    yield usual + 1
    yield usual + 2
    if usual.ndim:
        yield usual[..., ::-1]
    yield usual - count - 1


def _targets(usual: np.ndarray) -> Iterator[np.ndarray]:
    """Target shapes for any number of elements: -1 at another index, with ones, copied axes (0), or
    a factor. A scalar is one entry of such a target.
    """
    if not usual.ndim:
        yield from (np.full((), entry) for entry in (-1, 1, 0, 2, 3))
        return
    length = usual.shape[-1]
    for place in range(1, length):
        yield np.broadcast_to(np.where(np.arange(length) == place, -1, 1), usual.shape)
    for place in range(length):
        yield np.broadcast_to(np.where(np.arange(length) == place, -1, 0), usual.shape)
    for factor in (2, 3):
        yield np.broadcast_to(
            np.where(np.arange(length) == 0, -1, np.where(np.arange(length) == 1, factor, 1)),
            usual.shape,
        )
