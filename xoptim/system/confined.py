"""Files in a folder that other processes may change: symbolic links below it are not followed.

Each component is opened relative to the descriptor of its parent (``dir_fd``, as ``openat`` does),
so that a component that is replaced by a link meanwhile leads nowhere else. Windows has no
``dir_fd``: there, the components are checked before and after a file is opened.
"""

import errno
import mmap
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from xoptim.system.files import NO_LINK, check_space, copy_open_range
from xoptim.system.journal import JOURNAL
from xoptim.system.temporary import PlaceError

Parts: TypeAlias = tuple[str, ...]
"""The path components from the folder to a file."""
_HAS_DESCRIPTORS: Final = os.open in os.supports_dir_fd
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
_READ: Final = os.O_RDONLY | NO_LINK | _BINARY | getattr(os, "O_NONBLOCK", 0)
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK | _BINARY
_FOLDER: Final = os.O_RDONLY | NO_LINK | getattr(os, "O_DIRECTORY", 0)
_REPARSE_POINT: Final = 0x400
"""The attribute of links and junctions on Windows."""


class Version(NamedTuple):
    """The state of a file at some time: a file that was changed or replaced has another version."""

    device: int
    inode: int
    size: int
    time: int  # of the last change, in nanoseconds

    @classmethod
    def of(cls, status: os.stat_result) -> "Version":
        """The version of a file."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class _Level(NamedTuple):
    """A folder on the way to a file, held open while the file is accessed."""

    handle: int  # its descriptor; -1 where the system has no ``dir_fd``
    path: Path

    def at(self, name: str, *keys: str) -> tuple[str, dict[str, Any]]:
        """The path and the options with which a function of `os` finds a file of this folder.

        Without a descriptor, these are the absolute path and no options. ``keys`` are the names of
        the options that take the descriptor, by default ``dir_fd``.
        """
        if self.handle < 0:
            return str(self.path / name), {}
        return name, dict.fromkeys(keys or ("dir_fd",), self.handle)

    def status(self, name: str) -> os.stat_result:
        """The status of a file; raises `PlaceError` for a link, and `OSError`."""
        path, options = self.at(name)
        status = os.stat(path, follow_symlinks=False, **options)
        attributes = getattr(status, "st_file_attributes", 0)
        if stat.S_ISLNK(status.st_mode) or attributes & _REPARSE_POINT:
            raise PlaceError(errno.ELOOP, "it is a symbolic link", str(self.path / name))
        return status

    def version(self, name: str) -> Version | None:
        """The version of a file, ``None`` where there is none."""
        try:
            status = self.status(name)
        except FileNotFoundError:
            return None
        self._check_file(name, status)
        return Version.of(status)

    def open(self, name: str) -> BinaryIO:
        """Open a file to read it.

        Raises `PlaceError` for a link, a folder and a device, and `OSError`.
        """
        self._check_file(name, self.status(name))  # opening a device may have effects
        path, options = self.at(name)
        stream = os.fdopen(os.open(path, _READ, **options), "rb")
        try:
            status = os.fstat(stream.fileno())
            self._check_file(name, status)
            if not os.path.samestat(status, self.status(name)):
                raise PlaceError(errno.ESTALE, "it was replaced", str(self.path / name))
        except BaseException:
            stream.close()
            raise
        return stream

    def has_file(self, name: str) -> bool:
        """Whether there is a file, and no link."""
        with suppress(OSError):
            return self.version(name) is not None
        return False

    def unlink(self, name: str) -> None:
        """Remove a file; one that cannot be removed is left."""
        path, options = self.at(name)
        with suppress(OSError):
            os.unlink(path, **options)

    def move(self, old: str, new: str) -> None:
        """Rename a file, which replaces another one."""
        source, options = self.at(old, "src_dir_fd")
        target, target_options = self.at(new, "dst_dir_fd")
        os.replace(source, target, **options, **target_options)

    def receive(self, source: Path, name: str) -> None:
        """Move a file here, under a name that is not taken, or copy it from another disk."""
        path, options = self.at(name, "dst_dir_fd")
        with suppress(OSError):
            os.rename(source, path, **options)
            return
        path, options = self.at(name)
        with source.open("rb") as stream, open(os.open(path, _NEW, 0o666, **options), "wb") as copy:
            _copy(stream, copy, self.path)
            copy.flush()
            os.fsync(copy.fileno())

    def _check_file(self, name: str, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise PlaceError(errno.EISDIR, "it is a folder", str(self.path / name))
        if not stat.S_ISREG(status.st_mode):
            fault = "it is a device, a pipe or a socket, not a file"
            raise PlaceError(errno.EINVAL, fault, str(self.path / name))


class ConfinedFolder:
    """A folder in which files are read and replaced, whatever links others put into it meanwhile.

    Args:
        root: the folder, whose own path may contain links. It is followed once.
        handle: its descriptor, from the process that has started this one.
    """

    def __init__(self, root: Path, handle: int = -1) -> None:
        self.root = root.resolve()
        self.handle = os.open(self.root, _FOLDER) if _HAS_DESCRIPTORS and handle < 0 else handle
        self._unresolved_root = root.absolute()

    def passed_on(self) -> dict[str, Any]:
        """The options of `subprocess.Popen` by which a process gets the descriptor."""
        return {"pass_fds": (self.handle,)} if self.handle >= 0 else {}

    def parts(self, path: str) -> Parts:
        """The names of a path, which is relative to the folder or absolute; ``..`` removes a name,
        since no link is followed.

        Raises `ValueError` when it leads out of the folder, or no file can have the name.
        """
        if "\0" in path or not _can_be_encoded(path):
            raise ValueError("no file can have this name")
        place = Path(os.path.normpath(self.root / path))
        for root in (self.root, self._unresolved_root):
            if place != root and place.is_relative_to(root):
                parts = place.relative_to(root).parts
                break
        else:
            raise ValueError("paths are relative to the folder, and stay in it")
        # a colon would name a stream of another file
        if sys.platform == "win32" and any(":" in part for part in parts):
            raise ValueError("no file can have this name")
        return parts

    def version(self, parts: Parts) -> Version | None:
        """The version of a file, ``None`` where there is none.

        Raises `PlaceError` for a link, a folder and a device, and `OSError`, also where the folder
        of the file is missing.
        """
        with self._level(parts[:-1]) as level:
            return level.version(parts[-1])

    def stage(self, parts: Parts, target: Path) -> None:
        """Hard-link a file to ``target`` outside, or copy it there; raises as `version`."""
        with self._level(parts[:-1]) as level, level.open(parts[-1]) as stream:
            self._check(parts)
            if not _has_linked(level, parts[-1], target, stream):
                with target.open("xb", buffering=0) as copy:
                    _copy(stream, copy, target.parent)

    def names(self, parts: Parts) -> list[str]:
        """The names in a folder."""
        with self._level(parts) as level:
            return os.listdir(level.path if level.handle < 0 else level.handle)

    def publish(self, source: Path, parts: Parts, before: Version | None) -> Version:
        """Move a file from outside into the folder in one step.

        Raises `PlaceError` unless the present file is the version ``before``, and `OSError`;
        nothing has changed then.
        """
        with self._level(parts[:-1]) as level:
            name = parts[-1]
            draft = f".{name[:48]}.{os.urandom(6).hex()}.tmp"
            try:
                level.receive(source, draft)
                JOURNAL.note(level.path / draft)
                self._check(parts[:-1])
                if level.version(name) != before:
                    raise PlaceError(
                        errno.EEXIST, "it was changed meanwhile", str(level.path / name)
                    )
                if before is None:  # fails where somebody else has just made it
                    path, options = level.at(name)
                    os.close(os.open(path, _NEW, 0o600, **options))
                try:
                    level.move(draft, name)
                except BaseException:
                    if before is None:
                        level.unlink(name)
                    raise
            except BaseException:
                level.unlink(draft)
                raise
            return Version.of(level.status(name))

    def remove(self, parts: Parts, version: Version) -> None:
        """Remove a file if it is still this version."""
        with suppress(OSError), self._level(parts[:-1]) as level:
            if level.version(parts[-1]) == version:
                level.unlink(parts[-1])

    def is_named(self, parts: Parts, suffixes: Sequence[str]) -> bool:
        """Whether a file in the same folder, with one of these suffixes, contains the file's name.

        Also true if such a file cannot be read.
        """
        name = os.fsencode(parts[-1])
        with self._level(parts[:-1]) as level:
            for entry in self.names(parts[:-1]):
                if not entry.endswith(tuple(suffixes)) or not level.has_file(entry):
                    continue
                try:
                    with level.open(entry) as stream, _mapped(stream) as content:
                        if content.find(name) >= 0:
                            return True
                except ValueError:  # an empty file
                    continue
                except OSError:
                    return True
        return False

    @contextmanager
    def _level(self, parts: Parts) -> Iterator[_Level]:
        """Open a folder below this one."""
        with ExitStack() as stack:
            level = _Level(self.handle, self.root)
            for name in parts:
                level.status(name)
                path, options = level.at(name)
                if level.handle >= 0:
                    handle = os.open(path, _FOLDER, **options)
                    stack.callback(os.close, handle)
                    level = _Level(handle, level.path / name)
                else:
                    level = _Level(-1, level.path / name)
            yield level

    def _check(self, parts: Parts) -> None:
        """Check the names again, where they were not opened one after another."""
        if self.handle < 0:
            level = _Level(-1, self.root)
            for name in parts:
                level.status(name)
                level = _Level(-1, level.path / name)


def _can_be_encoded(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _has_linked(level: _Level, name: str, target: Path, stream: BinaryIO) -> bool:
    """Hard-link an open file to ``target``; returns False where that is not possible."""
    path, options = level.at(name, "src_dir_fd")
    try:
        os.link(path, target, follow_symlinks=False, **options)
    except (OSError, NotImplementedError):
        return False
    if os.path.samestat(target.lstat(), os.fstat(stream.fileno())):
        return True
    target.unlink()
    return False


def _copy(source: BinaryIO, target: BinaryIO, folder: Path) -> None:
    size = os.fstat(source.fileno()).st_size
    check_space(folder, size)
    os.truncate(target.fileno(), size)
    copy_open_range(source, 0, size, target, 0)


def _mapped(stream: BinaryIO) -> mmap.mmap:
    return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
