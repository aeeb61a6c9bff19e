"""Arrays of ``.npz`` files: opening checks their headers, and the first access reads their data."""

import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple

import numpy as np

from xoptim.facts.words import bytes_text
from xoptim.system.machine import available_memory
from xoptim.system.reading import open_file
from xoptim.verification.errors import ChoiceError

_SUFFIX: Final = ".npy"
_ZIP: Final = b"PK"  # the first bytes of an archive
_HEADERS: Final = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Readers of headers by version; version 3 is only for names of fields outside Latin-1."""


class _Member(NamedTuple):
    entry: zipfile.ZipInfo
    preview: np.ndarray  # zeros of the type and shape


class Archive(Mapping[str, np.ndarray]):
    """The arrays of an ``.npz`` file by name; the first access reads the data of all.

    Names, types and shapes are known without that, so that callers can check them first. Python
    objects are refused, and arrays that do not fit into the free memory.

    Raises `ChoiceError` when the file is not an archive of arrays and, on access, when an array
    cannot be read.

    Args:
        path: the file.
        label: a word for the arrays in messages, such as ``feeds``.
    """

    def __init__(self, path: Path, label: str) -> None:
        self.path, self._label = path, label
        self._arrays: dict[str, np.ndarray] = {}
        try:
            with open_file(path) as stream, _archive_in(stream) as archive:
                self._members = {
                    entry.filename.removesuffix(_SUFFIX): _member(archive, entry)
                    for entry in archive.infolist()
                }
        # numpy, zipfile and zlib raise a dozen unrelated types for a file that is not an archive
        except Exception as error:
            raise self._unreadable(error) from error

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._members:
            raise KeyError(name)
        if not self._arrays:
            try:
                self._arrays = self._read()
            except Exception as error:
                raise self._unreadable(error) from error
        return self._arrays[name]

    def unread(self) -> "Archive":
        """The same file, without the data that was read: many archives may not fit into memory."""
        return Archive(self.path, self._label)

    def preview(self, name: str) -> np.ndarray:
        """Zeros with the type and shape of an array; they take no memory."""
        return self._members[name].preview

    def _read(self) -> dict[str, np.ndarray]:
        size = sum(member.preview.nbytes for member in self._members.values())
        free = available_memory()
        if free is not None and size > free:
            raise ValueError(f"it takes {bytes_text(size)} of memory, {bytes_text(free)} is free")
        with open_file(self.path) as stream, _archive_in(stream) as archive:
            return {name: _array(archive, member.entry) for name, member in self._members.items()}

    def _unreadable(self, error: Exception) -> ChoiceError:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        return ChoiceError(
            f"cannot read {self._label} from {str(self.path)!r}: "
            f"{reason or type(error).__name__}; write them with numpy.savez"
        )


def _archive_in(stream: IO[bytes]) -> zipfile.ZipFile:
    start = stream.read(len(np.lib.format.MAGIC_PREFIX))
    if start == np.lib.format.MAGIC_PREFIX:
        raise ValueError("it holds one array without a name")
    if not start.startswith(_ZIP):
        raise ValueError("it is not an .npz archive")
    return zipfile.ZipFile(stream)


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as stream:
        array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # zipfile compares the checksum at the end
        return array


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> _Member:
    """An array, described by its header.

    Raises `ValueError` for Python objects, and when the size of the entry does not fit its header.
    """
    name = entry.filename
    with archive.open(entry) as stream:
        try:
            read_header = _HEADERS[np.lib.format.read_magic(stream)]
            shape, _, dtype = read_header(stream)
        except Exception as error:  # numpy evaluates the header as Python
            raise ValueError(f"{name!r} has no header of an array") from error
        start = stream.tell()
    if dtype.hasobject:
        raise ValueError("it holds Python objects; strings need the dtype str")
    count = math.prod(shape)
    if entry.file_size != start + count * dtype.itemsize or (count > 1 and not dtype.itemsize):
        raise ValueError(
            f"{name!r} is damaged: {entry.file_size - start:,} bytes of data, "
            f"{count * dtype.itemsize:,} expected"
        )
    return _Member(entry, np.broadcast_to(np.zeros((), dtype), shape))
