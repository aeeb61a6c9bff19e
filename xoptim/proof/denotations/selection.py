"""Operators that select, mark or replace elements at indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim, product
from xoptim.facts.dtypes import is_float, is_integer
from xoptim.proof.calls import Call, axis_within, denotes, is_arithmetic, settled
from xoptim.proof.denotations.movement import at_index, at_numbers
from xoptim.proof.denotations.sums import real
from xoptim.proof.elements import ONE, ZERO, Element, function, of_dim
from xoptim.proof.indices import Impossible
from xoptim.proof.kinds import EQUAL
from xoptim.proof.laws import comparison
from xoptim.proof.tensors import (
    Indices,
    Tensor,
    choose,
    require_equal,
    reshaped,
    stored_tensor,
    total,
    where_inside,
)

_Update: TypeAlias = tuple[Sequence[tuple[Dim, Dim]], Sequence[Dim]]
"""Pairs of indices that have to be equal, and the index of the update in ``updates``."""
_MAX_REPLACED: Final = 64
"""Maximum number of elements of a scatter's constant ``indices``."""


@denotes("GatherElements")
def gather_elements(call: Call) -> Tensor:
    """Elements along an axis, at the index that the second operand has for each of them."""
    x, index_tensor = call.operand(0), call.operand(1)
    axis = axis_within(call.attribute("axis", 0), x.rank)
    array = call.array(1)
    for number in () if array is None else np.unique(array):
        _from_start(call, int(number), x.shape[axis])
    for dim in range(x.rank):
        if dim != axis and not call.case.decide(x.shape[dim] - index_tensor.shape[dim]):
            raise Impossible

    def read(indices: Indices) -> Element:
        return at_index(
            call,
            index_tensor.at(indices),
            x.shape[axis],
            lambda index: x.at([*indices[:axis], index, *indices[axis + 1 :]]),
        )

    return Tensor(index_tensor.shape, x.dtype, read)


