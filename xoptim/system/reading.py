"""Files to read: their kind is checked when they are opened, and their size before they are read.

All functions raise `OSError`, whose ``strerror`` is a reason for users.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

from xoptim.system.files import NO_LINK

MAX_TEXT: Final = 1 << 26
"""Bytes of the largest text file that is read: settings, rules, JSON."""
# Opening does not wait for a pipe's writer, and does not make a terminal the process's own.
_FLAGS: Final[int] = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_CHUNK: Final = 1 << 16
_STANDARD_INPUT: Final = Path("/dev/stdin")
_DESCRIPTORS: Final = (Path("/dev/fd"), Path("/proc/self/fd"))
_OPEN_TO_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def names_open_file(path: Path) -> bool:
    """Whether a path names a file that this process was started with, such as the shell writes for
    ``<(cat model.onnx)``.
    """
    return path == _STANDARD_INPUT or path.parent in _DESCRIPTORS


def check_kind(path: Path) -> None:
    """Raise unless a path leads to a regular file."""
    _check_kind(path, path.stat().st_mode)


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = _KINDS.get(stat.S_IFMT(mode), "of another kind")
    raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))


def open_file(path: Path, flags: int = 0) -> BufferedReader:
    """Open a regular file; a pipe, a device, a socket or a folder is refused at once."""
    check_kind(path)  # a socket cannot be opened, and a device may react to it
    number = os.open(path, _FLAGS | flags)
    try:
        _check_kind(path, os.fstat(number).st_mode)  # it may have been replaced meanwhile
    except OSError:
        os.close(number)
        raise
    return open(number, "rb")


def read_file(path: Path, max_bytes: int = MAX_TEXT) -> bytes:
    """The content of a regular file of at most ``max_bytes`` bytes."""
    with open_file(path) as stream:
        return _content(path, stream, max_bytes)


def read_own_file(path: Path, max_bytes: int) -> bytes:
    """As `read_file`, for a file that only the user can have written.

    Raises `OSError` for a symbolic link, and where the file or its folder belongs to another user
    or may be written by one.
    """
    check_own_file(path)
    with open_file(path, NO_LINK) as stream:
        for place, status in ((path, os.fstat(stream.fileno())), (path.parent, path.parent.stat())):
            _check_user(place, status)
            if hasattr(os, "getuid") and status.st_mode & _WRITABLE_BY_OTHERS:
                raise PermissionError(errno.EPERM, "other users may write to it", str(place))
        return _content(path, stream, max_bytes)


def check_own_file(path: Path) -> None:
    """Raise unless a path is a regular file of the user, and no link."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))
    _check_kind(path, status.st_mode)
    _check_user(path, status)


def make_own_folder(path: Path) -> None:
    """Make a folder that only the user can enter; one that exists has to be the user's."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_user(path, path.stat())
    if hasattr(os, "getuid") and path.stat().st_mode & _OPEN_TO_OTHERS:
        path.chmod(0o700)


def _check_user(path: Path, status: os.stat_result) -> None:
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))


def _content(path: Path, stream: BufferedReader, max_bytes: int) -> bytes:
    size = total = os.fstat(stream.fileno()).st_size
    chunks = [stream.read(size)] if size <= max_bytes else []
    # the file may grow meanwhile, or the system generates it
    while total <= max_bytes and (chunk := stream.read(_CHUNK)):
        chunks.append(chunk)
        total += len(chunk)
    if total > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes", str(path))
    return b"".join(chunks)
