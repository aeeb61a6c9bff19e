"""Constants as handles: in the protobuf, in an external file, or an array.

Numbers are read only when needed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.attributes import constant_value
from xoptim.facts.shapes import Info
from xoptim.graph.node import Node
from xoptim.graph.parts import Parts
from xoptim.graph.stored import SMALL, StoredTensor, raw_data
from xoptim.operators.inference.values import DATA_LIMIT, RANGES, integral_values, valued

UNIFORM_LIMIT = 1 << 14
"""Maximal number of elements of a constant that are compared with each other."""


def text_bytes(count: int, longest: int) -> int:
    """Number of bytes to expect of texts of up to ``longest`` characters."""
    return count * (longest + 8)


class Tensor(Parts):
    """One constant: an array, or a tensor of a protobuf whose numbers are read when they are
    needed.
    """

    __slots__ = ("_array", "_info", "_key", "_longest", "_stored", "_uniform")

    _stored: StoredTensor | None
    _array: np.ndarray | None

    def __init__(self, source: StoredTensor | np.ndarray) -> None:
        if isinstance(source, StoredTensor):
            self._describe(source.dtype, source.shape, is_external=source.is_external)
        else:
            self._describe(
                onnx.helper.np_dtype_to_tensor_dtype(source.dtype), source.shape, is_external=False
            )
        self._stored = source if isinstance(source, StoredTensor) else None
        self._array = source if isinstance(source, np.ndarray) else None

    def _describe(self, dtype: int, shape: tuple[int, ...], *, is_external: bool) -> None:
        """Set what is known before any number is read."""
        self._key: tuple[object, ...] | None = None
        self._sample = self._digest = None
        self._info: Info | None = None
        self._uniform: tuple[np.ndarray | None] | None = None
        self._longest: int | None = None
        self.dtype, self.shape, self.is_external = dtype, shape, is_external

    @classmethod
    def from_proto(cls, proto: TensorProto, base_dir: Path | None = None) -> Tensor:
        """Wrap a tensor of a protobuf, which is kept by reference; see `StoredTensor`."""
        return cls(StoredTensor(proto, base_dir))

    @classmethod
    def from_array(cls, array: np.ndarray) -> Tensor:
        """Wrap an array of any ONNX type (bfloat16 and narrower types through ``ml_dtypes``)."""
        array = np.asarray(array)
        if array.dtype.kind in "SU":
            array = array.astype(object)
        elif not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return cls(array)

    @property
    def stored_bytes(self) -> int:
        """Number of bytes of the data that the model needs to hold."""
        return (
            text_bytes(self.size, self.longest_text())
            if self.dtype == TensorProto.STRING
            else self.nbytes
        )

    def longest_text(self) -> int:
        """Characters of the longest text, 0 for numbers; computed once."""
        if self.dtype != TensorProto.STRING:
            return 0
        if self._longest is None:
            self._longest = max(map(len, self.numpy().ravel().tolist()), default=0)
        return self._longest

    def check_size(self) -> None:
        """Raise `ModelError` if the data of a protobuf cannot have as many numbers as the shape
        requires.
        """
        if self._stored is not None:
            self._stored.check_size()

    def check_count(self) -> None:
        """Raise `ModelError` if a small tensor lacks numbers.

        Large ones are checked when they are read.
        """
        if self._stored is not None and 0 < self.size <= UNIFORM_LIMIT:
            self._stored.check_count()

    def place(self) -> tuple[Path, int, int] | None:
        """File, offset and number of bytes of the data, ``None`` when no file holds them as they
        are.

        Raises `ModelError` when the file is missing, too short, or outside the folder of the model.
        """
        return (
            self._stored.external_location()
            if self._stored is not None and self.is_external
            else None
        )

    def numpy(self) -> np.ndarray:
        """The numbers; do not modify them. External data is mapped into memory, not read, unless it
        is small.

        Raises `ModelError` when the data is damaged or missing.
        """
        if self._array is not None:
            return self._array
        assert self._stored is not None
        array = self._stored.numpy()
        if array.nbytes <= SMALL:
            self._array = array
        return array

    def uniform(self) -> np.ndarray | None:
        """The common value of all elements, as an array of rank 0.

        ``None`` when they differ, or are too many to compare.
        """
        if self._uniform is None:
            self._uniform = (self._find_uniform(),)
        return self._uniform[0]

    def _find_uniform(self) -> np.ndarray | None:
        if (
            not 0 < self.size <= UNIFORM_LIMIT
            or self.dtype == TensorProto.STRING
            or not self._is_at_hand()
        ):
            return None
        flat = self.numpy().reshape(-1)
        return flat[:1].reshape(()) if flat.size == 1 or bool((flat == flat[0]).all()) else None

    def _is_at_hand(self) -> bool:
        """Whether the numbers can be read, and need not be computed from external data."""
        return not self.is_external or (self._stored is not None and self.is_readable())

    def info(self) -> Info:
        """Type and shape, and the elements of a short vector of whole numbers; computed once."""
        if self._info is None:
            self._info = self._find_info()
        return self._info

    def _find_info(self) -> Info:
        shape = self.shape
        if (
            len(shape) > 1
            or (shape and shape[0] > DATA_LIMIT)
            or self.dtype not in RANGES
            or not self._is_at_hand()
        ):
            return Info(self.dtype, shape)
        array = self.numpy()
        if self.dtype in (TensorProto.INT64, TensorProto.INT32):
            return Info(self.dtype, shape, tuple(array.ravel().tolist()))
        return valued(self.dtype, shape, integral_values(array))

    def key(self) -> tuple[object, ...]:
        """A key of the type, the shape and the bits: tensors with equal keys are equal.

        External data is identified by its place (file, offset, length) and not read, so that equal
        tensors may have different keys. An `ExpandedTensor` has another key than the same constant
        in full.
        """
        if self._key is None:
            self._key = (self.dtype, self.shape, self._content())
        return self._key

    def _content(self) -> object:
        if self._stored is not None and self.is_external:
            return self._stored.place()
        if self.dtype == TensorProto.STRING:
            return tuple(self.numpy().ravel().tolist())
        raw = self.to_raw()
        # A digest, because keys are kept: keys of large tensors would hold copies of their data.
        return raw if len(raw) <= 64 else hashlib.blake2b(raw, digest_size=20).digest()

    def to_raw(self) -> bytes:
        """The data as ``raw_data`` holds it: little-endian, row-major, narrow types packed.

        Raises `ModelError` as `numpy`.
        """
        return (
            self._stored.to_raw(self._array)
            if self._stored is not None
            else raw_data(self.dtype, self.numpy())
        )

    def to_proto(self, name: str) -> TensorProto:
        """A protobuf with this name.

        It may be the protobuf the tensor came from: do not modify it.
        """
        if self._stored is not None:
            return self._stored.to_proto(name)
        if self.dtype == TensorProto.STRING:
            return onnx.numpy_helper.from_array(self.numpy(), name)
        proto = TensorProto(name=name, data_type=self.dtype, dims=self.shape)
        proto.raw_data = self.to_raw()
        return proto

    def __repr__(self) -> str:
        return f"Tensor({TensorProto.DataType.Name(self.dtype)}, {self.shape})"


def constant_tensor(node: Node) -> Tensor | None:
    """The value of a Constant node, ``None`` when it is sparse, or when the caller of the function
    sets it.
    """
    value = constant_value(node.attribute)
    if value is None or isinstance(value, np.ndarray):
        return None if value is None else Tensor.from_array(value)
    return Tensor.from_proto(value, node.graph.model.base_dir if node.graph is not None else None)
