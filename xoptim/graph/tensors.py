"""Constants as handles: in the protobuf, in an external file, or an array. Numbers are read only when needed."""

from __future__ import annotations

import hashlib
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.dtypes import bits, byte_size
from xoptim.facts.errors import ModelError
from xoptim.facts.info import Info
from xoptim.facts.lazy import lazy_module
from xoptim.graph.node import Node
from xoptim.inference.values import DATA_LIMIT, RANGES, integral_values, valued

if TYPE_CHECKING:
    import onnx_ir as ir
else:
    ir = lazy_module("onnx_ir")

_KNOWN = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT32: "int32_data",
    TensorProto.INT64: "int64_data",
}
UNIFORM_LIMIT = 1 << 14
"""Number of elements up to which a constant is searched for differing elements."""


class Tensor:
    """One constant.

    Attributes:
        dtype: element type, a value of ``onnx.TensorProto.DataType``.
        shape: number of elements along each axis.
    """

    __slots__ = ("_array", "_base_dir", "_info", "_key", "_proto", "_uniform", "dtype", "shape")

    def __init__(self, dtype: int, shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        self._proto: TensorProto | None = None
        self._array: np.ndarray | None = None
        self._base_dir: Path | None = None
        self._key: tuple[object, ...] | None = None
        self._info: Info | None = None
        self._uniform: tuple[np.ndarray | None] | None = None

    @classmethod
    def from_proto(cls, proto: TensorProto, base_dir: Path | None = None) -> Tensor:
        """Wrap a protobuf, which is kept by reference.

        Args:
            proto: the tensor, its data inside or in an external file.
            base_dir: folder of the model, against which the location of external data is resolved.

        Raises:
            ModelError: when the element type is unknown, or a dimension negative.
        """
        shape = tuple(proto.dims)
        if proto.data_type not in _KNOWN:
            raise ModelError(f"{_label(proto)} is damaged, or newer than the installed onnx: its type is {proto.data_type}")
        if shape and min(shape) < 0:
            raise ModelError(f"{_label(proto)} is damaged: its shape is {list(shape)}")
        tensor = cls(proto.data_type, shape)
        tensor._proto = proto
        tensor._base_dir = base_dir
        return tensor

    def check_count(self) -> None:
        """Check that a small tensor has as many numbers as its shape requires (large ones are checked when they are read).

        Raises:
            ModelError: when it does not.
        """
        proto, field = self._proto, _FIELDS.get(self.dtype)
        if proto is None or field is None or self.is_external or not 0 < self.size <= UNIFORM_LIMIT:
            return
        if proto.HasField("raw_data"):
            found, expected, unit = len(proto.raw_data), self.nbytes, "bytes of data"
        else:
            found, expected, unit = len(getattr(proto, field)), self.size, "numbers"
        if found != expected:
            raise ModelError(f"{_label(proto)} is damaged: {found} {unit}, {expected} expected")

    @classmethod
    def from_array(cls, array: np.ndarray) -> Tensor:
        """Wrap an array of any ONNX type (bfloat16 and narrower types through ``ml_dtypes``)."""
        array = np.asarray(array)
        if array.dtype.kind in "SU":
            array = array.astype(object)
        elif not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        tensor = cls(onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        tensor._array = array
        return tensor

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the data (strings count eight bytes each)."""
        return self.size * 8 if self.dtype == TensorProto.STRING else byte_size(self.dtype, self.size)

    @property
    def is_external(self) -> bool:
        """Whether the data is in a file of its own."""
        return self._proto is not None and self._proto.data_location == TensorProto.EXTERNAL

    @property
    def proto(self) -> TensorProto | None:
        """The protobuf this tensor came from, if any."""
        return self._proto

    @property
    def base_dir(self) -> Path | None:
        """Folder against which an external location is resolved."""
        return self._base_dir

    def external_location(self) -> tuple[Path, int, int]:
        """File, offset and number of bytes of external data.

        Raises:
            ModelError: when the location leaves the folder of the model, or the file is missing or too short.
        """
        assert self._proto is not None
        entries = {e.key: e.value for e in self._proto.external_data}
        location, label = entries.get("location", ""), _label(self._proto)
        base = (self._base_dir or Path()).resolve()
        try:
            path = (base / location).resolve()
            available = path.stat().st_size if path.is_file() else -1
        except (OSError, ValueError, RuntimeError, TypeError) as error:  # an invalid file name, a cycle of links
            reason = "it is not UTF-8" if isinstance(error, TypeError) else getattr(error, "strerror", None) or error
            raise ModelError(f"{label}: external data {location[:100]!r} cannot be read: {reason}") from error
        if not path.is_relative_to(base):
            raise ModelError(f"{label}: external data {location!r} is outside the model's folder")
        if available < 0:
            problem = "is not a file" if location and path.exists() else "is missing; put it beside the model"
            raise ModelError(f"{label}: external data file {str(path)!r} {problem}")
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or self.nbytes)
        except ValueError as error:
            raise ModelError(f"{label}: the place of its external data is not a number: {error}") from error
        if length < self.nbytes or offset < 0 or available < offset + length:
            raise ModelError(f"{label}: external data file {str(path)!r} is too short; it may be truncated")
        return path, offset, length

    def numpy(self) -> np.ndarray:
        """The numbers. External data is mapped into memory, not read. Do not modify the result.

        Raises:
            ModelError: when the data is damaged or missing.
        """
        if self._array is not None:
            return self._array
        proto = self._proto
        assert proto is not None
        try:
            array = self._read(proto)
        except (ValueError, TypeError, AssertionError, OSError) as error:
            raise ModelError(f"{_label(proto)} is damaged: {error}") from error
        if array.dtype.isbuiltin == 0:  # an explicit byte order: equal types would compare unequal
            array = array.view(np.dtype(array.dtype.char))
        if not self.is_external and array.nbytes <= 1 << 16:
            self._array = array
        return array

    def _read(self, proto: TensorProto) -> np.ndarray:
        if proto.data_location == TensorProto.EXTERNAL:
            self.external_location()
            array = ir.serde.deserialize_tensor(proto, self._base_dir or "").numpy()
        elif self.dtype == TensorProto.STRING:
            array = np.array([text.decode() for text in proto.string_data], dtype=object)
        else:
            if bits(self.dtype) < 8 or not proto.HasField("raw_data"):
                self.to_raw()  # raises for missing data, which would be read as zeros
            array = _parse(proto)
        return array.reshape(self.shape)

    def uniform(self) -> np.ndarray | None:
        """The common value of all elements, as an array of rank 0; ``None`` when they differ, or are too many to compare."""
        if self._uniform is None:
            self._uniform = (self._find_uniform(),)
        return self._uniform[0]

    def _find_uniform(self) -> np.ndarray | None:
        if not 0 < self.size <= UNIFORM_LIMIT or self.is_external or self.dtype == TensorProto.STRING:
            return None
        flat = self.numpy().reshape(-1)
        return flat[:1].reshape(()) if flat.size == 1 or bool((flat == flat[0]).all()) else None

    def info(self) -> Info:
        """Type and shape, and the elements of a short vector of whole numbers; computed once."""
        if self._info is None:
            self._info = self._find_info()
        return self._info

    def _find_info(self) -> Info:
        shape = self.shape
        if len(shape) > 1 or (shape and shape[0] > DATA_LIMIT) or self.dtype not in RANGES or self.is_external:
            return Info(self.dtype, shape)
        array = self.numpy()
        if self.dtype in (TensorProto.INT64, TensorProto.INT32):
            return Info(self.dtype, shape, tuple(array.ravel().tolist()))
        return valued(self.dtype, shape, integral_values(array))

    def key(self) -> tuple[object, ...]:
        """A key that is equal for two tensors exactly when their types, shapes and bits are; computed once.

        External data is identified by its place (file, offset, length) and not read.
        """
        if self._key is None:
            self._key = (self.dtype, self.shape, self._content())
        return self._key

    def _content(self) -> object:
        proto = self._proto
        if proto is not None and proto.data_location == TensorProto.EXTERNAL:
            entries = {e.key: e.value for e in proto.external_data}
            return str(self._base_dir), entries.get("location"), entries.get("offset"), entries.get("length")
        if self.dtype == TensorProto.STRING:
            return tuple(self.numpy().ravel().tolist())
        raw = self.to_raw()
        # A digest, because keys are kept: those of large tensors would hold copies of their data.
        return raw if len(raw) <= 64 else hashlib.blake2b(raw, digest_size=20).digest()

    def to_raw(self) -> bytes:
        """The data as ``raw_data`` holds it: little-endian, row-major, narrow types packed.

        Raises:
            ModelError: when the data is damaged or missing.
        """
        raw = self._stored()
        if self._proto is not None and bits(self.dtype) and len(raw) != self.nbytes:
            raise ModelError(f"{_label(self._proto)} is damaged: {len(raw)} bytes of data, {self.nbytes} expected")
        return raw

    def _stored(self) -> bytes:
        proto = self._proto
        if self.is_external:
            path, offset, _ = self.external_location()
            with path.open("rb") as stream:
                stream.seek(offset)
                return stream.read(self.nbytes)
        if proto is not None and proto.HasField("raw_data"):
            return proto.raw_data
        array = self._array
        if array is None:
            assert proto is not None
            array = _parse(proto)
        return _little_endian(array) if bits(self.dtype) >= 8 else onnx.numpy_helper.from_array(array).raw_data

    def to_proto(self, name: str) -> TensorProto:
        """A protobuf with this name. It may be the protobuf the tensor came from: do not modify it."""
        proto = self._proto
        if proto is not None:
            if proto.name == name:
                return proto
            renamed = TensorProto()
            renamed.CopyFrom(proto)
            renamed.name = name
            return renamed
        assert self._array is not None
        if self.dtype == TensorProto.STRING:
            return onnx.numpy_helper.from_array(self._array, name)
        proto = TensorProto(name=name, data_type=self.dtype, dims=self.shape)
        proto.raw_data = self.to_raw()
        return proto

    def __repr__(self) -> str:
        return f"Tensor({TensorProto.DataType.Name(self.dtype)}, {self.shape})"


def constant_value(node: Node) -> Tensor | None:
    """The value of a Constant node, ``None`` when it is an attribute of the calling function or sparse."""
    for name, value in node.attribute.items():
        if name == "value" and isinstance(value, np.ndarray):
            return Tensor.from_array(value)
        if name == "value" and hasattr(value, "data_type"):
            return Tensor.from_proto(value, node.graph.model.base_dir if node.graph is not None else None)
        if name in ("value_float", "value_floats") and isinstance(value, (float, list)):
            return Tensor.from_array(np.asarray(value, dtype=np.float32))
        if name in ("value_int", "value_ints") and isinstance(value, (int, list)):
            return Tensor.from_array(np.asarray(value, dtype=np.int64))
        if name in ("value_string", "value_strings") and isinstance(value, (str, bytes, list)):
            return Tensor.from_array(np.asarray(value, dtype=object))
    return None


def _label(proto: TensorProto) -> str:
    """The name of a tensor in messages."""
    return f"tensor {proto.name!r}" if proto.name else "a constant"


def _parse(proto: TensorProto) -> np.ndarray:
    try:
        return onnx.numpy_helper.to_array(proto)
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{_label(proto)} is damaged: {error}") from error


def _little_endian(array: np.ndarray) -> bytes:
    array = np.ascontiguousarray(array)
    return array.tobytes() if sys.byteorder == "little" else array.byteswap().tobytes()
