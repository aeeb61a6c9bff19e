"""A job that fails before its process starts."""

import errno
import os
from pathlib import Path

from xoptim.batching import BatchOptions
from xoptim.batching.job import Job, perform, versions


def test_a_worker_with_other_versions(tmp_path: Path) -> None:
    job = Job(
        tmp_path / "m.onnx",
        "m.onnx",
        tmp_path,
        tmp_path,
        BatchOptions(),
        {**versions(), "xoptim": "0.0"},
    )
    record = perform(job).record
    assert record.status == "failed"
    assert "versions" in record.error


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    record = perform(
        Job(tmp_path / "m.onnx", "m.onnx", tmp_path, tmp_path, BatchOptions(), versions())
    ).record
    assert (record.status, record.model) == ("failed", str(tmp_path / "m.onnx"))
    assert record.error == f"cannot read {record.model!r}: {os.strerror(errno.ENOENT)}"
