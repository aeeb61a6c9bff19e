"""Folders of results into which another user has written: nothing outside is touched, and nothing
ends the batch.
"""

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.batching.fakes import write
from xoptim.batching import BatchError, BatchOptions, Record
from xoptim.batching.job import JobAttempt, sha256
from xoptim.batching.running import batch
from xoptim.batching.store import RESULTS, Store

GOOD = Record(model="/a", output="a.onnx", status="done", key="k", written={"a.onnx": "00"})
ONE = BatchOptions(jobs=1)


def line(**changes: Any) -> str:
    return json.dumps({**json.loads(GOOD.to_line()), **changes})


def publish(folder: Path, name: str, *files: str) -> Record:
    """The record of a result with new files, of which the folder may have an older one."""
    with Store(folder) as store:
        place = store.workspace / "attempt"
        place.mkdir()
        for each in files:
            (place / each).write_text("new")
        written = {str(Path(name).parent / each): sha256(place / each) for each in files}
        record = Record(model="/a", output=name, status="done", key="other", written=written)
        return store.publish(JobAttempt(record, place, files))


@pytest.mark.parametrize("how", ["..", "absolute", "link", "own"])
def test_files_outside_stay(tmp_path: Path, how: str) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim.txt"
    out.mkdir()
    victim.write_text("mine")
    (out / "link").symlink_to(tmp_path, target_is_directory=True)
    names = {
        "..": "../victim.txt",
        "absolute": str(victim),
        "link": "link/victim.txt",
        "own": ".xopt-batch/../../victim.txt",
    }
    (out / RESULTS).write_text(line(written={names[how]: sha256(victim)}) + "\n")
    assert publish(out, "a.onnx", "a.onnx").status == "done"
    assert victim.read_text() == "mine"


def test_only_files_that_are_as_they_were_written_are_removed(tmp_path: Path) -> None:
    for name in ("same.data", "changed.data", "target"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link.data").symlink_to("target")
    written = {
        name: sha256(tmp_path / name)
        for name in ("same.data", "changed.data", "link.data", "target")
    }
    (tmp_path / "changed.data").write_text("by another")
    del written["target"]
    (tmp_path / RESULTS).write_text(line(written=written) + "\n")
    publish(tmp_path, "a.onnx", "a.onnx")
    assert {path.name for path in tmp_path.iterdir()} >= {
        "changed.data",
        "link.data",
        "target",
        "a.onnx",
    }
    assert not (tmp_path / "same.data").exists()


def test_an_input_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_command: None
) -> None:
    monkeypatch.chdir(tmp_path)
    source = write(tmp_path / "in", a="fine")
    Path("out").mkdir()
    Path("out", RESULTS).write_text(
        line(written={"../in/a.onnx": sha256(source / "a.onnx")}) + "\n"
    )
    assert batch("in", "out", ONE).exit_code == 0
    assert (source / "a.onnx").read_text() == "fine"


BAD = {
    "not JSON": "{",
    "an array": "[1]",
    "deeply nested": "[" * 100_000 + "]" * 100_000,
    "status is a list": line(status=["done"]),
    "output is a number": line(output=7),
    "seconds is a text": line(seconds="1"),
    "seconds is not finite": line(seconds=float("nan")),
    "written has numbers": line(written={"a.onnx": 0}),
    "written is a list": line(written=["a.onnx"]),
    "half a character": line(error="\ud800"),
    "a zero": line(output="a\0.onnx"),
    "no output": '{"model": "a", "status": "done"}',
    "another field": line(owner="me"),
    "a huge number": line().replace("0.0", "9" * 5000),
    "a huge line": line(error="x" * (1 << 21)),
    "outside": line(output="../a.onnx"),
    "the folder": line(output="."),
    "the records": line(output=RESULTS),
    "nodes are a text": line(nodes_before="many"),
    "a Boolean": line(bytes_after=True),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_records(
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fake_command: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in", a="fine")
    Path("out").mkdir()
    kept = Record(model="/b", output="b.onnx", status="failed", error="why")
    Path("out", RESULTS).write_text(f"{BAD[name]}\n{BAD[name]}\n{kept.to_line()}\n")
    with caplog.at_level(logging.WARNING, "xoptim"):
        report = batch("in", "out", ONE)
    assert [record.status for record in report.records] == ["done"]
    (warning,) = [each.getMessage() for each in caplog.records]
    assert re.search(r"2 invalid .*\(line 1: ", warning)
    assert len(warning) < 300
    found = [json.loads(each)["output"] for each in Path("out", RESULTS).read_text().splitlines()]
    assert found == ["a.onnx", "b.onnx"]


def test_the_line_that_a_killed_run_cut_off_is_usual(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / RESULTS).write_text(f"{GOOD.to_line()}\n{GOOD.to_line()[:30]}")
    with caplog.at_level(logging.WARNING, "xoptim"), Store(tmp_path) as store:
        assert list(store.records) == ["a.onnx"]
    assert not caplog.records


@pytest.mark.parametrize("name", [".xopt-batch", RESULTS])
def test_links_in_place_of_its_own_files(tmp_path: Path, name: str) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    (other / "run-mine").mkdir(parents=True)
    (other / "run-mine" / "file").write_text("mine")
    (tmp_path / "records").write_text("mine")
    out.mkdir()
    (out / name).symlink_to(tmp_path / "records" if name == RESULTS else other)
    with pytest.raises(BatchError, match="symbolic link"), Store(out):
        pass
    assert (other / "run-mine" / "file").read_text() == (tmp_path / "records").read_text() == "mine"


def test_a_link_in_place_of_the_lock(tmp_path: Path) -> None:
    if not hasattr(os, "O_NOFOLLOW"):
        pytest.skip("the system cannot refuse links when it opens a file")
    (tmp_path / "out/.xopt-batch").mkdir(parents=True)
    (tmp_path / "out/.xopt-batch/lock").symlink_to(tmp_path / "made")
    with pytest.raises(BatchError, match="cannot write"), Store(tmp_path / "out"):
        pass
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["sub/a.onnx", "a.onnx"])
def test_results_do_not_leave_the_folder_by_links(tmp_path: Path, name: str) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    out.mkdir()
    other.mkdir()
    (other / "a.onnx").write_text("mine")
    (out / "sub").symlink_to(other, target_is_directory=True)
    (out / "a.onnx").symlink_to(other / "a.onnx")
    record = publish(out, name, "a.onnx")
    assert (record.status, record.written) == ("failed", {})
    assert "symbolic link" in record.error
    assert [path.name for path in other.iterdir()] == ["a.onnx"]
    assert (other / "a.onnx").read_text() == "mine"
    assert (out / "a.onnx").is_symlink()


def test_links_between_folders_of_results_are_not_followed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "other").mkdir(parents=True)
    (out / "sub").symlink_to("other", target_is_directory=True)
    record = publish(out, "sub/a.onnx", "a.onnx")
    assert record.status == "failed"
    assert re.search("sub': .*symbolic link", record.error)
    assert list((out / "other").iterdir()) == []
