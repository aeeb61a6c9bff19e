"""Write files next to their targets, then move all of them into place, or none."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from xoptim.facts.errors import ModelError
from xoptim.graph.data_file import reserved
from xoptim.system.files import copy, move
from xoptim.system.journal import JOURNAL
from xoptim.system.temporary import PlaceError, check_place, place_of, temporary


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
    def open(self, final: Path, *, syncs: bool = True) -> Iterator[BinaryIO]:
        """Open a temporary file in the folder of ``final``; see `temporary`."""
        with temporary(final, syncs=syncs) as (stream, path):
            self.adopt(path, final)
            yield stream

    def adopt(self, path: Path, final: Path) -> None:
        """Add a temporary file that has been written already to the files to move into place.

        Raises `PlaceError` unless ``final`` is a regular file or missing.
        """
        check_place(final)
        self._temporary[final] = path

    def reserve(self, path: Path, target: Path) -> Path:
        """As `adopt`, with a final name that no file has.

        Returns the path. Raises `OSError`.
        """
        final = reserved(target)
        self._reserved.add(final)
        self.adopt(path, final)
        return final

    def put_in_place(self) -> None:
        """Move the written files into place: all of them, or none when an exception is raised.

        The last file, a model that refers to the earlier files, replaces an older model in one
        step: there is a complete model at any time. Until then, replaced files are kept.
        """
        backups: dict[Path, Path] = {}
        *earlier, last = self._temporary
        JOURNAL.note_moves(self._temporary)
        try:
            for final in earlier:
                if final.exists() and final not in self._reserved:
                    backups[final] = self._temporary[final].with_suffix(".old")
                    copy(final, backups[final])
                    JOURNAL.note(backups[final])
                move(self._temporary[final], final)
            move(self._temporary[last], last)
        except BaseException:
            # if the last file is in place, so are all others
            if self._temporary[last].exists():
                self._put_back(backups)
            raise
        finally:
            remove_files(backups.values())

    def _put_back(self, backups: Mapping[Path, Path]) -> None:
        """Remove the files that were moved into place, and put back those that were there
        before.
        """
        remove_files(
            [
                final
                for final, path in self._temporary.items()
                if final not in backups and not path.exists()
            ]
        )
        for final, backup in backups.items():
            with suppress(OSError):  # after an error, the remaining files are put back
                if backup.exists() and not self._temporary[final].exists():
                    move(backup, final)

    def clean(self) -> None:
        """Remove the temporary files that are left."""
        remove_files(final for final in self._reserved if self._temporary[final].exists())
        remove_files(self._temporary.values())


@contextmanager
def replacing(target: Path) -> Iterator[Replacement]:
    """Replace files when the block ends, in the order in which they were opened.

    No file is replaced when the block raises.

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
    """Turn errors of the system into a ModelError that names a file."""
    try:
        yield
    except PlaceError as error:
        raise ModelError(f"cannot write {error.filename!r}: {error.strerror}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot write {str(target)!r}: {reason}") from error


def replace_file(target: Path, content: bytes) -> None:
    """Write a file that the user named, or leave it as it was.

    The file that a symbolic link leads to is replaced.

    Raises `ModelError` when the file cannot be written, or is not a regular file.
    """
    write_derived(place_of(target), content)


def write_derived(place: Path, content: bytes, *, syncs: bool = True) -> None:
    """Write a file whose name follows from another one, or leave it as it was.

    A symbolic link of this name is not followed: the user did not name it, so somebody else may
    have put it there.

    Raises `ModelError` when the file cannot be written, or is not a regular file. For ``syncs`` see
    `xoptim.system.temporary.temporary`.
    """
    with replacing(place) as files, files.open(place, syncs=syncs) as stream:
        stream.write(content)


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files; one that cannot be removed is left."""
    for path in paths:
        with suppress(OSError):
            path.unlink()
