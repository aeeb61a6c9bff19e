"""Write files beside their targets, then move them into place: an incomplete file is never visible."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from xoptim.facts.errors import ModelError
from xoptim.system.files import move, set_permissions


class Replacement:
    """Files that are written beside their targets; `replacing` moves them into place."""

    def __init__(self) -> None:
        self._temporary: dict[Path, Path] = {}

    @property
    def targets(self) -> list[Path]:
        """The files that are replaced, in the order in which they were opened."""
        return list(self._temporary)

    @contextmanager
    def open(self, final: Path) -> Iterator[BinaryIO]:
        """Open a temporary file in the folder of ``final``; see `temporary`."""
        with temporary(final) as (stream, path):
            self.adopt(path, final)
            yield stream

    def adopt(self, path: Path, final: Path) -> None:
        """Move a temporary file, which has been written already, into place with the others."""
        self._temporary[final] = path

    def put_in_place(self) -> None:
        """Move the written files into place: all of them, or none when an exception is raised.

        Of several files, the last one, which refers to the others, is taken away first: no model is ever beside the weights
        of another one. Files that are replaced are kept until all are in place.
        """
        kept: dict[Path, Path] = {}
        *earlier, last = self._temporary
        try:
            for final in (last, *earlier) if earlier else ():
                if final.exists():
                    kept[final] = self._temporary[final].with_suffix(".old")
                    move(final, kept[final])
            for final, path in self._temporary.items():
                move(path, final)
        except BaseException:
            if self._temporary[last].exists():  # otherwise the last file, and with it every file, is in place
                self._put_back(kept)
                kept = {}
            raise
        finally:
            _remove(kept.values())

    def _put_back(self, kept: Mapping[Path, Path]) -> None:
        """Remove the files that were moved into place, and put back those that were there before."""
        _remove([final for final, path in self._temporary.items() if final not in kept and not path.exists()])
        for final, old in kept.items():
            with suppress(OSError):  # the others are put back all the same
                if old.exists():
                    move(old, final)

    def clean(self) -> None:
        """Remove the temporary files that are left."""
        _remove(self._temporary.values())


@contextmanager
def replacing(target: Path) -> Iterator[Replacement]:
    """Replace files together: all of them when the block ends, the last one opened last; none when it raises.

    Raises `ModelError`, whose message names the target, when a file cannot be written; all files are then unchanged.
    """
    files = Replacement()
    with write_errors(target):
        try:
            yield files
            files.put_in_place()
        finally:
            files.clean()


@contextmanager
def write_errors(target: Path) -> Iterator[None]:
    """Raise a ModelError that names a file in place of errors of the system."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot write {str(target)!r}: {reason}") from error


@contextmanager
def temporary(final: Path, buffering: int = -1, *, syncs: bool = True) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a file in the folder of ``final``, with the permissions of ``final`` or of a new file; remove it on an error.

    With ``syncs`` it is on the disk when the block ends, as is necessary before it replaces another file.
    """
    # Only a part of the name: the whole name may already have the maximal length.
    handle, name = tempfile.mkstemp(prefix=f".{final.name[:48]}.", suffix=".tmp", dir=final.parent)
    try:
        set_permissions(Path(name), final)
        with os.fdopen(handle, "wb", buffering) as stream:
            yield stream, Path(name)
            stream.flush()
            if syncs:
                os.fsync(handle)
    except BaseException:
        with suppress(OSError):
            os.close(handle)
        _remove([Path(name)])
        raise


def replace_file(target: Path, content: bytes) -> None:
    """Write one file, or leave it as it was. Where it is a symbolic link, the file that it leads to is replaced.

    Raises `ModelError` when it cannot be written, or is not a regular file.
    """
    with replacing(target) as files, files.open(place_of(target)) as stream:
        stream.write(content)


def place_of(target: Path) -> Path:
    """The file to replace: the target, or the file that a symbolic link leads to.

    Raises `ModelError` for a folder, a special file, and a link that leads to itself.
    """
    place = Path(os.path.realpath(target)) if target.is_symlink() else target
    if target.is_dir():
        raise ModelError(f"cannot write {str(target)!r}: it is a folder")
    if place.is_symlink():
        raise ModelError(f"cannot write {str(target)!r}: it is a link that leads to itself")
    if place.exists() and not place.is_file():
        raise ModelError(f"cannot write {str(target)!r}: it is a device, a pipe or a socket, not a file")
    return place


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()
