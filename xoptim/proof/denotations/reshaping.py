"""Operators that give a tensor the shape that an operand asks for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xoptim.facts.dims import (
    LARGEST_SIZE,
    Dim,
    SymbolicDim,
    exact_quotient,
    is_never_one,
    named,
    product,
    substitute,
)
from xoptim.facts.shapes import Shape
from xoptim.proof.calls import Call, denotes
from xoptim.proof.elements import Element, function
from xoptim.proof.indices import UNNAMED, Impossible, Unproved
from xoptim.proof.tensors import Indices, Tensor, Unranked, elementwise, require_equal, reshaped


@denotes("Squeeze", "Unsqueeze", "Flatten")
def view(call: Call) -> Tensor:
    """The elements in their order."""
    return reshaped(call.case, call.operand(0), call.shape())


@denotes("Shape")
def shape_of(call: Call) -> Tensor | None:
    """The sizes of an operand of unknown rank."""
    x = call.operand(0)
    if (
        not isinstance(x, Unranked)
        or call.attribute("start", 0)
        or call.attribute("end") is not None
    ):
        return None
    rank = named(f"{UNNAMED}{x.name}:rank", (0, LARGEST_SIZE))

    def read(indices: Indices) -> Element:
        return function("size of", x.name, call.dtype(), args=indices)

    return Tensor((rank,), call.dtype(), read)


@denotes("Reshape")
def reshape(call: Call) -> Tensor:
    """The elements in their order; the sizes that the target asks for have to fit."""
    shape = call.shape()
    target = call.attribute("shape") if call.opset < 5 else call.dims(1)
    if target is None or len(target) != len(shape):
        raise Unproved("a Reshape to sizes that are data")
    copies_zeros = not call.attribute("allowzero", 0)
    source = call.operand(0).shape
    doubtful: list[int] = []
    for place, (wanted, size) in enumerate(zip(target, shape, strict=True)):
        is_copied = wanted == 0 and copies_zeros
        if is_copied and source[place : place + 1] != (size,):
            raise Unproved("a Reshape that copies no size")
        is_open = wanted == -1 or is_copied
        if not is_open and (wanted != size or not _is_read_as_size(call, target, shape, place)):
            doubtful.append(place)
    if doubtful:
        shape = _fitting(call, target, shape, doubtful)
    if -1 in target and 0 in shape:
        _require_solvable(call, target, shape)
    return reshaped(call.case, call.operand(0), shape)


def _fitting(call: Call, target: Sequence[Dim], shape: Shape, doubtful: Sequence[int]) -> Shape:
    """The shape of the result where one size is an integer that may be none, such as a size that
    was converted to 32 bits.

    The other sizes are at least 1 and leave one size that fits. The Reshape makes it, or fails:
    a 0 or a -1 in its place makes it as well, or does not fit.
    """
    place = doubtful[0]
    others = [*shape[:place], *shape[place + 1 :]]
    source = call.operand(0).shape
    size = exact_quotient(product(source), product(others))
    is_only = len(doubtful) == 1 and -1 not in target and size is not None
    if not is_only or not all(call.case.is_at_least_zero(other - 1) for other in others):
        raise Unproved("a Reshape to sizes that may not fit")
    if not call.requires("Reshape", tuple(target), source, call.attribute("allowzero", 0)):
        raise Unproved("a Reshape to sizes that may not fit")
    assert size is not None
    return (*shape[:place], size, *shape[place + 1 :])


def _is_read_as_size(call: Call, target: Sequence[Dim], shape: Sequence[Dim], place: int) -> bool:
    """Whether a size that a Reshape asks for is not -1, and not a 0 that stands for another size.

    Raises `Impossible` where it is such a 0, and the numbers of elements differ.
    """
    size, source = shape[place], call.operand(0).shape
    if call.case.is_at_least_zero(size - 1):
        return True
    if not call.case.is_at_least_zero(size):
        return False
    if call.attribute("allowzero", 0) or source[place : place + 1] == (size,):
        return True
    if call.case.decide(size - 1):
        return True
    copied = source[place] if place < len(source) else 0
    others = [*shape[:place], *shape[place + 1 :], copied]
    if -1 in target or not all(call.case.is_at_least_zero(other - 1) for other in others):
        return False
    raise Impossible  # an empty tensor would get elements


def _require_solvable(call: Call, target: Sequence[Dim], shape: Sequence[Dim]) -> None:
    """Raise where the size for -1 is open, because another size is 0: any size would fit."""
    others = [size for wanted, size in zip(target, shape, strict=True) if wanted != -1]
    if 0 in others and call.array(1) is not None and not call.attribute("allowzero", 0):
        raise Impossible
    if 0 in others:
        raise Unproved("a Reshape to a size that is not known")


@denotes("Expand")
def expand(call: Call) -> Tensor:
    """The operand, broadcast to the result."""
    x, shape = call.operand(0), call.shape()
    target = call.dims(1)
    if target is None:
        raise Unproved("an Expand to sizes that are data")
    sizes = itertools.chain(x.shape[::-1], itertools.repeat(1))
    for wanted, size, own in zip(target[::-1], shape[::-1], sizes, strict=False):
        if wanted != size and not _stays(call, own, wanted, size):
            require_equal(wanted, size)
    return elementwise(lambda element: element, [x], shape, x.dtype)


def _stays(call: Call, own: Dim, wanted: Dim, size: Dim) -> bool:
    """Whether an Expand to an integer leaves a size as it is, wherever the original runs.

    A size other than 1 stays, or the Expand fails. A size of 1 becomes the integer, so that has to
    be 1 there.
    """
    if not isinstance(wanted, SymbolicDim) or wanted.is_symbol or own != size:
        return False
    is_alike = is_never_one(own)
    if isinstance(own, SymbolicDim) and own.is_symbol:
        is_alike = is_alike or substitute(wanted, {str(own): 1}) == 1
    return is_alike and call.requires("Expand", wanted, own)
