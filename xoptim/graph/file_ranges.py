"""Ranges of bytes of files: holes, copies made by the kernel, and writes at a position."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

_CHUNK: Final = 1 << 24
_UNSUPPORTED: Final = frozenset(
    (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EIO, errno.EBADF)
)
"""Errors of systems that cannot copy between two files."""
_SEEKING: Final = Lock()
"""Held where a write is a seek and a write: Windows has no ``pwrite``."""


def is_hole(path: Path, offset: int, length: int) -> bool:
    """Whether a range of a file is a hole, which reads as zeros and takes no space; False where the system cannot say."""
    if not hasattr(os, "SEEK_DATA"):
        return False
    end = offset + length
    with path.open("rb") as stream:
        return os.fstat(stream.fileno()).st_size >= end and _next_data(stream.fileno(), offset, end) >= end


def copy_range(source: Path, start: int, length: int, target: BinaryIO, offset: int) -> None:
    """Copy a range of a file into an empty range of another one; holes stay holes. Raises `OSError`.

    The kernel copies where it can; some file systems then share the blocks of both files.
    """
    with source.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size < start + length:  # the end of a file reads like a hole
            raise OSError(errno.EIO, f"{str(source)!r} became shorter")
        for first, size in _data_ranges(stream.fileno(), start, length):
            done = _copy_in_kernel(stream.fileno(), first, size, target.fileno(), offset + first - start)
            stream.seek(first + done)
            while done < size:
                chunk = stream.read(min(_CHUNK, size - done))
                if not chunk:
                    raise OSError(errno.EIO, f"{str(source)!r} became shorter")
                write_at(target, offset + first - start + done, memoryview(chunk))
                done += len(chunk)


def write_at(stream: BinaryIO, offset: int, data: memoryview) -> None:
    """Write bytes at a position of an unbuffered file; several threads may do so at the same time. Raises `OSError`."""
    while data:
        if hasattr(os, "pwrite"):
            written = os.pwrite(stream.fileno(), data, offset)
        else:
            with _SEEKING:
                stream.seek(offset)
                written = stream.write(data)
        data, offset = data[written:], offset + written


def check_space(folder: Path, size: int) -> None:
    """Raise `OSError` unless there is room for some bytes on the disk of a folder."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {size:,} bytes are needed, {free:,} are free")


def _copy_in_kernel(source: int, start: int, length: int, target: int, offset: int) -> int:
    """Copy by the kernel; returns the number of bytes copied, fewer than asked for where it does not copy between the two."""
    done = 0
    if not hasattr(os, "copy_file_range"):
        return done
    try:
        while done < length:
            count = os.copy_file_range(source, target, min(length - done, 1 << 30), start + done, offset + done)
            if not count:
                break
            done += count
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return done


def _data_ranges(file: int, start: int, length: int) -> Iterator[tuple[int, int]]:
    """Offset and length of the parts of a range that are not holes."""
    if not hasattr(os, "SEEK_DATA"):
        yield start, length
        return
    end = start + length
    position = _next_data(file, start, end)
    while position < end:
        try:
            hole = min(os.lseek(file, position, os.SEEK_HOLE), end)
        except OSError:
            hole = end
        yield position, hole - position
        position = _next_data(file, hole, end) if hole < end else end


def _next_data(file: int, start: int, end: int) -> int:
    """The first position of a range that is not in a hole; its end when there is none."""
    try:
        return min(os.lseek(file, start, os.SEEK_DATA), end)
    except OSError as error:
        return end if error.errno == errno.ENXIO else start
