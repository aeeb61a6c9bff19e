"""``xoptim.batch``: optimize models here or on a Dask cluster, and publish results one by one."""

import glob
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from typing import Final

from xoptim.batching.job import Job, JobAttempt, perform, versions
from xoptim.batching.options import BatchOptions
from xoptim.batching.record import BatchError, BatchReport, BatchStep, is_text
from xoptim.batching.store import Store
from xoptim.batching.workers import Workers, run_command
from xoptim.system.machine import CAN_FORK
from xoptim.system.reading import read_file

_SUFFIX: Final = ".onnx"
_SUFFIXES: Final = (_SUFFIX, ".onnxtxt", ".onnxtext", ".onnxjson")
"""Suffixes of models. ``.onnx_data``, with which Hugging Face stores weights, is none."""


def find_models(source: str | Path | Sequence[str | Path], output: Path) -> dict[str, Path]:
    """The models of a source in order, by the path of the result relative to the batch's folder.

    Raises `BatchError` when there is no model, when a path is not valid UTF-8, when two models
    would be written to the same file, or when a result would replace a model.

    Args:
        source: a folder, which is searched recursively (hidden folders excepted); a glob such as
            ``models/**/*.onnx``; a text file with one path per line (``#`` begins a comment),
            relative to the current folder; or the paths of models. Folders and globs skip an
            ``output`` below them.
        output: the folder of the batch.
    """
    if isinstance(source, (str, Path)):
        base, paths = _models_of(str(source), output)
    else:
        base, paths = _with_base([Path(path) for path in source])
    if not paths:
        raise BatchError(f"there is no model in {str(source)!r}")
    models: dict[str, Path] = {}
    for path in paths:
        absolute = Path(os.path.abspath(path))
        if not is_text(str(absolute)):  # a record could not be written
            raise BatchError(f"the path {str(path)!r} is not valid UTF-8; rename it")
        if not absolute.is_relative_to(base):
            raise BatchError(
                f"{str(path)!r} is outside {str(base)!r}; use a glob without '..' after '*'"
            )
        name = _result_of(absolute.relative_to(base)).as_posix()
        if name in models:
            raise BatchError(
                f"{str(models[name])!r} and {str(path)!r} would be written to the same file, "
                f"{name!r}; rename one of them"
            )
        models[name] = path
    originals = {os.path.realpath(path) for path in paths}
    for name, path in models.items():
        if os.path.realpath(output / name) in originals:
            raise BatchError(
                f"the result of {str(path)!r} would replace a model; write into another folder"
            )
    return models


def _models_of(source: str, output: Path) -> tuple[Path, list[Path]]:
    """The folder to which the results are relative, and the models."""
    path = Path(source)
    if path.is_dir():
        return Path(os.path.abspath(path)), sorted(_walk(path, output))
    if path.is_file():
        return _with_base([path] if path.suffix in _SUFFIXES else _lines(path))
    if not glob.has_magic(source):
        raise BatchError(
            f"{source!r} is neither a folder, nor a file that lists models, nor a glob such as "
            "'models/*.onnx'"
        )
    base_parts = list(
        path.parts[: next(index for index, part in enumerate(path.parts) if glob.has_magic(part))]
    )
    base = Path(os.path.abspath(Path(*base_parts)))
    models = [path for text in glob.glob(source, recursive=True) if (path := Path(text)).is_file()]
    output_path = os.path.realpath(output)
    if not Path(os.path.realpath(base)).is_relative_to(output_path):
        models = [
            path
            for path in models
            if not Path(os.path.realpath(path.parent)).is_relative_to(output_path)
        ]
    return base, sorted(models)


def _walk(folder: Path, output: Path) -> Iterator[Path]:
    output_path = os.path.realpath(output)
    for root, folders, names in os.walk(folder):
        parent = Path(root)
        folders[:] = [
            n
            for n in folders
            if not n.startswith(".") and os.path.realpath(parent / n) != output_path
        ]
        yield from (
            parent / n for n in names if not n.startswith(".") and Path(n).suffix in _SUFFIXES
        )


