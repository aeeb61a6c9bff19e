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
    doubtful_axes: list[int] = []
    for place, (entry, size) in enumerate(zip(target, shape, strict=True)):
        is_copied = entry == 0 and copies_zeros
        if is_copied and source[place : place + 1] != (size,):
            raise Unproved("a Reshape that copies no size")
        is_open = entry == -1 or is_copied
        if not is_open and (entry != size or not _is_read_as_size(call, target, shape, place)):
            doubtful_axes.append(place)
    if doubtful_axes:
        shape = _fitting(call, target, shape, doubtful_axes)
    if -1 in target and 0 in shape:
        _require_solvable(call, target, shape)
    return reshaped(call.case, call.operand(0), shape)


def _fitting(call: Call, target: Sequence[Dim], shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape of the result where one integer of the target may be no valid size, such as a size
    that was converted to 32 bits.

    The other sizes are at least 1, so one size fits. The result has this size, or the Reshape
    fails. This holds also where the integer is 0 (the size is copied) or -1 (it is inferred).
    """
    place = axes[0]
    other_sizes = [*shape[:place], *shape[place + 1 :]]
    source = call.operand(0).shape
    size = exact_quotient(product(source), product(other_sizes))
    is_only = len(axes) == 1 and -1 not in target and size is not None
    if not is_only or not all(call.case.is_at_least_zero(n - 1) for n in other_sizes):
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
    other_sizes = [*shape[:place], *shape[place + 1 :], copied]
    if -1 in target or not all(call.case.is_at_least_zero(n - 1) for n in other_sizes):
        return False
    raise Impossible  # an empty tensor would get elements


def _require_solvable(call: Call, target: Sequence[Dim], shape: Sequence[Dim]) -> None:
    """Raise where the size for -1 is open, because another size is 0: any size would fit."""
    other_sizes = [size for entry, size in zip(target, shape, strict=True) if entry != -1]
    if 0 in other_sizes and call.array(1) is not None and not call.attribute("allowzero", 0):
        raise Impossible
    if 0 in other_sizes:
        raise Unproved("a Reshape to a size that is not known")


@denotes("Expand")
def expand(call: Call) -> Tensor:
    """The operand, broadcast to the result."""
    x, shape = call.operand(0), call.shape()
    target = call.dims(1)
    if target is None:
        raise Unproved("an Expand to sizes that are data")
    sizes = itertools.chain(x.shape[::-1], itertools.repeat(1))
    for target_size, size, source_size in zip(target[::-1], shape[::-1], sizes, strict=False):
        if target_size != size and not _stays(call, source_size, target_size, size):
            require_equal(target_size, size)
    return elementwise(lambda element: element, [x], shape, x.dtype)


def _stays(call: Call, source_size: Dim, target_size: Dim, size: Dim) -> bool:
    """Whether an Expand to an integer leaves a size as it is, wherever the original runs.

    A size other than 1 stays, or the Expand fails. A size of 1 becomes the integer, so either the
    size is never 1, or the integer is 1 where the size is.
    """
    if not isinstance(target_size, SymbolicDim) or target_size.is_symbol or source_size != size:
        return False
    is_alike = is_never_one(source_size)
    if isinstance(source_size, SymbolicDim) and source_size.is_symbol:
        is_alike = is_alike or substitute(target_size, {str(source_size): 1}) == 1
    return is_alike and call.requires("Expand", target_size, source_size)