@denotes("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(call: Call) -> Tensor | None:
    """Elements along the last axis; a vector is one row."""
    x, index_tensor = call.operand(0), call.operand(1)
    if not 1 <= index_tensor.rank <= 2 or x.rank == 0:
        return None
    if any(size != 1 for size in index_tensor.shape[:-1]) and x.rank > 1:
        return None
    long_axes = [axis for axis in range(index_tensor.rank) if index_tensor.shape[axis] != 1]
    count = index_tensor.shape[long_axes[0]] if long_axes else 1
    if len(long_axes) > 1:
        return None
    outer: tuple[Dim, ...] = (1,) if x.rank == 1 else x.shape[:-1]

    def read(indices: Indices) -> Element:
        *lead, last_index = indices
        subscripts: list[Dim] = [0] * index_tensor.rank
        if long_axes:
            subscripts[long_axes[0]] = last_index
        value = settled(index_tensor.at(subscripts), index_tensor.dtype)
        rest = lead if x.rank > 1 else []
        return at_index(call, value, x.shape[-1], lambda index: x.at([*rest, index]))

    return Tensor((*outer, count), x.dtype, read)


@denotes("Compress")
def compress(call: Call) -> Tensor | None:
    """The elements along an axis whose constant condition is true."""
    x, condition, axis = call.operand(0), call.array(1), call.attribute("axis")
    if condition is None:
        return None
    if axis is None:  # the elements of all axes in their order
        x, axis = reshaped(call.case, x, (product(x.shape),)), 0
    axis = axis_within(axis, x.rank)
    size = x.shape[axis]
    if not isinstance(size, int) or condition.size > size:
        return None
    numbers: list[Dim] = [int(number) for number in np.flatnonzero(condition)]

    def read(indices: Indices) -> Element:
        return at_numbers(
            call,
            lambda index: x.at([*indices[:axis], index, *indices[axis + 1 :]]),
            indices[axis],
            numbers,
        )

    return Tensor([*x.shape[:axis], len(numbers), *x.shape[axis + 1 :]], x.dtype, read)


@denotes("EyeLike")
def eye_like(call: Call) -> Tensor:
    """1 on a diagonal, 0 elsewhere."""
    shift = call.attribute("k", 0)

    def read(indices: Indices) -> Element:
        distance = indices[1] - indices[0] - shift
        return where_inside(call.case, [distance, -distance], lambda: ONE, ZERO)

    return Tensor(call.shape(), call.dtype(), read)


@denotes("OneHot")
def one_hot(call: Call) -> Tensor | None:
    """The second value where the index along ``axis`` is the element of the first operand; else the
    first value.
    """
    index_tensor, depths, values = (call.operand(number) for number in range(3))
    depth = call.dims(1)
    if depth is None or not is_integer(index_tensor.dtype) or not is_arithmetic(call):
        return None
    axis = axis_within(call.attribute("axis", -1), index_tensor.rank + 1)
    dtype = index_tensor.dtype
    assert depths.rank < 2

    def read(indices: Indices) -> Element:
        value = settled(index_tensor.at([*indices[:axis], *indices[axis + 1 :]]), dtype)
        index = of_dim(indices[axis])
        # Negative indices count from the end.
        from_start = comparison(EQUAL, dtype, value, index)
        from_end = comparison(EQUAL, dtype, value, index - of_dim(depth[0]))
        is_hot = from_start + from_end
        off, on = (real(values.at([k])) for k in range(2))
        return off + is_hot * (on - off)

    shape = [*index_tensor.shape[:axis], depth[0], *index_tensor.shape[axis:]]
    return Tensor(shape, values.dtype, read)


@denotes("CumSum")
def cumulative_sum(call: Call) -> Tensor | None:
    """The sum of the elements up to each one along an axis."""
    x, axes = call.operand(0), call.ints(1)
    if axes is None or not is_arithmetic(call):
        return None
    axis = axis_within(axes[0], x.rank)
    size = x.shape[axis]
    is_exclusive = call.attribute("exclusive", 0)
    is_reverse = call.attribute("reverse", 0)

    def read(indices: Indices) -> Element:
        index = indices[axis]

        def at(k: Dim) -> Element:
            distance = (k - index if is_reverse else index - k) - is_exclusive
            return where_inside(
                call.case,
                [distance],
                lambda: real(x.at([*indices[:axis], k, *indices[axis + 1 :]])),
                ZERO,
            )

        return total(call.case, size, at)

    return Tensor(x.shape, x.dtype, read)


@denotes("ScatterND")
def scatter_nd(call: Call) -> Tensor | None:
    """A tensor, with slices replaced at tuples of constant indices."""
    x, updates, array = call.operand(0), call.operand(2), _constant_indices(call)
    if array is None or array.ndim == 0 or array.shape[-1] > x.rank:
        return None
    count = array.shape[-1]
    outer = array.shape[:-1]
    for update_size, size in zip(updates.shape[len(outer) :], x.shape[count:], strict=True):
        require_equal(update_size, size, or_one=False)
    targets = [
        (
            update_index,
            [
                _from_start(call, int(n), size)
                for n, size in zip(array[update_index], x.shape, strict=False)
            ],
        )
        for update_index in np.ndindex(outer)
    ]

    def read(indices: Indices) -> Element:
        inner = indices[count:]
        pairs: list[_Update] = [
            ([*zip(indices, target, strict=False)], [*update_index, *inner])
            for update_index, target in targets
        ]
        return _replaced(call, pairs, updates, lambda: x.at(indices))

    return Tensor(x.shape, x.dtype, read)


@denotes("ScatterElements")
def scatter_elements(call: Call) -> Tensor | None:
    """A tensor, with elements replaced along an axis at constant indices."""
    x, updates, array = call.operand(0), call.operand(2), _constant_indices(call)
    axis = axis_within(call.attribute("axis", 0), x.rank)
    replaces = call.attribute("reduction", "none") == "none"
    if replaces and x.shape[axis] == 1 and call.operand(1).shape == updates.shape == x.shape:
        return updates  # there is one index along the axis
    if array is None or array.ndim != x.rank:
        return None
    targets: list[tuple[tuple[int, ...], list[Dim]]] = []
    for update_index in np.ndindex(array.shape):
        target: list[Dim] = [_from_start(call, n, x.shape[k]) for k, n in enumerate(update_index)]
        target[axis] = _from_start(call, int(array[update_index]), x.shape[axis])
        targets.append((update_index, target))

    def read(indices: Indices) -> Element:
        pairs: list[_Update] = [
            ([*zip(indices, target, strict=True)], list(update_index))
            for update_index, target in targets
        ]
        return _replaced(call, pairs, updates, lambda: x.at(indices))

    return Tensor(x.shape, x.dtype, read)


def _constant_indices(call: Call) -> np.ndarray[Any, Any] | None:
    """The indices of a scatter that replaces, if they are few constants."""
    if call.attribute("reduction", "none") != "none":
        return None
    array = call.array(1)
    return None if array is None or array.size > _MAX_REPLACED else array


def _from_start(call: Call, index: int, size: Dim) -> Dim:
    """An index counted from the start; raises `Impossible` for one out of range."""
    from_start = index + size if index < 0 else index
    if not (call.case.decide(from_start) and call.case.decide(size - 1 - from_start)):
        raise Impossible
    return from_start


def _replaced(
    call: Call,
    pairs: Sequence[_Update],
    updates: Tensor,
    otherwise: Callable[[], Element],
) -> Element:
    """The last update whose indices are equal, else the element itself."""
    for count, (equalities, update_index) in reversed([*enumerate(pairs)]):
        distances = [distance for a, b in equalities for distance in (a - b, b - a)]
        answers = [call.case.is_at_least_zero(distance) for distance in distances]
        if all(answers):
            return updates.at(update_index)
        if any(answer is False for answer in answers):
            continue
        return _chosen(call, distances, updates, update_index, pairs[:count], otherwise)
    return otherwise()


def _chosen(
    call: Call,
    distances: Sequence[Dim],
    updates: Tensor,
    update_index: Sequence[Dim],
    rest: Sequence[_Update],
    otherwise: Callable[[], Element],
) -> Element:
    """The update at an index if all distances are at least 0, else an update of ``rest``."""
    if not distances:
        return updates.at(update_index)
    return choose(
        call.case,
        distances[0],
        lambda: _chosen(call, distances[1:], updates, update_index, rest, otherwise),
        lambda: _replaced(call, rest, updates, otherwise),
    )


@denotes("Scaler", domain="ai.onnx.ml")
def scaler(call: Call) -> Tensor | None:
    """``(x - offset) * scale`` for each feature; features are along the last axis."""
    x = call.operand(0)
    offsets, scales = call.attribute("offset") or [0.0], call.attribute("scale") or [1.0]
    if call.case.is_exact or call.dtype() != TensorProto.FLOAT or x.dtype != TensorProto.FLOAT:
        return None
    numbers = [np.asarray(values, np.float32) for values in (offsets, scales)]
    if any(array.size not in (1, x.shape[-1]) for array in numbers):
        return None
    offset, scale = (_feature(array) for array in numbers)
    return Tensor(
        x.shape,
        x.dtype,
        lambda indices: (real(x.at(indices)) - offset(indices[-1])) * scale(indices[-1]),
    )


def _feature(array: np.ndarray[Any, Any]) -> Callable[[Dim], Element]:
    stored = stored_tensor(array, TensorProto.FLOAT, keeps_zeros=False)
    return lambda index: stored.at([index])


@denotes("ArgMax", "ArgMin")
def arg_max(call: Call) -> Tensor | None:
    """The index of the greatest element along an axis; over real numbers, ArgMin is ArgMax of the
    negated elements.

    Represented as an uninterpreted function of one argument: the sum of all elements along the
    axis, each tagged with its index.
    """
    x, name = call.operand(0), call.node.op_type
    if not is_float(x.dtype):
        return None
    axis = axis_within(call.attribute("axis", 0), x.rank)
    last = call.attribute("select_last_index", 0)
    sign = 1
    if name == "ArgMin" and not call.case.is_exact:
        name, sign = "ArgMax", -1
    keeps = call.attribute("keepdims", 1)

    def read(indices: Indices) -> Element:
        inner = list(indices[:axis]), list(indices[axis + 1 if keeps else axis :])

        def mark(k: Dim) -> Element:
            value = real(x.at([*inner[0], k, *inner[1]]))
            return function(name, "of", args=[value.scaled(sign), k])

        return function(name, last, args=[total(call.case, x.shape[axis], mark)])

    shape = [*x.shape[:axis], *[1] * bool(keeps), *x.shape[axis + 1 :]]
    return Tensor(shape, call.dtype(), read)
