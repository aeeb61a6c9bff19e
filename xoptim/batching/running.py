"""``xoptim.batch``: optimize many models."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from xoptim.batching.fleet import run_on
from xoptim.batching.job import Attempt, Job
from xoptim.batching.key import versions
from xoptim.batching.listing import find_models
from xoptim.batching.local import run_here
from xoptim.batching.options import BatchOptions
from xoptim.batching.report import BatchReport, Step
from xoptim.batching.store import Store


def batch(
    models: str | Path | Sequence[str | Path],
    output: str | Path,
    options: BatchOptions | None = None,
    *,
    on_step: Callable[[Step], None] | None = None,
) -> BatchReport:
    """Optimize models, each in a process of its own that runs the command ``xopt MODEL``.

    A process that crashes or exceeds a limit loses one model only. ``output`` gets the results under the relative paths of
    the models, and ``results.jsonl`` with a line for each model. Models that an earlier call has done are skipped as long as
    their content, the options and the versions of the programs are the same, so that a call that was interrupted can be
    repeated.

    Args:
        models: a folder, a pattern of paths such as ``models/**/*.onnx``, a text file with a path a line, or the paths.
        output: the folder of the results.
        options: limits, and the options of the command; see `BatchOptions`.
        on_step: called at the beginning, and after each model.

    Returns:
        The records of the models.

    Raises:
        BatchError: when there is no model, two models have one result, another batch writes into the folder, or no
            scheduler answers.
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
        with ThreadPoolExecutor(1) as publisher, closing(_attempts(jobs, options)) as attempts:
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
        Job(
            model=Path(os.path.abspath(path)),
            name=name,
            output=store.folder,
            workspace=store.workspace,
            options=options,
            versions=here,
            before=store.records.get(name),
        )
        for name, path in models.items()
    ]


def _attempts(jobs: Sequence[Job], options: BatchOptions) -> Generator[Attempt]:
    return run_on(options.scheduler, jobs) if options.scheduler else run_here(jobs, options.processes)
