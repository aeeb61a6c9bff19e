"""Tensors that are read in parts, so that their size does not matter."""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from xoptim.facts.dtypes import bits, byte_size
from xoptim.facts.errors import ModelError
from xoptim.graph.stored import data_size, raw_data
from xoptim.system.files import is_hole

PART: Final = 1 << 24
"""Bytes of the parts in which large tensors are read."""
SAMPLES: Final = 3
"""Number of samples: of the beginning, the middle and the end."""
_SAMPLE_BYTES: Final = 64
Box: TypeAlias = tuple[slice, ...]
"""A part of a tensor: a start and a stop for each axis, as numbers."""


class Parts:
    """The queries that a tensor of any size answers."""

    __slots__ = ("_digest", "_sample", "dtype", "is_external", "shape")

    dtype: int  # element type, a value of ``onnx.TensorProto.DataType``
    shape: tuple[int, ...]  # number of elements along each axis
    # whether the data is in a file of its own, or is computed from such data when it is needed
    is_external: bool
    _digest: bytes | None
    _sample: dict[int, bytes] | None

    @abstractmethod
    def numpy(self) -> np.ndarray:
        """All numbers."""

    @abstractmethod
    def to_raw(self) -> bytes:
        """All data."""

    @abstractmethod
    def place(self) -> tuple[Path, int, int] | None:
        """File, offset and number of bytes of the data, ``None`` when no file holds them as they
        are.
        """

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def whole(self) -> Box:
        """The part that covers the tensor."""
        return tuple(slice(0, dim) for dim in self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the data (strings count eight bytes each)."""
        return data_size(self.dtype, self.shape)

    def read(self, box: Box) -> np.ndarray:
        """The numbers of a part; of external data only this part is read. Do not modify the result.

        Raises `ModelError` as `numpy`.
        """
        return self.numpy()[box]

    def read_flat(self, start: int, stop: int) -> np.ndarray:
        """The elements from one position to another, in row-major order, as a vector.

        For the rest see `read`.
        """
        box: list[slice] = []
        for axis, dim in enumerate(self.shape):
            inner = math.prod(self.shape[axis + 1 :])
            low, high = start // inner, (stop - 1) // inner + 1
            start, stop = start - low * inner, stop - low * inner
            box.append(slice(low, high))
            if high - low > 1:
                box += [slice(0, size) for size in self.shape[axis + 1 :]]
                break
            assert high <= dim
        return self.read(tuple(box)).reshape(-1)[start:stop]

    def is_hole(self, box: Box) -> bool:
        """Whether a part lies in a hole of a sparse file, so that all of it is zero.

        Found without reading it.
        """
        place = self.place()
        if place is None or bits(self.dtype) < 8:
            return False
        path, offset, _ = place
        if any(span.stop <= span.start for span in box):
            return False
        first = flat_position(self.shape, [span.start for span in box])
        last = flat_position(self.shape, [span.stop - 1 for span in box])
        return is_hole(
            path, offset + byte_size(self.dtype, first), byte_size(self.dtype, last + 1 - first)
        )

    def is_readable(self) -> bool:
        """Whether the data can be read: the folder of a model may not be known, or a file be
        missing.
        """
        try:
            self.place()
        except ModelError:
            return False
        return True

    def sample(self, number: int) -> bytes:
        """Some of the bytes; ``number`` is less than `SAMPLES`.

        Tensors of one type and shape differ if their samples differ.
        """
        if self._sample is None:
            self._sample = {}
        if number not in self._sample:
            self._sample[number] = self._find_sample(number)
        return self._sample[number]

    @property
    def is_sampled(self) -> bool:
        """Whether samples may differ: small tensors have empty ones."""
        return bits(self.dtype) >= 8 and self.nbytes > 2 * _SAMPLE_BYTES

    def _find_sample(self, number: int) -> bytes:
        if not self.is_sampled:
            return b""
        width = bits(self.dtype) // 8
        count = _SAMPLE_BYTES // width
        place = (self.size - count) * number // (SAMPLES - 1)
        if self.is_external and not self.is_readable():
            return b""
        if self.is_external:
            return raw_data(self.dtype, self.read_flat(place, place + count))
        return self.to_raw()[place * width : (place + count) * width]

    def digest(self) -> bytes:
        """A hash of the bits, which are read in parts.

        Tensors of one type and shape with equal hashes have equal bits. A hole of a sparse file has
        a hash of its own, so that its zeros are not read.
        """
        if self._digest is None:
            is_hole = self.is_hole(self.whole)
            # `person` makes another hash function: no data has the hash of a hole
            digest = hashlib.blake2b(digest_size=20, person=b"hole" if is_hole else b"")
            if is_hole:
                digest.update(self.nbytes.to_bytes(8))
            elif bits(self.dtype) < 8:
                digest.update(self.to_raw())
            else:
                step = PART // (bits(self.dtype) // 8)
                for start in range(0, self.size, step):
                    digest.update(
                        raw_data(self.dtype, self.read_flat(start, min(start + step, self.size)))
                    )
            self._digest = digest.digest()
        return self._digest


def flat_position(shape: Sequence[int], indices: Sequence[int]) -> int:
    """Number of elements before the one at some indices, in row-major order."""
    position = 0
    for dim, index in zip(shape, indices, strict=True):
        position = position * dim + index
    return position
