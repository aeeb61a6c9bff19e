"""Write files next to their targets, then move all of them into place, or none."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from xoptim.facts.errors import ModelError
from xoptim.graph.data_file import reserved
from xoptim.system.files import copy, move, set_permissions
from xoptim.system.journal import JOURNAL


class Replacement:
    """Files that are written next to their targets; `replacing` moves them into place."""

    def __init__(self) -> None:
        self._temporary: dict[Path, Path] = {}
        self._reserved: set[Path] = set()  # empty files that were made to keep a name

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

    def reserve(self, path: Path, target: Path) -> Path:
        """Move a temporary file into place with the others, under a name that no file has.

        Returns it. Raises `OSError`.
        """
        final = reserved(target)
        self._reserved.add(final)
        self.adopt(path, final)
        return final

    def put_in_place(self) -> None:
        """Move the written files into place: all of them, or none when an exception is raised.

        The last one, a model that refers to the others, replaces an older one in one step: there is
        a whole model at any time. Other files that are replaced are kept until then.
        """
        kept: dict[Path, Path] = {}
        *earlier, last = self._temporary
        JOURNAL.note_moves(self._temporary)
        try:
            for final in earlier:
                if final.exists() and final not in self._reserved:
                    kept[final] = self._temporary[final].with_suffix(".old")
                    copy(final, kept[final])
                    JOURNAL.note(kept[final])
                move(self._temporary[final], final)
            move(self._temporary[last], last)
        except BaseException:
            # otherwise the last file, and with it every file, is in place
            if self._temporary[last].exists():
                self._put_back(kept)
            raise
        finally:
            remove_files(kept.values())

    def _put_back(self, kept: Mapping[Path, Path]) -> None:
        """Remove the files that were moved into place, and put back those that were there
        before.
        """
        remove_files(
            [
                final
                for final, path in self._temporary.items()
                if final not in kept and not path.exists()
            ]
        )
        for final, old in kept.items():
            with suppress(OSError):  # the others are put back all the same
                if old.exists() and not self._temporary[final].exists():
                    move(old, final)

    def clean(self) -> None:
        """Remove the temporary files that are left."""
        remove_files(final for final in self._reserved if self._temporary[final].exists())
        remove_files(self._temporary.values())


@contextmanager
def replacing(target: Path) -> Iterator[Replacement]:
    """Replace files together: all of them when the block ends, the last one opened last.

    None when it raises.

    Raises `ModelError`, whose message names the target, when a file cannot be written; all files
    are then unchanged.
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
def temporary(
    final: Path, buffering: int = -1, *, syncs: bool = True
) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a file in the folder of ``final``, with the permissions of ``final`` or of a new file.

    Remove it on an error.

    With ``syncs`` it is on the disk when the block ends, as is necessary before it replaces another
    file.
    """
    # Only a part of the name: the whole name may already have the maximal length.
    handle, name = tempfile.mkstemp(prefix=f".{final.name[:48]}.", suffix=".tmp", dir=final.parent)
    try:
        JOURNAL.note(Path(name))
        set_permissions(Path(name), final)
        with os.fdopen(handle, "wb", buffering) as stream:
            yield stream, Path(name)
            stream.flush()
            if syncs:
                os.fsync(handle)
    except BaseException:
        with suppress(OSError):
            os.close(handle)
        remove_files([Path(name)])
        raise


def replace_file(target: Path, content: bytes) -> None:
    """Write one file, or leave it as it was.

    Where it is a symbolic link, the file that it leads to is replaced.

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
        raise ModelError(
            f"cannot write {str(target)!r}: it is a device, a pipe or a socket, not a file"
        )
    return place


def refuse_link(place: Path, target: Path) -> None:
    """Raise `ModelError` where a file that belongs to a target is a link: its name was not given,
    and it may lead anywhere.
    """
    if place.is_symlink():
        raise ModelError(
            f"cannot write {str(target)!r}: {str(place)!r} belongs to it and is a symbolic link; "
            "remove the link"
        )


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files; one that cannot be removed is left."""
    for path in paths:
        with suppress(OSError):
            path.unlink()
