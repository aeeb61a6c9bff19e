"""A constant as the protobuf of a model holds it, its data inside or in an external file."""

import math
import stat
import sys
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.dtypes import bits, byte_size
from xoptim.facts.errors import MissingWeightsError, ModelError
from xoptim.facts.lazy import lazy_module
from xoptim.facts.words import abridged, quoted, whole_number

if TYPE_CHECKING:
    import onnx_ir as ir
else:
    ir = lazy_module("onnx_ir")

_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT32: "int32_data",
    TensorProto.INT64: "int64_data",
}


SMALL: Final = 1 << 16
"""An external tensor of at most this many bytes is read at once, and not mapped."""
_MAX_AXES: Final = 64
_ELEMENT_LIMIT: Final = 1 << 63
"""Every tensor has fewer elements."""


class StoredTensor:
    """Reads a tensor of a protobuf, which is kept by reference and never modified, its data inside
    or in an external file.

    ``base_dir`` is the folder of the model, against which the location of external data is
    resolved. Raises `ModelError` when the element type is unknown, or a dimension negative.
    """

    __slots__ = ("_base_dir", "_proto", "dtype", "is_external", "shape")

    def __init__(self, proto: TensorProto, base_dir: Path | None = None) -> None:
        self._proto = proto
        self._base_dir = base_dir
        self.dtype = proto.data_type
        self.shape = shape = tuple(proto.dims)
        self.is_external = proto.data_location == TensorProto.EXTERNAL
        if self.dtype not in _TYPES:
            raise ModelError(
                f"{self._label} is damaged, or newer than the installed onnx: its type is "
                f"{self.dtype}"
            )
        if shape and min(shape) < 0:
            raise ModelError(f"{self._label} is damaged: its shape is {list(shape)}")
        if len(shape) > _MAX_AXES:
            raise ModelError(
                f"{self._label} has {len(shape)} axes; numpy reads {_MAX_AXES} at most"
            )
        if len(shape) > 1 and math.prod(shape) >= _ELEMENT_LIMIT:
            raise ModelError(f"{self._label} is damaged: its shape has 2^63 elements or more")

    @property
    def _label(self) -> str:
        return f"tensor {self._proto.name!r}" if self._proto.name else "a constant"

    @property
    def nbytes(self) -> int:
        """Number of bytes that the data should have."""
        return data_size(self.dtype, self.shape)

    def check_count(self) -> None:
        """Raise `ModelError` unless there are as many numbers as the shape requires; external data
        and types other than float, double, int32 and int64 are not checked.
        """
        field = _FIELDS.get(self.dtype)
        if field is None or self.is_external:
            return
        if self._proto.HasField("raw_data"):
            count, expected, unit = len(self._proto.raw_data), self.nbytes, "bytes of data"
        else:
            count, expected, unit = (
                len(getattr(self._proto, field)),
                math.prod(self.shape),
                "numbers",
            )
        if count != expected:
            raise ModelError(f"{self._label} is damaged: {count} {unit}, {expected} expected")

    def check_size(self) -> None:
        """Raise `ModelError` unless the protobuf is large enough.

        An element takes at least 8 bits, or its own width if that is smaller.
        """
        minimum = math.prod(self.shape) * min(bits(self.dtype), 8) // 8
        if not self.is_external and self._proto.ByteSize() < minimum:
            raise ModelError(
                f"{self._label} is damaged: it has fewer than the {math.prod(self.shape)} numbers "
                "that its shape demands"
            )

    def external_location(self) -> tuple[Path, int, int]:
        """File, offset and number of bytes of external data.

        Raises `ModelError` when the location leaves the folder of the model, and
        `MissingWeightsError` when the file is missing or too short.
        """
        entries, label = self._entries(), self._label
        location = entries.get("location", "")
        base = (self._base_dir or Path()).resolve()
        try:
            path = (base / found_location(location, base)).resolve()
            available = _size_of(path)
        # an invalid file name, a cycle of links
        except (OSError, ValueError, RuntimeError, TypeError) as error:
            reason = (
                "it is not UTF-8"
                if isinstance(error, TypeError)
                else getattr(error, "strerror", None) or error
            )
            raise ModelError(
                f"{label}: external data {location[:100]!r} cannot be read: {reason}"
            ) from error
        if not path.is_relative_to(base):
            raise ModelError(
                f"{label}: external data {quoted(location)} is outside the model's folder"
            )
        if available < 0:
            problem = (
                "is not a file"
                if location and path.exists()
                else "is missing; put it next to the model"
            )
            raise MissingWeightsError(f"{label}: external data file {quoted(path)} {problem}")
        offset, length = (
            self._bytes(entries.get("offset"), 0),
            self._bytes(entries.get("length"), self.nbytes),
        )
        if length < self.nbytes or available < offset + length:
            raise MissingWeightsError(
                f"{label}: external data file {quoted(path)} is too short; it may be truncated"
            )
        return path, offset, length

    def _bytes(self, text: str | None, default: int) -> int:
        """A number of bytes that the protobuf states as a text."""
        number = whole_number(text) if text else default
        if number is None:
            raise ModelError(
                f"{self._label}: the offset or length of its external data is not a number below "
                f"2^63: {abridged(text or '')}"
            )
        return number

    def place(self) -> tuple[str | None, ...]:
        """Folder, file, offset and length of external data, as written: equal places hold equal
        data.
        """
        entries = self._entries()
        return (
            str(self._base_dir),
            entries.get("location"),
            entries.get("offset"),
            entries.get("length"),
        )

    def _entries(self) -> dict[str, str]:
        return {entry.key: entry.value for entry in self._proto.external_data}

    def numpy(self) -> np.ndarray:
        """The numbers. External data is mapped into memory, not read, unless it is small.

        Raises `ModelError` when the data is damaged or missing.
        """
        try:
            array = self._read()
        except (ValueError, TypeError, AssertionError, OSError) as error:
            raise ModelError(f"{self._label} is damaged: {error}") from error
        if array.dtype.isbuiltin == 0:  # an explicit byte order: equal types would compare unequal
            array = array.view(np.dtype(array.dtype.char))
        return array

    def _read(self) -> np.ndarray:
        proto = self._proto
        if self.is_external and self.nbytes <= SMALL and self.dtype != TensorProto.STRING:
            copy = TensorProto(data_type=self.dtype, dims=self.shape, raw_data=self.to_raw())
            array = onnx.numpy_helper.to_array(copy)
        elif self.is_external:
            self.external_location()
            copy = deepcopy(proto)
            set_location(copy, found_location(self._entries().get("location", ""), self._base_dir))
            array = ir.serde.deserialize_tensor(copy, self._base_dir or "").numpy()
        elif self.dtype == TensorProto.STRING:
            array = np.array([text.decode() for text in proto.string_data], dtype=object)
        else:
            if bits(self.dtype) < 8 or not proto.HasField("raw_data"):
                self.to_raw()  # raises for missing data, which would be read as zeros
            array = self._parse()
        return array.reshape(self.shape)

    def _parse(self) -> np.ndarray:
        try:
            return onnx.numpy_helper.to_array(self._proto)
        except (ValueError, TypeError, KeyError) as error:
            raise ModelError(f"{self._label} is damaged: {error}") from error

    def to_raw(self, array: np.ndarray | None = None) -> bytes:
        """The data as ``raw_data`` holds it; ``array``: the numbers, if they were read before.

        Raises `ModelError` as `numpy`.
        """
        if self.is_external:
            path, offset, _ = self.external_location()
            with path.open("rb") as stream:
                stream.seek(offset)
                raw = stream.read(self.nbytes)
        elif self._proto.HasField("raw_data"):
            raw = self._proto.raw_data
        else:
            raw = raw_data(self.dtype, self._parse() if array is None else array)
        if bits(self.dtype) and len(raw) != self.nbytes:
            raise ModelError(
                f"{self._label} is damaged: {len(raw)} bytes of data, {self.nbytes} expected"
            )
        return raw

    def to_proto(self, name: str) -> TensorProto:
        """The protobuf, or a copy of it with another name."""
        if self._proto.name == name:
            return self._proto
        copy = deepcopy(self._proto)
        copy.name = name
        return copy


