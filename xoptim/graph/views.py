"""Constants that are computed from stored ones, part by part, when they are written.

A view takes no memory: its numbers are read when they are needed.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from onnx import TensorProto

from xoptim.graph.parts import Box, flat_position
from xoptim.graph.stored import raw_data
from xoptim.graph.tensors import Tensor

Function: TypeAlias = Callable[..., np.ndarray]
"""Computes each element of a result from the elements at the same position of its operands."""


class View(Tensor):
    """A constant that is computed from other constants, its operands."""

    __slots__ = ("operands", "settings")

    def __init__(
        self,
        dtype: int,
        shape: Sequence[int],
        operands: Sequence[Tensor],
        settings: tuple[object, ...],
    ) -> None:
        self._describe(dtype, tuple(shape), is_external=True)
        self._stored = self._array = None
        self.operands = tuple(operands)
        self.settings = settings  # the values that, with its operands, identify the view

    def read(self, box: Box) -> np.ndarray:
        raise NotImplementedError

    def numpy(self) -> np.ndarray:
        return self.read(self.whole)

    def check_count(self) -> None:
        """Nothing to check: the operands have been checked."""

    def place(self) -> tuple[Path, int, int] | None:
        """File, offset and number of bytes, if an operand has the same data as the view."""
        return None

    def is_hole(self, box: Box) -> bool:
        """Whether a part reads nothing but zeros of a hole."""
        return False

    def is_readable(self) -> bool:
        return all(operand.is_readable() for operand in self.operands)

    def fast_axes(self) -> tuple[int, ...]:
        """The axes along which stored bytes are adjacent; empty stands for the last axis."""
        return ()

    def _content(self) -> object:
        return type(self).__name__, self.settings, *(operand.key() for operand in self.operands)

    def to_raw(self) -> bytes:
        return raw_data(self.dtype, self.numpy())

    def to_proto(self, name: str) -> TensorProto:
        return TensorProto(name=name, data_type=self.dtype, dims=self.shape, raw_data=self.to_raw())


class Transposed(View):
    """A constant with its axes permuted: axis ``i`` is axis ``perm[i]`` of the operand."""

    __slots__ = ("perm",)

    def __init__(self, source: Tensor, perm: Sequence[int]) -> None:
        self.perm = tuple(perm)
        super().__init__(
            source.dtype, [source.shape[axis] for axis in perm], [source], (self.perm,)
        )

    def _source_box(self, box: Box) -> Box:
        """The part of the operand that a part of the view reads."""
        of_axis = dict(zip(self.perm, box, strict=True))
        return tuple(of_axis[axis] for axis in range(len(box)))

    def read(self, box: Box) -> np.ndarray:
        return self.operands[0].read(self._source_box(box)).transpose(self.perm)

    def is_hole(self, box: Box) -> bool:
        return self.operands[0].is_hole(self._source_box(box))

    def fast_axes(self) -> tuple[int, ...]:
        """The axes that were the fast axes of the operand, or its last axis."""
        source = self.operands[0]
        axes = source.fast_axes() if isinstance(source, View) else ()
        return tuple(self.perm.index(axis) for axis in axes or (len(self.perm) - 1,))


class Reshaped(View):
    """A constant with another shape, its elements in the same order."""

    __slots__ = ()

    def __init__(self, source: Tensor, shape: Sequence[int]) -> None:
        super().__init__(source.dtype, shape, [source], (tuple(shape),))

    def place(self) -> tuple[Path, int, int] | None:
        """The place of the operand: the bytes are the same."""
        return self.operands[0].place()

    def read(self, box: Box) -> np.ndarray:
        """The numbers of a part, taken from the range of the operand that contains them."""
        if self.place() is not None:
            return self.operands[0].numpy().reshape(self.shape)[box]
        axis = next(
            (axis for axis, span in enumerate(box) if span.stop - span.start != 1), len(box) - 1
        )
        if axis < 0 or not math.prod(span.stop - span.start for span in box):
            return self.operands[0].numpy().reshape(self.shape)[box]
        inner = math.prod(self.shape[axis + 1 :])
        start = flat_position(
            self.shape,
            [span.start for span in box[:axis]] + [box[axis].start] + [0] * (len(box) - axis - 1),
        )
        length = box[axis].stop - box[axis].start
        flat = self.operands[0].read_flat(start, start + length * inner)
        return flat.reshape(*[1] * axis, length, *self.shape[axis + 1 :])[
            (slice(None),) * (axis + 1) + box[axis + 1 :]
        ]


class Sliced(View):
    """Ranges of the axes of a constant: index ``i`` along an axis is index ``start + i * step`` of
    the operand.
    """

    __slots__ = ("starts", "steps")

    def __init__(
        self, source: Tensor, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
    ) -> None:
        self.starts, self.steps = tuple(starts), tuple(steps)
        super().__init__(source.dtype, shape, [source], (self.starts, self.steps, tuple(shape)))

    def _source_box(self, box: Box) -> Box:
        """The smallest part of the operand that contains a part of the view."""
        spans = []
        for span, start, step in zip(box, self.starts, self.steps, strict=True):
            ends = (start + span.start * step, start + (span.stop - 1) * step)
            spans.append(slice(min(ends), max(ends) + 1))
        return tuple(spans)

    def read(self, box: Box) -> np.ndarray:
        return self.operands[0].read(self._source_box(box))[
            tuple(slice(None, None, step) for step in self.steps)
        ]

    def place(self) -> tuple[Path, int, int] | None:
        """The place, if the data is one range of the operand: all steps are 1, and only the first
        axis longer than 1 is cut.
        """
        source = self.operands[0]
        place, axis = (
            source.place(),
            next((axis for axis, dim in enumerate(source.shape) if dim != 1), 0),
        )
        if (
            place is None
            or set(self.steps) != {1}
            or self.shape[axis + 1 :] != source.shape[axis + 1 :]
            or not self.nbytes
        ):
            return None
        row = source.nbytes // source.shape[axis]
        return place[0], place[1] + self.starts[axis] * row, self.nbytes

    def is_hole(self, box: Box) -> bool:
        return self.operands[0].is_hole(self._source_box(box))

    def fast_axes(self) -> tuple[int, ...]:
        source = self.operands[0]
        return source.fast_axes() if isinstance(source, View) else ()


class Joined(View):
    """Constants of one type, concatenated along an axis."""

    __slots__ = ("axis",)

    def __init__(self, parts: Sequence[Tensor], axis: int) -> None:
        first = parts[0]
        length = sum(part.shape[axis] for part in parts)
        super().__init__(
            first.dtype,
            [length if a == axis else dim for a, dim in enumerate(first.shape)],
            parts,
            (axis,),
        )
        self.axis = axis

    def read(self, box: Box) -> np.ndarray:
        pieces, place, span = [], 0, box[self.axis]
        for part in self.operands:
            low, high = max(span.start - place, 0), min(span.stop - place, part.shape[self.axis])
            if low < high:
                pieces.append(
                    part.read((*box[: self.axis], slice(low, high), *box[self.axis + 1 :]))
                )
            place += part.shape[self.axis]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=self.axis)


class Elementwise(View):
    """A function, without side effects and identified by ``name``, of each element of
    broadcast-compatible constants.
    """

    __slots__ = ("_function",)

    def __init__(
        self,
        function: Function,
        name: str,
        operands: Sequence[Tensor],
        dtype: int,
        shape: Sequence[int],
    ) -> None:
        super().__init__(dtype, shape, operands, (name, dtype))
        self._function = function

    def read(self, box: Box) -> np.ndarray:
        values = []
        for operand in self.operands:
            pairs = zip(operand.shape, box[len(box) - len(operand.shape) :], strict=True)
            values.append(
                operand.read(tuple(slice(0, 1) if dim == 1 else span for dim, span in pairs))
            )
        with np.errstate(all="ignore"):
            result = np.asarray(self._function(*values))
        return np.broadcast_to(result, [span.stop - span.start for span in box])

    def fast_axes(self) -> tuple[int, ...]:
        """The fast axes of the operand of this shape."""
        source = next((operand for operand in self.operands if operand.shape == self.shape), None)
        return source.fast_axes() if isinstance(source, View) else ()


def transposed(source: Tensor, perm: Sequence[int]) -> Tensor:
    """A constant with its axes permuted; nested permutations are merged."""
    if isinstance(source, Transposed):
        perm = [source.perm[axis] for axis in perm]
        source = source.operands[0]
    axes = [axis for axis in perm if source.shape[axis] != 1]
    if list(perm) == sorted(perm):
        return source
    if axes == sorted(axes):
        return reshaped(source, [source.shape[axis] for axis in perm])
    return Transposed(source, perm)


def reshaped(source: Tensor, shape: Sequence[int]) -> Tensor:
    """A constant with another shape; nested reshapes are merged."""
    if isinstance(source, Reshaped):
        source = source.operands[0]
    return source if tuple(shape) == source.shape else Reshaped(source, shape)


def sliced(
    source: Tensor, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> Tensor:
    """Ranges of the axes of a constant; nested ranges are merged."""
    if isinstance(source, Sliced):
        starts = [
            s + start * step
            for s, start, step in zip(source.starts, starts, source.steps, strict=True)
        ]
        steps = [a * b for a, b in zip(source.steps, steps, strict=True)]
        source = source.operands[0]
    if source.shape == tuple(shape) and not any(starts) and set(steps) <= {1}:
        return source
    return Sliced(source, starts, steps, shape)
