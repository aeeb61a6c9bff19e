"""Files: locks, replacement, and ranges of bytes: holes, copies by the kernel, writes."""

import errno
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

from xoptim.system.optional import fcntl, msvcrt

STANDARD_OUTPUT: Final = Path("/dev/stdout")
"""The path that means standard output for the command, as ``-o -`` does, also where there is no
such file.
"""
MODEL_SUFFIXES: Final = (".onnx", ".onnxtxt", ".onnxtext", ".textproto", ".pbtxt", ".onnxjson")
"""Endings of the names of files with models."""
MAPPING_ALIGNMENT: Final = 1 << 16 if sys.platform == "win32" else 1 << 12
"""Files are mapped into memory at multiples of this offset."""
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
"""Flag to open a file only if it is not a symbolic link, where the system can."""
_ATTEMPTS: Final = 10
_PAUSE: Final = 0.05  # seconds
_CHUNK: Final = 1 << 24
_UNSUPPORTED: Final = frozenset(
    (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EIO, errno.EBADF)
)
"""Errors of systems that cannot copy between two files."""
_SEEKING: Final = Lock()
"""Held where a write is a seek and a write: Windows has no ``pwrite``."""


def try_lock(file: int) -> bool:
    """Lock an open file until it is closed or the process ends.

    Returns False while another process has locked it.

    Where the system has no locks (a browser), the answer is True.
    """
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            os.lseek(file, 0, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def move(source: Path, target: Path) -> None:
    """Move a file within a disk, and replace the one that is there, if any, in one step.

    Raises `OSError`.

    Windows refuses it while a program, such as a virus scanner, has the old file open, mostly for a
    moment.
    """
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            os.replace(source, target)
        except PermissionError:
            if sys.platform != "win32" or not attempts_left:
                raise
            time.sleep(_PAUSE)
        else:
            return


def is_own(path: Path) -> bool:
    """Whether a file, and a link to it, belong to the user who runs this process.

    True where files have no owner.
    """
    if not hasattr(os, "getuid"):
        return True
    return {path.stat().st_uid, path.lstat().st_uid} == {os.getuid()}


def copy(source: Path, target: Path) -> None:
    """Hard-link a file to ``target``, or copy it where the file system has no hard links.

    Raises `OSError`.
    """
    try:
        os.link(source, target)
    except (OSError, NotImplementedError):
        shutil.copy2(source, target)


def is_hole(path: Path, offset: int, length: int) -> bool:
    """Whether a range of a file is a hole, which reads as zeros and takes no space.

    False where the system cannot say.
    """
    if not hasattr(os, "SEEK_DATA"):
        return False
    end = offset + length
    with path.open("rb") as stream:
        return (
            os.fstat(stream.fileno()).st_size >= end
            and _next_data(stream.fileno(), offset, end) >= end
        )


def copy_range(source: Path, start: int, length: int, target: BinaryIO, offset: int) -> None:
    """Copy a range of a file into an empty range of another one; holes stay holes.

    Raises `OSError`.

    The kernel copies where it can; some file systems then share the blocks of both files.
    """
    with source.open("rb") as stream:
        copy_open_range(stream, start, length, target, offset)


def copy_open_range(
    stream: BinaryIO, start: int, length: int, target: BinaryIO, offset: int
) -> None:
    """As `copy_range`, from an open file."""
    # the end of a file reads like a hole
    if os.fstat(stream.fileno()).st_size < start + length:
        raise OSError(errno.EIO, f"{stream.name!r} was truncated while it was copied")
    for position, size in _data_ranges(stream.fileno(), start, length):
        target_position = offset + position - start
        copied_bytes = _copy_in_kernel(
            stream.fileno(), position, size, target.fileno(), target_position
        )
        stream.seek(position + copied_bytes)
        while copied_bytes < size:
            chunk = stream.read(min(_CHUNK, size - copied_bytes))
            if not chunk:
                raise OSError(errno.EIO, f"{stream.name!r} was truncated while it was copied")
            write_at(target, target_position + copied_bytes, memoryview(chunk))
            copied_bytes += len(chunk)


def write_at(stream: BinaryIO, offset: int, data: memoryview) -> None:
    """Write bytes at a position of an unbuffered file; several threads may do so at the same time.

    Raises `OSError`.
    """
    while data:
        if hasattr(os, "pwrite"):
            count = os.pwrite(stream.fileno(), data, offset)
        else:
            with _SEEKING:
                stream.seek(offset)
                count = stream.write(data)
        data, offset = data[count:], offset + count


def check_space(folder: Path, size: int) -> None:
    """Raise `OSError` unless the disk of a folder has ``size`` free bytes."""
    free_bytes = shutil.disk_usage(folder).free
    if size > free_bytes:
        raise OSError(
            errno.ENOSPC,
            f"{os.strerror(errno.ENOSPC)}: {size:,} bytes are needed, {free_bytes:,} are free",
        )


def _copy_in_kernel(source: int, start: int, length: int, target: int, offset: int) -> int:
    """Copy by the kernel; returns the number of bytes copied, fewer where it cannot copy."""
    copied_bytes = 0
    if not hasattr(os, "copy_file_range"):
        return copied_bytes
    try:
        while copied_bytes < length:
            count = os.copy_file_range(
                source,
                target,
                min(length - copied_bytes, 1 << 30),
                start + copied_bytes,
                offset + copied_bytes,
            )
            if not count:
                break
            copied_bytes += count
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return copied_bytes


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
