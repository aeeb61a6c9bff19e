"""The folder of a batch: the lock, the attempts of a run, the results and their records.

Others may have written into the folder: records and links that lead out of it are not followed.
"""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from xoptim.batching.job import JobAttempt, sha256
from xoptim.batching.record import BatchError, Record
from xoptim.facts.errors import XoptimError
from xoptim.graph.atomic_write import replacing, write_derived
from xoptim.system.files import NO_LINK, try_lock
from xoptim.system.temporary import PlaceError, check_place, make_folder

RESULTS: Final = "results.jsonl"
_STATE_FOLDER: Final = ".xopt-batch"
"""Folder for the lock, and for the attempts of a run."""
_MAX_LOCK_ATTEMPTS: Final = 10
"""Attempts to lock the folder: a process that a killed run has started may still hold the lock."""
_PAUSE: Final = 0.1
_MAX_RECORD_LENGTH: Final = 1 << 20
"""Maximal number of characters of a record."""
_LOGGER = logging.getLogger("xoptim")


class Store:
    """The folder of a batch, an absolute path, open for one run.

    Raises `BatchError` when another run has it open, or a file of its own cannot be written.

    Processes write into the folder `workspace` only. `publish` moves their files into place and
    adds the record, so that a file is never written by two attempts. When no run is open, a model
    has one line in ``results.jsonl``; during a run, the last line of a result counts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: dict[str, Record] = {}
        self._lock = -1
        self._workspace: Path | None = None

    @property
    def workspace(self) -> Path:
        """The folder of this run, in which each attempt has a folder of its own."""
        assert self._workspace is not None
        return self._workspace

    def __enter__(self) -> Self:
        try:
            state_folder = make_folder(self.folder, _STATE_FOLDER)
            check_place(self.folder / RESULTS)
        except PlaceError as error:
            raise BatchError(f"cannot write {error.filename!r}: {error.strerror}") from error
        self._lock = _lock_file(state_folder / "lock", self.folder)
        try:
            for workspace in state_folder.glob("run-*"):  # of killed runs
                shutil.rmtree(workspace, ignore_errors=True)
            self.records = _read(self.folder)
            self._workspace = Path(tempfile.mkdtemp(prefix="run-", dir=state_folder))
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            shutil.rmtree(self.workspace, ignore_errors=True)
            _write(self.folder / RESULTS, self.records)
        finally:
            os.close(self._lock)

    def publish(self, attempt: JobAttempt) -> Record:
        """Move the files of an attempt into place, weights before the model that refers to them,
        and add its record.

        Files of an earlier result that the model no longer has are removed, so that files and
        records agree. They stay when the model was not read (an unmounted share, a worker with
        other versions): it may be unchanged.
        """
        if attempt.was_done:
            return attempt.record
        record = attempt.record
        previous = self.records.get(record.output)
        if previous is not None and not record.key:
            record = replace(record, written=previous.written)
        try:
            self._move(attempt)
        except (OSError, XoptimError) as error:
            record = replace(
                record, status="failed", error=f"cannot write the result: {error}", written={}
            )
        self._remove({} if previous is None else previous.written, record)
        self.records[record.output] = record
        self._append(record)
        if attempt.folder is not None:
            shutil.rmtree(attempt.folder, ignore_errors=True)
        return record

    def _append(self, record: Record) -> None:
        """Append a line, instead of writing all records again for each model."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINK
        with open(os.open(self.folder / RESULTS, flags, 0o666), "a", encoding="utf-8") as stream:
            stream.write(f"{record.to_line()}\n")

    def _remove(self, digests: Mapping[str, str], record: Record) -> None:
        """Remove the unchanged files of an earlier result that the present one lacks."""
        for name in digests.keys() - record.written.keys():
            path = self.folder / name
            with suppress(OSError):
                if not path.is_symlink() and sha256(path) == digests[name]:
                    path.unlink()

    def _move(self, attempt: JobAttempt) -> None:
        if attempt.folder is None or not attempt.files:
            return
        if not _is_inside(self.folder, attempt.record.output):
            raise BatchError(
                f"{attempt.record.output!r} is outside {str(self.folder)!r}: a symbolic link "
                "leads there"
            )
        target = self.folder / attempt.record.output
        inputs = {os.path.realpath(path) for path in attempt.model_files}
        for name in attempt.files:
            if os.path.realpath(target.with_name(name)) in inputs:
                raise BatchError(f"{str(target.with_name(name))!r} holds weights of the input")
        with replacing(target) as files:
            folder = make_folder(self.folder, *Path(attempt.record.output).parts[:-1])
            for name in attempt.files:
                files.adopt(attempt.folder / name, folder / name)


def _is_inside(folder: Path, name: str) -> bool:
    """Whether ``name`` is allowed for a result: a relative path without ``..`` that stays in the
    folder with all links resolved, and is no file of the batch itself.
    """
    path = Path(name)
    if (
        "\0" in name
        or path.is_absolute()
        or ".." in path.parts
        or path.parts[:1] in ((), (_STATE_FOLDER,), (RESULTS,))
    ):
        return False
    return Path(os.path.realpath(folder / path.parent)).is_relative_to(os.path.realpath(folder))


def _lock_file(path: Path, output: Path) -> int:
    """Lock a file until the returned handle is closed or the process ends.

    Raises `BatchError` when another process has locked it, or it cannot be opened.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
    except OSError as error:
        raise BatchError(f"cannot write {str(path)!r}: {error.strerror}") from error
    for _ in range(_MAX_LOCK_ATTEMPTS):
        if try_lock(handle):
            return handle
        time.sleep(_PAUSE)
    os.close(handle)
    raise BatchError(f"another batch is writing into {str(output)!r}; use another folder")


def _read(folder: Path) -> dict[str, Record]:
    """The last record of each result in ``results.jsonl``, by the name of the result
    (`Record.output`).

    A line that a killed run cut off is skipped. One warning is logged about all other lines that
    are not records, or name files outside the folder.
    """
    path = folder / RESULTS
    records: dict[str, Record] = {}
    faults: list[str] = []
    for number, line in enumerate(_lines(path) if path.is_file() else (), 1):
        try:
            record = Record.from_line(line)
            names = [
                name for name in (record.output, *record.written) if not _is_inside(folder, name)
            ]
            if names:
                raise ValueError(f"{names[0][:80]!r} is outside the folder")
            records[record.output] = record
        except ValueError as error:
            if line.strip() and (line.endswith("\n") or len(line) > _MAX_RECORD_LENGTH):
                faults.append(f"line {number}: {error}")
    if faults:
        count = f"{len(faults)} invalid records are" if len(faults) > 1 else "an invalid record is"
        _LOGGER.warning("%s: %s ignored (%s)", str(path), count, faults[0])
    _write(path, records)  # a new line must not continue one that was cut off
    return records


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file, each cut off after `_MAX_RECORD_LENGTH` + 1 characters."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as stream:
        while line := stream.readline(_MAX_RECORD_LENGTH + 1):
            yield line
            while len(line) > _MAX_RECORD_LENGTH and not line.endswith("\n"):
                line = stream.readline(_MAX_RECORD_LENGTH + 1)


def _write(path: Path, records: Mapping[str, Record]) -> None:
    """Write records, a line each, in order of their results; the file is complete at any time."""
    write_derived(
        path, "".join(f"{record.to_line()}\n" for _, record in sorted(records.items())).encode()
    )
