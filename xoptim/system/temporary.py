"""Temporary files next to the files that they become: all output files of commands begin here."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from xoptim.system.files import NO_LINK, move
from xoptim.system.journal import JOURNAL

_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK | getattr(os, "O_BINARY", 0)
_PERMISSIONS: Final = 0o777


class PlaceError(OSError):
    """A path is taken by something that a file must not replace; ``filename`` is the path."""


def place_of(target: Path) -> Path:
    """The file to replace when a user names ``target`` as output: the file to which a symbolic link
    leads, else ``target`` itself.
    """
    return Path(os.path.realpath(target)) if target.is_symlink() else target


def fault_of_place(place: Path) -> str:
    """The reason why a file cannot be put in a place, such as "is a folder"; empty where a regular
    file or nothing is there.

    A symbolic link is not followed: it may lead anywhere. Raises `OSError`.
    """
    try:
        mode = place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if stat.S_ISLNK(mode):
        return "is a symbolic link; remove the link"
    if stat.S_ISDIR(mode):
        return "is a folder"
    return "" if stat.S_ISREG(mode) else "is a device, a pipe or a socket, not a file"


def check_place(place: Path) -> None:
    """Raise `PlaceError` unless a regular file or nothing is in a place, `OSError` if unknown."""
    fault = fault_of_place(place)
    if fault:
        raise PlaceError(errno.EEXIST, f"it {fault}", str(place))


def make_folder(folder: Path, *names: str) -> Path:
    """A folder inside one that the user named, made where it is missing.

    ``folder`` may be a link, and the names below it may not. Raises `PlaceError` and `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        folder /= name
        with suppress(FileExistsError):
            folder.mkdir()
        if not stat.S_ISDIR(folder.lstat().st_mode):
            fault = fault_of_place(folder) or "is a file, not a folder"
            raise PlaceError(errno.ENOTDIR, f"it {fault}", str(folder))
    return folder


@contextmanager
def temporary(
    final: Path, buffering: int = -1, *, syncs: bool = True, mode: int = 0o666
) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a new file in the folder of ``final``, with the permissions of ``final`` or of a new
    file.

    Remove it on an error. Raises `PlaceError` unless ``final`` is a regular file or missing.

    With ``syncs`` it is on the disk when the block ends, as is necessary before it replaces another
    file. ``mode`` are the permissions of a new file, before the umask.
    """
    check_place(final)
    # Only a part of the name, which may already have the maximal length.
    path = final.with_name(f".{final.name[:48]}.{os.urandom(6).hex()}.tmp")
    try:
        permissions = stat.S_IMODE(final.lstat().st_mode) & _PERMISSIONS
        handle = os.open(path, _NEW, 0o600)
    except FileNotFoundError:  # a new file: the system applies the umask
        permissions = -1
        handle = os.open(path, _NEW, mode)
    try:
        with os.fdopen(handle, "wb", buffering) as stream:
            JOURNAL.note(path)
            if permissions >= 0:
                _set_permissions(handle, path, permissions)
            yield stream, path
            stream.flush()
            if syncs:
                os.fsync(handle)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def write_file(final: Path, content: bytes, *, syncs: bool = True, mode: int = 0o666) -> None:
    """Replace one file in one step, or leave it as it was.

    Readers meanwhile see the earlier one. Raises `PlaceError` and `OSError`.
    """
    with temporary(final, syncs=syncs, mode=mode) as (stream, path):
        stream.write(content)
    try:
        move(path, final)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _set_permissions(handle: int, path: Path, mode: int) -> None:
    if hasattr(os, "fchmod"):
        os.fchmod(handle, mode)
    else:
        path.chmod(mode)
