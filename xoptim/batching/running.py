"""``xoptim.batch``: optimize many models, here or on the workers of a Dask cluster."""

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

from xoptim.batching.job import Attempt, Job, perform
from xoptim.batching.key import versions
from xoptim.batching.listing import find_models
from xoptim.batching.options import BatchOptions
from xoptim.batching.record import BatchError, BatchReport, Step
from xoptim.batching.store import Store

PATIENCE = "30s"
"""Time in which a scheduler has to answer."""


def run_on(scheduler: str, jobs: Sequence[Job]) -> Generator[Attempt]:
    """The attempts of jobs as they end. Dask repeats a job elsewhere when its worker disappears.

    The process of a model ends with its worker, and each attempt has a folder of its own, so that no file has two writers.
    When the iterator is closed, jobs that wait are cancelled, and the processes that run are ended. Raises `BatchError` when
    Dask is not installed, or no scheduler answers.
    """
    try:
        from dask.distributed import Client
        from dask.distributed import as_completed as completed
    except ImportError as error:
        raise BatchError(f"a scheduler needs dask.distributed, which xoptim[fleet] installs: {error}") from error
    try:
        client = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise BatchError(f"no scheduler of Dask answers at {scheduler!r}: {error}") from error
    with client:
        futures = {client.submit(perform, job, pure=False): job for job in jobs}
        try:
            for future in completed(futures):
                job, problem = futures.pop(future), future.exception()
                if problem is None:
                    attempt = future.result()
                else:  # a model that ended several workers, or a worker that cannot run jobs
                    attempt = job.failed(f"{type(problem).__name__}: {' '.join(str(problem).split())}", "crashed")
                future.release()  # otherwise the job is repeated when the worker that keeps this result disappears
                yield attempt
        finally:
            for job in jobs[:1]:
                job.marker.unlink(missing_ok=True)
            client.cancel(list(futures))


def run_here(jobs: Sequence[Job], count: int) -> Generator[Attempt]:
    """The attempts of jobs, ``count`` at a time, as they end; the processes that run are ended when the iterator is closed."""
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
    on_step: Callable[[Step], None] | None = None,
) -> BatchReport:
    """Optimize models, each in a process of its own that runs the command ``xopt MODEL``.

    A process that crashes or exceeds a limit loses one model only. ``output`` gets the results under the relative paths of the
    models, and ``results.jsonl`` with a line for each model. Models that an earlier call has done are skipped as long as their
    content, the options and the versions of the programs are the same, so that a call that was interrupted can be repeated.
    Returns the records of the models. Raises `BatchError` when there is no model, two models have one result, another batch
    writes into the folder, or no scheduler answers.

    Args:
        models: a folder, a pattern of paths such as ``models/**/*.onnx``, a text file with a path a line, or the paths.
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
        tell(Step(0, len(jobs)))
        # Signals interrupt this thread only: another one completes what it has begun to publish.
        attempts = run_on(options.scheduler, jobs) if options.scheduler else run_here(jobs, options.processes)
        with ThreadPoolExecutor(1) as publisher, closing(attempts):
            for count, attempt in enumerate(attempts, 1):
                record = publisher.submit(store.publish, attempt).result()
                if attempt.was_done:
                    skipped.add(record.output)
                tell(Step(count, len(jobs), record, attempt.was_done))
        records = [store.records[name] for name in found]
    return BatchReport(records, frozenset(skipped), time.monotonic() - began)


def _jobs(store: Store, models: Mapping[str, Path], options: BatchOptions) -> list[Job]:
    here = versions()
    return [
        Job(Path(os.path.abspath(path)), name, store.folder, store.workspace, options, here, store.records.get(name))
        for name, path in models.items()
    ]
