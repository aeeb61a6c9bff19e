"""Operators whose results are elements of their operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from onnx import TensorProto, numpy_helper

from xoptim.facts.attributes import moved
from xoptim.facts.dims import LARGEST_SIZE, Dim
from xoptim.facts.dtypes import numpy_dtype
from xoptim.proof.calls import Call, axis_within, denotes, settled
from xoptim.proof.elements import Element, function, number, of_dim
from xoptim.proof.indices import (
    Impossible,
    Unproved,
    index_symbol,
    linear_parts,
    read_index,
    replaced,
)
from xoptim.proof.kinds import POSITION
from xoptim.proof.laws import dim_of
from xoptim.proof.tensors import Indices, Tensor, choose, require_equal, stored_tensor, where_inside

_OPEN_END: Final = (1 << 31) - 1
"""A Slice that ends here or beyond ends with the axis."""
_MAX_RANGE_RANK: Final = 2
"""Maximal rank of indices that are checked at both ends of their range."""
_MAX_RUNS: Final = 24
"""Maximal number of runs of constant indices of a Gather."""
_Read: TypeAlias = Callable[[Dim], Element]
_Run: TypeAlias = tuple[int, Dim, Dim]
"""The first place of a run of indices, the index there, and the step to the next one."""


@denotes("Identity")
def identity(call: Call) -> Tensor:
    """The operand."""
    return call.operand(0)


@denotes("Transpose")
def transpose(call: Call) -> Tensor:
    """Axis ``k`` of the result is axis ``perm[k]`` of the operand."""
    x = call.operand(0)
    perm = call.attribute("perm")
    return permuted(x, [*range(x.rank)][::-1] if perm is None else list(perm))


@denotes("Tile")
def tile(call: Call) -> Tensor | None:
    """The operand, repeated along each axis."""
    x, repeats = call.operand(0), call.dims(1)
    if repeats is None or call.opset < 6:
        return None

    def read(indices: Indices) -> Element:
        place = [
            index if count == 1 else call.case.divided(index, size)[1]
            for index, count, size in zip(indices, repeats, x.shape, strict=True)
        ]
        return x.at(place)

    return Tensor(call.shape(), x.dtype, read)


@denotes("Concat")
def concat(call: Call) -> Tensor | None:
    """The operands, one after the other along an axis."""
    xs = [call.operand(place) for place in range(len(call.operands))]
    rank = xs[0].rank
    axis = call.attribute("axis")
    if axis is None:
        return None
    if len({x.dtype for x in xs}) > 1:
        raise Unproved("a Concat of several types")
    return joined(call, xs, axis_within(axis, rank))


def joined(call: Call, xs: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one type, one after the other along an axis."""
    for x in xs[1:]:
        for place in range(x.rank):
            if place != axis:
                require_equal(x.shape[place], xs[0].shape[place], or_one=False)

    def read(indices: Indices) -> Element:
        return _piece(call, xs, axis, indices)

    shape = list(xs[0].shape)
    shape[axis] = sum((x.shape[axis] for x in xs[1:]), shape[axis])
    return Tensor(shape, xs[0].dtype, read)


def _piece(call: Call, xs: Sequence[Tensor], axis: int, indices: Indices) -> Element:
    """The element of a concatenation of the operands ``xs``."""
    first, index = xs[0], indices[axis]
    if len(xs) == 1:
        return first.at(indices)
    size = first.shape[axis]
    rest = (*indices[:axis], index - size, *indices[axis + 1 :])
    return choose(
        call.case,
        size - 1 - index,
        lambda: first.at(indices),
        lambda: _piece(call, xs[1:], axis, rest),
    )


@denotes("Split")
def split(call: Call) -> list[Tensor] | None:
    """Ranges of the operand along an axis."""
    x = call.operand(0)
    axis = axis_within(call.attribute("axis", 0), x.rank)
    tensors: list[Tensor] = []
    start: Dim = 0
    for place, name in enumerate(call.node.output):
        if not name and place + 1 < len(call.node.output):
            return None
        shape = call.shape(place) if name else x.shape
        tensors.append(_range(x, axis, start, shape))
        start = start + shape[axis]
    if start != x.shape[axis]:
        raise Unproved("sizes of a Split that are not understood")
    return tensors


def split_along(x: Tensor, axis: int, sizes: Sequence[Dim]) -> list[Tensor]:
    """Parts of a tensor of these sizes along an axis."""
    total: Dim = sum(sizes[1:], sizes[0])
    require_equal(total, x.shape[axis], or_one=False)
    parts: list[Tensor] = []
    start: Dim = 0
    for size in sizes:
        parts.append(_range(x, axis, start, [*x.shape[:axis], size, *x.shape[axis + 1 :]]))
        start = start + size
    return parts


def _range(x: Tensor, axis: int, start: Dim, shape: Sequence[Dim]) -> Tensor:
    def read(indices: Indices) -> Element:
        return x.at([*indices[:axis], indices[axis] + start, *indices[axis + 1 :]])

    return Tensor(shape, x.dtype, read)


