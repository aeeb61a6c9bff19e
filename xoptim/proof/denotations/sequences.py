"""Sequences of tensors whose number is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xoptim.facts.dims import Dim, ceil_div
from xoptim.proof.calls import Call, axis_within, denotes
from xoptim.proof.denotations.movement import joined, split_along
from xoptim.proof.indices import Impossible, Unproved
from xoptim.proof.tensors import Items, Tensor, reshaped

_MAX_ITEMS: Final = 64
"""Maximal number of tensors of a sequence."""


def _items_of(call: Call) -> tuple[Tensor, ...]:
    sequence = call.operand(0)
    if not isinstance(sequence, Items):
        raise Unproved("a sequence of unknown tensors")
    return sequence.tensors


@denotes("SequenceConstruct")
def sequence_construct(call: Call) -> Tensor:
    """The operands, which have one type."""
    tensors = [call.operand(place) for place in range(len(call.operands))]
    if len({x.dtype for x in tensors}) != 1 or len(tensors) > _MAX_ITEMS:
        raise Unproved("a sequence of several types")
    return Items(tensors)


@denotes("SequenceAt")
def sequence_at(call: Call) -> Tensor | None:
    """The tensor at a known position; a negative one counts from the end."""
    positions = call.ints(1)
    if positions is None:
        return None
    (position,) = positions
    tensors = _items_of(call)
    if not -len(tensors) <= position < len(tensors):
        raise Impossible
    return tensors[position]


@denotes("ConcatFromSequence")
def concat_from_sequence(call: Call) -> Tensor | None:
    """The tensors one after the other along an axis, or along a new one."""
    tensors, axis = _items_of(call), call.attribute("axis")
    if axis is None:
        return None
    if not call.attribute("new_axis", 0):
        place = axis_within(axis, tensors[0].rank)
        if any(x.rank != tensors[0].rank for x in tensors):
            raise Impossible
        return joined(call, tensors, place)
    place = axis_within(axis, tensors[0].rank + 1)
    rows = [reshaped(call.case, x, (*x.shape[:place], 1, *x.shape[place:])) for x in tensors]
    if any(x.rank != rows[0].rank for x in rows):
        raise Impossible
    return joined(call, rows, place)


@denotes("SplitToSequence")
def split_to_sequence(call: Call) -> Tensor | None:
    """Parts along an axis: of given sizes, of one size, or of size 1, whose axis may be dropped."""
    x = call.operand(0)
    axis = axis_within(call.attribute("axis", 0), x.rank)
    sizes = _sizes_of(call, x.shape[axis])
    keeps = call.attribute("keepdims", 1)
    if sizes is None or not 0 < len(sizes) <= _MAX_ITEMS or (call.has(1) and not keeps):
        return None  # ONNX Runtime also drops axes whose size is not 1
    parts = split_along(x, axis, sizes)
    if keeps:
        return Items(parts)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return Items([reshaped(call.case, part, shape) for part in parts])


def _sizes_of(call: Call, size: Dim) -> Sequence[Dim] | None:
    """The sizes of the parts; the last one may be smaller than the others."""
    if not call.has(1):
        return [1 for _ in range(size)] if isinstance(size, int) and size <= _MAX_ITEMS else None
    sizes = call.dims(1)
    if sizes is None or call.operand(1).rank:
        return sizes
    (step,) = sizes
    if not isinstance(step, int) or not isinstance(size, int) or step < 1:
        return None
    count = ceil_div(size, step)
    assert isinstance(count, int)
    return [step] * (count - 1) + [size - step * (count - 1)]
