"""``xoptim.batch``: optimize the models of a batch here or on a Dask cluster, and publish results
one by one.
"""

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
from xoptim.batching.record import BatchError, BatchReport, BatchStep
from xoptim.batching.store import Store
from xoptim.system.reading import read_file

_SUFFIX: Final = ".onnx"
"""Beginning of the suffixes of models: ``.onnx``, and the text forms ``.onnxtxt``, ``.onnxtext``
and ``.onnxjson``.
"""


def find_models(source: str | Path | Sequence[str | Path], output: Path) -> dict[str, Path]:
    """The models that a source names, by the path of their result relative to the folder of the
    batch, in order.

    Raises `BatchError` when there is no model, when two have one result, or when a result would
    replace a model.

    Args:
        source: a folder, which is searched with the folders in it (hidden ones excepted); a pattern
            of paths such as ``models/**/*.onnx``; a text file with a path a line (``#`` begins a
            comment), relative to the current folder; or the paths of models. Folders and patterns
            do not find what is in ``output``.
        output: the folder of the batch.
    """
    if isinstance(source, (str, Path)):
        base, paths = _found(str(source), output)
    else:
        base, paths = _listed([Path(path) for path in source])
    if not paths:
        raise BatchError(f"there is no model in {str(source)!r}")
    models: dict[str, Path] = {}
    for path in paths:
        absolute = Path(os.path.abspath(path))
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


def _found(source: str, output: Path) -> tuple[Path, list[Path]]:
    """The folder to which the results are relative, and the models."""
    path = Path(source)
    if path.is_dir():
        return Path(os.path.abspath(path)), sorted(_walked(path, output))
    if path.is_file():
        return _listed([path] if path.suffix.startswith(_SUFFIX) else _lines(path))
    if not glob.has_magic(source):
        raise BatchError(
            f"{source!r} is neither a folder, nor a file that lists models, nor a glob such as "
            "'models/*.onnx'"
        )
    fixed = list(
        path.parts[: next(index for index, part in enumerate(path.parts) if glob.has_magic(part))]
    )
    found = [Path(text) for text in glob.glob(source, recursive=True)]
    own = os.path.realpath(output)
    inside = [
        path
        for path in found
        if path.is_file() and not Path(os.path.realpath(path.parent)).is_relative_to(own)
    ]
    return Path(os.path.abspath(Path(*fixed))), sorted(inside)


def _walked(folder: Path, output: Path) -> Iterator[Path]:
    own = os.path.realpath(output)
    for place, folders, names in os.walk(folder):
        inside = Path(place)
        folders[:] = [
            n for n in folders if not n.startswith(".") and os.path.realpath(inside / n) != own
        ]
        yield from (
            inside / n
            for n in names
            if not n.startswith(".") and Path(n).suffix.startswith(_SUFFIX)
        )


def _lines(path: Path) -> list[Path]:
    try:
        lines = [line.strip() for line in read_file(path).decode("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BatchError(f"cannot read a list of models from {str(path)!r}: {reason}") from error
    return [Path(line) for line in lines if line and not line.startswith("#")]


def _listed(paths: list[Path]) -> tuple[Path, list[Path]]:
    """The innermost folder around all of these models, and the models, each once."""
    if not paths:
        return Path.cwd(), []
    base = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    return Path(base), list({os.path.abspath(path): path for path in paths}.values())


def _result_of(path: Path) -> Path:
    return (
        path.with_suffix(_SUFFIX)
        if path.suffix.startswith(_SUFFIX)
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
                else:  # a model that ended several workers, or a worker that cannot run jobs
                    attempt = job.failed(
                        f"{type(problem).__name__}: {' '.join(str(problem).split())}", "crashed"
                    )
                # otherwise the job is repeated when the worker that keeps this result disappears
                future.release()
                yield attempt
        finally:
            for job in jobs[:1]:
                job.marker.unlink(missing_ok=True)
            client.cancel(list(futures))


def run_here(jobs: Sequence[Job], count: int) -> Generator[JobAttempt]:
    """The attempts of jobs, ``count`` at a time, as they end.

    The processes that run are ended when the iterator is closed.
    """
    with ThreadPoolExecutor(count) as pool:
        try:
            for future in as_completed([pool.submit(perform, job) for job in jobs]):
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
    """Optimize models, each in a process of its own that runs the command ``xopt MODEL``.

    A process that crashes or exceeds a limit loses one model only. ``output`` gets the results
    under the relative paths of the models, and ``results.jsonl`` with a line for each model. Models
    that an earlier call has done are skipped as long as their content, the options and the versions
    of the programs are the same, so that a call that was interrupted can be repeated. Returns the
    records of the models. Raises `BatchError` when there is no model, two models have one result,
    another batch writes into the folder, or no scheduler answers.

    Args:
        models: a folder, a pattern of paths such as ``models/**/*.onnx``, a text file with a path a
            line, or the paths.
        output: the folder of the results.
        options: limits, and the options of the command; see `BatchOptions`.
        on_step: called at the beginning, and after each model.
    """
    began = time.monotonic()
    options = options or BatchOptions()
    tell = on_step or (lambda _: None)
    folder = Path(os.path.abspath(output))
    found = find_models(models, folder)
    skipped: set[str] = set()
    with Store(folder) as store:
        jobs = _jobs(store, found, options)
        jobs[0].marker.touch()
        tell(BatchStep(0, len(jobs)))
        # Signals interrupt this thread only: another one completes what it has begun to publish.
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
                tell(BatchStep(count, len(jobs), record, attempt.was_done))
        records = [store.records[name] for name in found]
    return BatchReport(records, frozenset(skipped), time.monotonic() - began)


def _jobs(store: Store, models: Mapping[str, Path], options: BatchOptions) -> list[Job]:
    here = versions()
    return [
        Job(
            Path(os.path.abspath(path)),
            name,
            store.folder,
            store.workspace,
            options,
            here,
            store.records.get(name),
        )
        for name, path in models.items()
    ]