@denotes("Slice")
def slice_(call: Call) -> Tensor | None:
    """The elements from a start to an end in steps, along some axes."""
    x = call.operand(0)
    starts: list[Dim] | None
    ends: list[Dim] | None
    if moved("Slice", "starts", call.opset) is None:
        starts, ends = list(call.attribute("starts", ())), list(call.attribute("ends", ()))
        axes = call.attribute("axes") or [*range(len(starts))]
        steps: Sequence[int] | None = [1] * len(starts)
    else:
        starts, ends = call.dims(1), call.dims(2)
        if starts is None or ends is None:
            return None
        axes = call.axes("axes", 3) or [*range(len(starts))]
        steps = call.ints(4) if call.has(4) else [1] * len(starts)
    if steps is None or any(step == 0 for step in steps):
        return None
    shape = list(x.shape)
    moves: dict[int, tuple[Dim, int]] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_within(axis, x.rank)
        first, count = _selected(call, x.shape[place], start, end, step)
        shape[place] = count
        moves[place] = (first, step)

    def read(indices: Indices) -> Element:
        place = list(indices)
        for axis, (first, step) in moves.items():
            place[axis] = first + indices[axis] * step
        return x.at(place)

    return Tensor(shape, x.dtype, read)


def _selected(call: Call, size: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """The first index and the number of indices of a slice along an axis."""
    case = call.case
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = _limited(call, start, size, 0, high)
    limit = _OPEN_END if call.graph.model.assumptions.has("open_ends") else LARGEST_SIZE
    if step < 0 and isinstance(end, int) and end >= _OPEN_END:
        raise Unproved("a Slice backward to an end that ONNX Runtime reads as open")
    if isinstance(end, int) and abs(end) >= limit:
        last = high if end > 0 else low
    else:
        last = _limited(call, end, size, low, high)
    distance = (last - first) * (1 if step > 0 else -1)
    if not case.decide(distance - 1):
        return 0, 0
    return first, -(-distance // abs(step))


def _limited(call: Call, index: Dim, size: Dim, low: Dim, high: Dim) -> Dim:
    """A start or an end of a slice, clamped; negative ones count from the end of the axis."""
    case = call.case
    if not case.decide(index):
        index = index + size
    if not case.decide(index - low):
        return low
    if case.is_at_least_zero(index - high):
        return high
    return high if case.decide(index - high - 1) else index


@denotes("Gather")
def gather(call: Call) -> Tensor:
    """Elements along an axis, at known indices or at those in a tensor."""
    x, index_tensor = call.operand(0), call.operand(1)
    axis = axis_within(call.attribute("axis", 0), x.rank)
    size = x.shape[axis]
    count = index_tensor.rank
    if size == 0 and all(call.case.is_at_least_zero(n - 1) for n in index_tensor.shape):
        raise Impossible  # all indices are out of range
    for position in call.dims(1) or ():
        is_before_end = call.case.decide(size - 1 - position)
        if not is_before_end or not call.case.decide(position + size):
            raise Impossible
    _require_range(call, index_tensor, size)

    def read(indices: Indices) -> Element:
        inner = indices[axis : axis + count]

        def at(index: Dim) -> Element:
            return x.at([*indices[:axis], index, *indices[axis + count :]])

        return _gathered(call, at, inner, size)

    shape = (*x.shape[:axis], *index_tensor.shape, *x.shape[axis + 1 :])
    return Tensor(shape, x.dtype, read)


def _require_range(call: Call, index_tensor: Tensor, size: Dim) -> None:
    """Raise `Impossible` where the ends of a range of indices are out of range."""
    is_range = 0 < index_tensor.rank <= _MAX_RANGE_RANK and call.dims(1) is None
    if not is_range or index_tensor.dtype != TensorProto.INT64 or 0 in index_tensor.shape:
        return
    extents = {str(call.case.index(n)): n for n in index_tensor.shape if n != 1}
    names = iter(extents)
    places = [0 if n == 1 else index_symbol(next(names), n) for n in index_tensor.shape]
    position = dim_of(settled(index_tensor.at(places), index_tensor.dtype))
    if position is None or any(linear_parts(position, name) is None for name in extents):
        return
    for ends in itertools.product(*((0, n - 1) for n in extents.values())):
        end = replaced(position, dict(zip(extents, ends, strict=True)))
        if not call.case.decide(size - 1 - end) or not call.case.decide(end + size):
            raise Impossible


def _gathered(call: Call, at: _Read, inner: Indices, size: Dim) -> Element:
    numbers = call.ints(1)
    if numbers is not None and len(inner) == 1 and not isinstance(inner[0], int):
        places = [n if n >= 0 else n + size for n in numbers]
        if len(_runs(places)) <= _MAX_RUNS:
            return at_numbers(call, at, inner[0], places)
    return at_index(call, call.operand(1).at(inner), size, at)


def at_index(call: Call, value: Element, size: Dim, at: _Read, dtype: int = 0) -> Element:
    """The element at an index, whose type is by default that of the second operand."""
    element = settled(value, dtype or call.operand(1).dtype)
    index = dim_of(element)
    if index is not None:
        return choose(call.case, index, lambda: at(index), lambda: at(index + size))
    # Negative indices count from the end.
    position = function(POSITION, args=[element, size])
    return at(read_index(position, size))


@denotes("GatherND")
def gather_nd(call: Call) -> Tensor | None:
    """Elements at tuples of indices, which are along the last axis of the second operand."""
    x, tuples = call.operand(0), call.operand(1)
    batch = call.attribute("batch_dims", 0)
    count = tuples.shape[-1] if tuples.shape else None
    if not isinstance(count, int):
        return None
    for axis in range(batch):
        require_equal(x.shape[axis], tuples.shape[axis], or_one=False)
    shape = (*tuples.shape[:-1], *x.shape[batch + count :])

    def read(indices: Indices) -> Element:
        outer, inner = indices[: tuples.rank - 1], indices[tuples.rank - 1 :]

        def along(axis: int, place: Indices) -> Element:
            if axis == count:
                return x.at([*indices[:batch], *place, *inner])
            return at_index(
                call,
                tuples.at([*outer, axis]),
                x.shape[batch + axis],
                lambda index: along(axis + 1, (*place, index)),
            )

        return along(0, ())

    return Tensor(shape, x.dtype, read)


def at_numbers(call: Call, at: _Read, place: Dim, numbers: Sequence[Dim]) -> Element:
    """The element at one of several indices, given the place of this index."""
    if isinstance(place, int):
        return at(numbers[place])
    return _of_runs(call, at, place, _runs(numbers))


def _runs(numbers: Sequence[Dim]) -> list[_Run]:
    """The longest runs of constant steps, from the first index on."""
    runs: list[_Run] = []
    place = 0
    while place < len(numbers):
        end = place + 1
        step: Dim = 0
        if end < len(numbers):
            step = numbers[end] - numbers[place]
            while end + 1 < len(numbers) and numbers[end + 1] - numbers[end] == step:
                end += 1
            end += 1
        runs.append((place, numbers[place], step))
        place = end
    return runs


def _of_runs(call: Call, at: _Read, place: Dim, runs: Sequence[_Run]) -> Element:
    start, first, step = runs[0]
    if len(runs) == 1:
        return at(first + step * (place - start))
    return choose(
        call.case,
        runs[1][0] - 1 - place,
        lambda: at(first + step * (place - start)),
        lambda: _of_runs(call, at, place, runs[1:]),
    )


def number_of(call: Call, dtype: int, value: float) -> Element:
    """A number from an attribute, in an element type."""
    array = np.array(np.float32(value)).astype(numpy_dtype(dtype))
    return stored_tensor(array, dtype, keeps_zeros=call.case.is_exact).at(())


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """The axes of a tensor in another order."""

    def read(indices: Indices) -> Element:
        place = dict(zip(order, indices, strict=True))
        return x.at([place[axis] for axis in range(x.rank)])

    return Tensor([x.shape[axis] for axis in order], x.dtype, read)


@denotes("ConstantOfShape")
def constant_of_shape(call: Call) -> Tensor:
    """One value in all places."""
    value = call.attribute("value")
    array = np.zeros((), np.float32) if value is None else numpy_helper.to_array(value)
    stored = stored_tensor(array.reshape(()), call.dtype(), keeps_zeros=call.case.is_exact)
    return Tensor(call.shape(), call.dtype(), lambda _: stored.at(()))


@denotes("Range")
def range_(call: Call) -> Tensor | None:
    """Integers in equal steps."""
    start, step = call.dims(0), call.dims(2)
    if start is None or step is None or call.dtype() != TensorProto.INT64:
        return None
    first, distance = start[0], step[0]
    return Tensor(call.shape(), call.dtype(), lambda indices: of_dim(first + distance * indices[0]))


@denotes("Trilu")
@denotes("Trilu", domain="com.microsoft")
def trilu(call: Call) -> Tensor | None:
    """The upper or lower triangle, with zeros elsewhere."""
    x = call.operand(0)
    shifts: Sequence[Dim] | None = call.dims(1) if call.has(1) else [0]
    if shifts is None:
        return None
    shift, is_upper = shifts[0], call.attribute("upper", 1)

    def read(indices: Indices) -> Element:
        *_, row, column = indices
        # Elements on the diagonal ``column - row == k`` belong to both triangles.
        distance = column - row - shift
        inside = distance if is_upper else -distance
        return where_inside(call.case, [inside], lambda: x.at(indices), number(0))

    return Tensor(x.shape, x.dtype, read)


@denotes("Dropout")
def dropout(call: Call) -> Tensor | None:
    """The operand, where nothing is dropped."""
    mode = call.array(2) if call.has(2) else None
    is_training = (call.has(2) and (mode is None or bool(mode.any()))) or call.opset < 7
    has_mask = len(call.node.output) > 1 and call.node.output[1]
    return None if is_training or has_mask else call.operand(0)
