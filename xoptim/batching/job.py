"""Optimize one model in its own process.

A model is skipped if its files, the options and the package versions are unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import onnx

from xoptim.batching.options import BatchOptions
from xoptim.batching.record import STATUS, Record, Status
from xoptim.batching.workers import run_command
from xoptim.catalogue.discovery import GROUP, OPERATORS_GROUP
from xoptim.engine.environment import read_environment
from xoptim.facts.errors import ModelError, XoptimError
from xoptim.graph.data_file import external_files
from xoptim.graph.load import read_proto
from xoptim.system.machine import end_text
from xoptim.system.reading import open_file
from xoptim.system.supervised import CommandResult
from xoptim.system.versions import package_version
from xoptim.verification.judging.report import gap_text
from xoptim.verification.runs.session import ort


def versions() -> dict[str, str]:
    """The versions of the packages that determine a result: those with patterns (including xoptim)
    or custom operators, onnx and onnxruntime.
    """
    packs = {
        entry.dist.name: entry.dist.version
        for group in (GROUP, OPERATORS_GROUP)
        for entry in entry_points(group=group)
        if entry.dist is not None
    }
    main_packages = {
        "onnx": onnx.__version__,
        "onnxruntime": ort.__version__,
        "xoptim": package_version("xoptim"),
    }
    return dict(sorted({**packs, **main_packages}.items()))


def model_files(model: Path) -> list[Path]:
    """The files of a model: its own, and the existing files of its external data.

    A model that cannot be read has its own file only: the command reports the reason.
    """
    try:
        data = external_files(read_proto(model), model.parent)
    except (ModelError, MemoryError, RecursionError):
        data = []
    return [model, *data]


def content_key(paths: Iterable[Path], options: BatchOptions) -> str:
    """The hash of the content of files, of the options that determine the result, and of versions.

    The memory limit counts, since it changes how models that exceed it are verified. Raises OSError
    when a file cannot be read.
    """
    debug = read_environment()
    parts: list[Any] = [
        versions(),
        [*options.arguments],
        options.memory_limit,
        [*debug.drop, debug.keep, debug.step],
        [sha256(path) for path in paths],
        [[str(path), *_contents(path)] for path in options.files],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def sha256(path: Path) -> str:
    """The hash of the content of a file."""
    with open_file(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _contents(path: Path) -> Iterator[str]:
    """The hash of a file, or the names and hashes of the files in a folder."""
    if path.is_file():
        yield sha256(path)
    for root, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = Path(root, name)
            if file.is_file():
                yield os.path.relpath(file, path)
                yield sha256(file)


_ERROR: Final = "xopt: error: "
_WARNING: Final = "xopt: warning: "
_SIGNALED: Final = 128  # exit codes above are those of signals


@dataclass(frozen=True, slots=True)
class Job:
    """A model to optimize."""

    model: Path  # its file, an absolute path
    name: str  # the file of the result, relative to ``output``
    output: Path  # the folder of the batch, an absolute path
    # the folder of this run of the batch, which is removed when the run ends
    workspace: Path
    options: BatchOptions  # the options of the batch
    versions: dict[str, str]  # the versions on the machine that runs the batch
    before: Record | None = None  # the record of an earlier run

    @property
    def marker(self) -> Path:
        """The file that exists as long as the run of the batch needs results."""
        return self.workspace / "running"

    def failed(self, error: str, status: Status = "failed") -> JobAttempt:
        """An attempt without a result."""
        return JobAttempt(
            Record(model=str(self.model), output=self.name, status=status, error=error)
        )


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """The outcome of a job.

    The files of the result stay in a folder of this attempt until the run of the batch publishes
    them.
    """

    record: Record  # the outcome of the model
    folder: Path | None = None  # the folder with the files of the result
    files: tuple[str, ...] = ()  # their names, the model last
    model_files: tuple[Path, ...] = ()  # the files of the model, see `model_files`
    was_done: bool = False  # whether the model was skipped: done by an earlier run, and unchanged


def perform(job: Job, run: Callable[..., CommandResult] = run_command) -> JobAttempt:
    """Optimize the model of a job unless it is done; ``run`` is `run_command` or `Workers.run`.

    Never raises: one model must not stop the others.
    """
    try:
        if job.versions != versions():
            raise XoptimError(
                f"the worker has other package versions: {versions()} instead of {job.versions}"
            )
        return _perform(job, run)
    except Exception as error:  # libraries that read the file may raise anything
        return job.failed(" ".join(str(error).split()) or type(error).__name__)


def _perform(job: Job, run: Callable[..., CommandResult]) -> JobAttempt:
    paths = model_files(job.model)
    try:
        key = content_key(paths, job.options)
    except OSError as error:
        path = error.filename or str(job.model)  # a read that fails has no name
        raise XoptimError(f"cannot read {path!r}: {error.strerror}") from error
    earlier_record = job.before
    if (
        job.options.resume
        and earlier_record is not None
        and earlier_record.is_settled
        and earlier_record.key == key
        and _is_intact(job, earlier_record)
    ):
        return JobAttempt(earlier_record, was_done=True)
    folder = Path(tempfile.mkdtemp(dir=job.workspace))
    target = folder / Path(job.name).name
    arguments = [
        "--no-config",
        "optimize",
        *job.options.arguments,
        "-o",
        str(target),
        "--json",
        "--",
        str(job.model),
    ]
    outcome = run(
        arguments,
        timeout=job.options.timeout,
        memory=job.options.memory_limit,
        is_needed=job.marker.exists,
    )
    record = replace(_record_of(job, outcome), key=key)
    if record.status not in ("done", "not verified"):
        return JobAttempt(record, folder)
    files = sorted(
        (path.name for path in folder.iterdir()), key=lambda name: (name == target.name, name)
    )
    parent = Path(job.name).parent
    digests = {(parent / name).as_posix(): sha256(folder / name) for name in files}
    return JobAttempt(replace(record, written=digests), folder, tuple(files), tuple(paths))


def _is_intact(job: Job, record: Record) -> bool:
    """Whether the files of the result are unchanged."""
    digests = {job.output / name: digest for name, digest in record.written.items()}
    return all(path.is_file() and sha256(path) == digest for path, digest in digests.items())


def _record_of(job: Job, outcome: CommandResult) -> Record:
    """The record of a process that has ended."""
    record = Record(
        model=str(job.model), output=job.name, status="crashed", seconds=round(outcome.seconds, 3)
    )
    last_line = next(
        (" ".join(line.split()) for line in reversed(outcome.err.splitlines()) if line.strip()), ""
    )
    if outcome.cut_off == "timeout":
        return replace(
            record, status="timeout", error=f"not done within {job.options.timeout:g} seconds"
        )
    if outcome.cut_off or outcome.code not in STATUS:
        if not outcome.cut_off and outcome.code > _SIGNALED and last_line.startswith(_ERROR):
            # the message of xopt names the signal
            return replace(record, error=last_line.removeprefix(_ERROR))
        reason = outcome.cut_off or end_text(outcome.code)
        return replace(record, error=f"{reason}: {last_line}" if last_line else reason)
    status = STATUS[outcome.code]
    error = last_line.removeprefix(_ERROR).removeprefix(_WARNING) if outcome.code else ""
    if status == "failed":
        return replace(record, status=status, error=error or "no result")
    try:
        summary: dict[str, Any] = json.loads(outcome.out)
        return replace(
            record,
            status=status,
            error=error,
            verdict=_comparisons(summary["verification"]),
            assumptions=tuple(summary.get("assumptions", ())),
            remarks=tuple(summary.get("remarks", ())),
            **{
                name: summary[name]
                for name in ("nodes_before", "nodes_after", "bytes_before", "bytes_after")
            },
        )
    except (ValueError, KeyError, TypeError):
        return replace(
            record,
            error=f"exit code {outcome.code} without a summary{': ' * bool(last_line)}{last_line}",
        )


def _comparisons(reports: list[dict[str, Any]]) -> str:
    """The comparisons on each provider, in words.

    They decide nothing: the status is that of the command, whose verdict also takes account of
    the target and the tolerance.
    """
    texts = []
    for report in reports:
        max_abs = (report["largest"] or {}).get("max_abs")
        gap = gap_text(report.get("unreached", ()), report.get("uncounted", ""), are_named=True)
        text = report["status"]
        if report["status"] == "equal":
            text += f", {gap}" if gap else ""
            text += (
                f", largest difference {max_abs:.2g}"
                if isinstance(max_abs, float) and max_abs
                else ", no difference"
            )
        elif report["reason"]:
            text += f": {report['reason']}"
        texts.append(text)
    return "; ".join(dict.fromkeys(texts))
