"""Tensors surrounded by a value, or by their own elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xoptim.facts.attributes import moved
from xoptim.facts.dims import Dim
from xoptim.proof.calls import Call, axis_within, denotes
from xoptim.proof.denotations.movement import number_of
from xoptim.proof.elements import Element, number
from xoptim.proof.tensors import Indices, Tensor, choose, where_inside


@denotes("Pad")
def pad(call: Call) -> Tensor | None:
    """The operand, surrounded by a value."""
    x = call.operand(0)
    mode = call.attribute("mode", "constant")
    if moved("Pad", "pads", call.opset) is None:
        pads = list(call.attribute("pads") or call.attribute("paddings") or ())
        value = number_of(call, x.dtype, call.attribute("value", 0.0))
        axes = [*range(x.rank)]
    else:
        pads = call.dims(1) or []
        value = call.operand(2).at([0] * call.operand(2).rank) if call.has(2) else number(0)
        axes = [axis_within(axis, x.rank) for axis in call.axes("axes", 3) or range(x.rank)]
    if len(pads) != 2 * len(axes):
        return None
    shifts: dict[int, tuple[Dim, Dim]] = {
        axis: (pads[place], pads[place + len(axes)]) for place, axis in enumerate(axes)
    }
    return padded(call, x, shifts, mode, value)


def padded(
    call: Call, x: Tensor, shifts: Mapping[int, tuple[Dim, Dim]], mode: str, value: Element
) -> Tensor | None:
    """A tensor padded along axes by ``shifts``: the numbers of elements before and after.

    ``None`` where elements are cut off, or mirrored more than once, and for an unknown mode.
    """
    if not all(call.case.decide(side) for sides in shifts.values() for side in sides):
        return None
    shape = list(x.shape)
    for axis, (low, high) in shifts.items():
        shape[axis] = shape[axis] + low + high
    if mode != "constant":
        return _reflected(call, x, shifts, mode, shape)

    def read(indices: Indices) -> Element:
        place = list(indices)
        conditions: list[Dim] = []
        for axis, (low, high) in shifts.items():
            place[axis] = indices[axis] - low
            conditions += [place[axis]] if low != 0 else []
            conditions += [x.shape[axis] - 1 - place[axis]] if high != 0 else []
        return where_inside(call.case, conditions, lambda: x.at(place), value)

    return Tensor(shape, x.dtype, read)


def _reflected(
    call: Call,
    x: Tensor,
    shifts: Mapping[int, tuple[Dim, Dim]],
    mode: str,
    shape: Sequence[Dim],
) -> Tensor | None:
    """The operand, surrounded by its own elements: of its edge, mirrored, or from the other end."""
    if mode not in ("reflect", "edge", "wrap"):
        return None

    def read(indices: Indices) -> Element:
        return along([*shifts], list(indices))

    def along(axes: Sequence[int], place: list[Dim]) -> Element:
        if not axes:
            return x.at(place)
        axis, size = axes[0], x.shape[axes[0]]
        index = place[axis] - shifts[axis][0]
        before, after = {
            "reflect": (-index, 2 * size - 2 - index),
            "edge": (0, size - 1),
            "wrap": (index + size, index - size),
        }[mode]

        def at(position: Dim) -> Element:
            return along(axes[1:], [*place[:axis], position, *place[axis + 1 :]])

        if shifts[axis] == (0, 0):
            return at(index)
        return choose(
            call.case,
            index,
            lambda: choose(call.case, size - 1 - index, lambda: at(index), lambda: at(after)),
            lambda: at(before),
        )

    for axis, (low, high) in shifts.items():
        longest = x.shape[axis] - (mode == "reflect")
        if mode != "edge" and not all(call.case.decide(longest - side) for side in (low, high)):
            return None
    return Tensor(shape, x.dtype, read)
