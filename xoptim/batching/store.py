"""The folder of a batch: results are published one by one, by one process at a time."""

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from xoptim.batching.job import Attempt
from xoptim.batching.record import BatchError, Record
from xoptim.graph.atomic_write import replace_file
from xoptim.system.files import move, try_lock

RESULTS: Final = "results.jsonl"
_OWN: Final = ".xopt-batch"
"""Folder for the lock, and for the attempts of a run."""
_ATTEMPTS: Final = 10
"""Attempts to lock the folder: a process that a killed run was just starting holds the lock for a moment."""
_PAUSE: Final = 0.1


class Store:
    """The folder of a batch, an absolute path, open for one run: another run that opens it meanwhile raises.

    Processes write into the folder `workspace` only. `publish` moves their files into place and adds the record, so that a file
    is never written by two attempts. A model has one line in ``results.jsonl`` when no run is open; a line that is added
    while a run is open replaces an earlier one of that result.
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
        own = self.folder / _OWN
        own.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(own / "lock", self.folder)
        for left in own.glob("run-*"):  # of runs that were killed
            shutil.rmtree(left, ignore_errors=True)
        self._workspace = Path(tempfile.mkdtemp(prefix="run-", dir=own))
        self.records = _read(self.folder / RESULTS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutil.rmtree(self.workspace, ignore_errors=True)
        _write(self.folder / RESULTS, self.records)
        os.close(self._lock)

    def publish(self, attempt: Attempt) -> Record:
        """Move the files of an attempt into place, weights before the model that refers to them, and add its record.

        Files of an earlier result that the model no longer has are removed, so that files and records agree. They stay when the
        model could not even be read (a share that is not mounted, a worker with other versions): it may be unchanged.
        """
        if attempt.was_done:
            return attempt.record
        record = attempt.record
        before = self.records.get(record.output)
        if before is not None and not record.key:
            record = replace(record, written=before.written)
        try:
            self._move(attempt)
        except (OSError, BatchError) as error:
            record = replace(record, status="failed", error=f"cannot write the result: {error}", written={})
        for name in {} if before is None else before.written.keys() - record.written.keys():
            with suppress(OSError):
                (self.folder / name).unlink()
        self.records[record.output] = record
        with (self.folder / RESULTS).open("a", encoding="utf-8") as stream:
            stream.write(f"{record.to_line()}\n")
        if attempt.folder is not None:
            shutil.rmtree(attempt.folder, ignore_errors=True)
        return record

    def _move(self, attempt: Attempt) -> None:
        if attempt.folder is None:
            return
        place = (self.folder / attempt.record.output).parent
        inputs = {os.path.realpath(path) for path in attempt.inputs}
        for name in attempt.files:
            if os.path.realpath(place / name) in inputs:
                raise BatchError(f"{str(place / name)!r} holds weights of the model")
        place.mkdir(parents=True, exist_ok=True)
        for name in attempt.files:
            move(attempt.folder / name, place / name)


def _locked(path: Path, output: Path) -> int:
    """A handle that locks a file until it is closed or the process ends.

    Raises `BatchError` when another process has locked it.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    for _ in range(_ATTEMPTS):
        if try_lock(handle):
            return handle
        time.sleep(_PAUSE)
    os.close(handle)
    raise BatchError(f"another batch writes into {str(output)!r}")


def _read(path: Path) -> dict[str, Record]:
    """The records of a file by their result, the last one of each; lines that are cut off are left out."""
    found: dict[str, Record] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            with suppress(ValueError):
                record = Record.from_line(line)
                found[record.output] = record
    _write(path, found)  # a line that is added must not continue one that was cut off
    return found


def _write(path: Path, records: Mapping[str, Record]) -> None:
    """Write records, a line each, in order of their results; the file is complete at any time."""
    replace_file(path, "".join(f"{record.to_line()}\n" for _, record in sorted(records.items())).encode())
