"""The temporary files of this process, and the files that they become. A command that is
interrupted removes the temporary files, and reports which files it has written.

A process that waits for this one can also read the journal, and remove the files of a process that
was killed.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple


class _Identity(NamedTuple):
    """A file, regardless of its name."""

    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> "_Identity | None":
        try:
            status = path.lstat()
        except (OSError, ValueError):
            return None
        return cls(status.st_dev, status.st_ino)


class _Entry(NamedTuple):
    """A temporary file or folder."""

    path: Path
    identity: _Identity
    final: Path | None = None  # the place to which the file is moved, if it is
    # the last file that is moved of the same group: its place, and its identity
    last: tuple[Path, _Identity] | None = None

    @property
    def is_in_place(self) -> bool:
        """Whether the file has been moved to ``final``."""
        return self.final is not None and _Identity.of(self.final) == self.identity

    @property
    def is_done(self) -> bool:
        """Whether the file and the last one of its group are in place: one without the other counts
        as not written.
        """
        return (
            self.is_in_place
            and self.last is not None
            and _Identity.of(self.last[0]) == self.last[1]
        )


class Journal:
    """Notes temporary files; whether they are still there, or were moved, is read from the disk."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._shared: int | None = None

    def share(self) -> None:
        """Let forks of this process also note their files here (Linux), and forget earlier ones."""
        self.forget()
        if self._shared is not None:
            os.close(self._shared)
        if sys.platform == "linux":
            self._shared = os.memfd_create("xopt")

    def note(self, path: Path) -> None:
        """Note a temporary file or folder."""
        identity = _Identity.of(path)
        if identity is not None:
            self._add(_Entry(path.absolute(), identity))

    def note_moves(self, moves: Mapping[Path, Path]) -> None:
        """Note files and the temporary files that are about to be moved there, as a group: the last
        move completes it.
        """
        identities = {final.absolute(): _Identity.of(path) for final, path in moves.items()}
        last, identity = list(identities.items())[-1]
        for path, (final, file_identity) in zip(moves.values(), identities.items(), strict=True):
            if file_identity is not None and identity is not None:
                self._add(_Entry(path.absolute(), file_identity, final, (last, identity)))

    def written(self) -> list[Path]:
        """The files that are in place."""
        return list(
            dict.fromkeys(
                entry.final for entry in self._all() if entry.final is not None and entry.is_done
            )
        )

    def outcome(self) -> str:
        """The end of a message: that nothing was written, or which files were."""
        names = [repr(str(path)) for path in self.written()]
        return (
            f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} written"
            if names
            else "nothing was written"
        )

    def clean(self) -> None:
        """Remove temporary files and folders that are left, and files that were moved without the
        last one of their group.
        """
        for entry in self._all():
            if entry.is_in_place and not entry.is_done and entry.final is not None:
                _remove(entry.final)
            if _Identity.of(entry.path) == entry.identity and not entry.is_done:
                _remove(entry.path)

    def forget(self) -> None:
        """Forget all entries."""
        self._entries.clear()

    def _add(self, entry: _Entry) -> None:
        self._entries.append(entry)
        if self._shared is not None:
            os.write(self._shared, json.dumps([_plain(field) for field in entry]).encode() + b"\n")

    def _all(self) -> list[_Entry]:
        if self._shared is None:
            return self._entries
        # the processes share the position at which they write
        raw = os.pread(self._shared, os.fstat(self._shared).st_size, 0)
        return [_read(line) for line in raw.splitlines()]


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _read(line: bytes) -> _Entry:
    path, identity, final, last = json.loads(line)
    last_file = None if last is None else (Path(last[0]), _Identity(*last[1]))
    final_path = None if final is None else Path(final)
    return _Entry(Path(path), _Identity(*identity), final_path, last_file)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


JOURNAL: Final = Journal()
"""The journal of this process."""


class ScratchFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that the journal knows."""

    def __init__(self, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        JOURNAL.note(Path(self.name))
