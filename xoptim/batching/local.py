"""Runs jobs on this machine."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from xoptim.batching.job import Attempt, Job, perform


def run_here(jobs: Sequence[Job], count: int) -> Generator[Attempt]:
    """The attempts of jobs as they end; a thread waits for the process of each.

    When the iterator is closed, the processes that run are ended.

    Args:
        jobs: the jobs of one run of a batch.
        count: number of processes at a time.
    """
    with ThreadPoolExecutor(count) as pool:
        try:
            for future in as_completed([pool.submit(perform, job) for job in jobs]):
                yield future.result()
        finally:
            for job in jobs[:1]:
                job.marker.unlink(missing_ok=True)
            pool.shutdown(cancel_futures=True)
