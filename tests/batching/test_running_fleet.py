"""A Dask cluster of processes on this machine: the same results, and nothing is lost with a
worker.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

import xoptim
from tests.batching.fakes import SCRIPT, files, runs, write
from xoptim.batching import BatchError, BatchOptions, BatchStep, running
from xoptim.batching.store import RESULTS

has_dask = find_spec("distributed") is not None
needs_dask = pytest.mark.skipif(
    not has_dask or sys.platform != "linux",
    reason="needs Linux and dask.distributed (pip install xoptim[fleet])",
)


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a cluster of two workers, each a process with one thread, which is replaced
    when it ends.
    """
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        replaced = f"from xoptim.batching import workers; workers.CODE = {SCRIPT!r}"
        client.register_worker_callbacks(setup=partial(exec, replaced, {}))
        yield cluster.scheduler_address


@needs_dask
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_worker_that_is_killed(scheduler: str, tmp_path: Path) -> None:
    """Its model is done again, those that are done are not.

    One result is published though its process goes on for a while.
    """
    texts = {f"m{number}": "fine" for number in range(5)}
    models, out = write(tmp_path / "in", **texts, bad="crash", zlast="slow"), tmp_path / "out"

    def kill_worker(step: BatchStep) -> None:
        if step.done == len(texts) + 1:
            while not (models / "zlast.runs").exists():
                time.sleep(0.01)
            process = int((models / "zlast.runs").read_text())
            write(models, zlast="weighty")
            os.kill(_parent(process), signal.SIGKILL)

    options = BatchOptions(scheduler=scheduler)
    report = xoptim.batch(models, out, options, on_step=kill_worker)
    good = {f"{name}.onnx" for name in (*texts, "zlast")}
    assert {record.output: record.status for record in report.records} == {
        **dict.fromkeys(good, "done"),
        "bad.onnx": "crashed",
    }
    assert runs(models) == {**dict.fromkeys(texts, 1), "bad": 1, "zlast": 2}
    assert files(out) == {RESULTS, "zlast.onnx.data", *good}
    assert len((out / RESULTS).read_text().splitlines()) == len(good) + 1
    assert xoptim.batch(models, out, options).skipped == good


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.filterwarnings("default")
def test_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", "1s")
    message = (
        "no Dask scheduler answers at 'tcp://127.0.0.1:9'"
        if has_dask
        else r"pip install 'xoptim\[fleet\]'"
    )
    with pytest.raises(BatchError, match=message):
        xoptim.batch(
            write(tmp_path / "in", a="fine"),
            tmp_path / "out",
            BatchOptions(scheduler="tcp://127.0.0.1:9"),
        )