def found_location(location: str, base_dir: Path | None) -> str:
    """The location of external data with the separators of this system.

    Exporters on Windows separate folders by backslashes. A file whose name contains a backslash
    takes precedence.
    """
    folder = base_dir or Path()
    if "\\" not in location or (folder / location).exists():
        return location
    portable = location.replace("\\", "/")
    return portable if (folder / portable).exists() else location


def is_unsettled(proto: TensorProto, base_dir: Path | None) -> bool:
    """Whether the location of an external tensor has the separators of another system."""
    return any(
        e.key == "location" and found_location(e.value, base_dir) != e.value
        for e in proto.external_data
    )


def set_location(proto: TensorProto, location: str) -> None:
    """Let an external tensor refer to another file."""
    for entry in proto.external_data:
        if entry.key == "location":
            entry.value = location


def data_size(dtype: int, shape: tuple[int, ...]) -> int:
    """Number of bytes of the data of a tensor (strings count eight bytes each)."""
    size = math.prod(shape)
    return size * 8 if dtype == TensorProto.STRING else byte_size(dtype, size)


def raw_data(dtype: int, array: np.ndarray) -> bytes:
    """An array as ``raw_data`` holds it: little-endian, row-major, narrow types packed."""
    if bits(dtype) < 8:
        return onnx.numpy_helper.from_array(array).raw_data
    array = np.ascontiguousarray(array)
    return array.tobytes() if sys.byteorder == "little" else array.byteswap().tobytes()


def _size_of(path: Path) -> int:
    """Bytes of a file, -1 when there is none.

    Raises `OSError` for a cycle of links, which `Path.resolve` accepts since 3.13.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1
