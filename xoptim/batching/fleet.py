"""Runs jobs on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from xoptim.batching.errors import BatchError
from xoptim.batching.job import Attempt, Job, perform

PATIENCE = "30s"
"""Time in which a scheduler has to answer."""


def run_on(scheduler: str, jobs: Sequence[Job]) -> Generator[Attempt]:
    """The attempts of jobs as they end. Dask repeats a job elsewhere when its worker disappears.

    The process of a model ends with its worker, and each attempt has a folder of its own, so that no file has two writers. When
    the iterator is closed, jobs that wait are cancelled, and the processes that run are ended.

    Args:
        scheduler: the address of the scheduler.
        jobs: the jobs of one run of a batch.

    Raises:
        BatchError: Dask is not installed, or no scheduler answers.
    """
    try:
        from dask.distributed import Client, as_completed
    except ImportError as error:
        raise BatchError(f"a scheduler needs dask.distributed, which xoptim[fleet] installs: {error}") from error
    try:
        client = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise BatchError(f"no scheduler of Dask answers at {scheduler!r}: {error}") from error
    with client:
        futures = {client.submit(perform, job, pure=False): job for job in jobs}
        try:
            for future in as_completed(futures):
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