def _lines(path: Path) -> list[Path]:
    try:
        lines = [line.strip() for line in read_file(path).decode("utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BatchError(f"cannot read a list of models from {str(path)!r}: {reason}") from error
    return [Path(line) for line in lines if line and not line.startswith("#")]


def _with_base(paths: list[Path]) -> tuple[Path, list[Path]]:
    """The innermost folder around all models, and the models, each once."""
    if not paths:
        return Path.cwd(), []
    base = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    return Path(base), list({os.path.abspath(path): path for path in paths}.values())


def _result_of(path: Path) -> Path:
    return (
        path.with_suffix(_SUFFIX)
        if path.suffix in _SUFFIXES
        else path.with_name(f"{path.name}{_SUFFIX}")
    )


PATIENCE = "30s"
"""Time in which a scheduler has to answer."""


def run_on(scheduler: str, jobs: Sequence[Job]) -> Generator[JobAttempt]:
    """The attempts of jobs as they end. Dask repeats a job elsewhere when its worker disappears.

    The process of a model ends with its worker, and each attempt has a folder of its own, so that
    no file has two writers. When the iterator is closed, jobs that wait are cancelled, and the
    processes that run are ended. Raises `BatchError` when Dask is not installed, or no scheduler
    answers.
    """
    try:
        from dask.distributed import Client, as_completed as completed
    except ImportError as error:
        raise BatchError(
            f"a scheduler needs dask.distributed: pip install 'xoptim[fleet]' ({error})"
        ) from error
    try:
        client = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise BatchError(f"no Dask scheduler answers at {scheduler!r}: {error}") from error
    with client:
        futures = {client.submit(perform, job, pure=False): job for job in jobs}
        try:
            for future in completed(futures):
                job, problem = futures.pop(future), future.exception()
                if problem is None:
                    attempt = future.result()
                else:  # the model has ended several workers, or the worker cannot run jobs
                    attempt = job.failed(
                        f"{type(problem).__name__}: {' '.join(str(problem).split())}", "crashed"
                    )
                # otherwise, the job would be repeated when the worker with this result disappears
                future.release()
                yield attempt
        finally:
            for job in jobs[:1]:
                job.marker.unlink(missing_ok=True)
            client.cancel(list(futures))


def run_here(jobs: Sequence[Job], count: int) -> Generator[JobAttempt]:
    """The attempts of jobs, ``count`` at a time, as they end; closing the iterator ends all
    processes.
    """
    with closing(Workers()) as workers, ThreadPoolExecutor(count) as pool:
        run = workers.run if CAN_FORK and len(jobs) > count else run_command
        try:
            for future in as_completed([pool.submit(perform, job, run) for job in jobs]):
                yield future.result()
        finally:
            for job in jobs[:1]:
                job.marker.unlink(missing_ok=True)
            pool.shutdown(cancel_futures=True)


def batch(
    models: str | Path | Sequence[str | Path],
    output: str | Path,
    options: BatchOptions | None = None,
    *,
    on_step: Callable[[BatchStep], None] | None = None,
) -> BatchReport:
    """Optimize models, each in its own process that runs the command ``xopt MODEL``.

    A crash or an exceeded limit affects one model only. ``output`` gets the results under the
    relative paths of the models, and ``results.jsonl`` with a line for each model. Models that an
    earlier call has done are skipped while their content, the options and the package versions are
    the same, so that an interrupted call can be repeated. Returns the records of the models. Raises
    `BatchError` when there is no model, two would be written to the same file, another batch writes
    into the folder, or no scheduler answers.

    Args:
        models: a folder, a glob such as ``models/**/*.onnx``, a text file with one path per line,
            or the paths.
        output: the folder of the results.
        options: limits, and the options of the command; see `BatchOptions`.
        on_step: called at the beginning, and after each model.
    """
    start = time.monotonic()
    options = options or BatchOptions()
    notify = on_step or (lambda _: None)
    folder = Path(os.path.abspath(output))
    paths = find_models(models, folder)
    skipped: set[str] = set()
    with Store(folder) as store:
        jobs = _jobs(store, paths, options)
        jobs[0].marker.touch()
        notify(BatchStep(0, len(jobs)))
        # Signals interrupt this thread only: the publisher completes what it has begun.
        attempts = (
            run_on(options.scheduler, jobs)
            if options.scheduler
            else run_here(jobs, options.processes)
        )
        with ThreadPoolExecutor(1) as publisher, closing(attempts):
            for count, attempt in enumerate(attempts, 1):
                record = publisher.submit(store.publish, attempt).result()
                if attempt.was_done:
                    skipped.add(record.output)
                notify(BatchStep(count, len(jobs), record, attempt.was_done))
        records = [store.records[name] for name in paths]
    return BatchReport(records, frozenset(skipped), time.monotonic() - start)


def _jobs(store: Store, models: Mapping[str, Path], options: BatchOptions) -> list[Job]:
    package_versions = versions()
    return [
        Job(
            Path(os.path.abspath(path)),
            name,
            store.folder,
            store.workspace,
            options,
            package_versions,
            store.records.get(name),
        )
        for name, path in models.items()
    ]
