"""Batches with a command that crashes, hangs and refuses: one model is lost.

What is done is not done again.
"""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import xoptim
from tests.batching.fakes import files, runs, write
from tests.support import parse, values_in
from xoptim.batching import BatchError, BatchOptions, BatchStep
from xoptim.batching.store import RESULTS, Store
from xoptim.cli.main import run
from xoptim.system.machine import CAN_FORK

pytestmark = pytest.mark.usefixtures("fake_command")
FAST = BatchOptions(jobs=4)


def lines(output: Path) -> dict[str, str]:
    """Status by result."""
    records = [json.loads(line) for line in (output / RESULTS).read_text().splitlines()]
    found = {record["output"]: record["status"] for record in records}
    assert len(found) == len(records), "a line for each model"
    return found


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_each_model_ends_in_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of one is over when all others have ended, however long that takes."""

    def now() -> float:
        found = tmp_path / "out" / RESULTS
        is_last = found.exists() and found.read_text().count("\n") == 6
        return 1000.0 if is_last else 0.0

    monkeypatch.setattr(
        "xoptim.system.supervised.time", SimpleNamespace(monotonic=now, sleep=time.sleep)
    )
    models = write(
        tmp_path / "in",
        a__good="fine",
        bad="crash",
        late="slow",
        odd="broken",
        other="different",
        doubt="doubtful",
        mute="silent",
    )
    report = xoptim.batch(models, tmp_path / "out", BatchOptions(jobs=7, timeout=100.0))
    assert {record.output: record.status for record in report.records} == {
        "a/good.onnx": "done",
        "bad.onnx": "crashed",
        "late.onnx": "timeout",
        "odd.onnx": "failed",
        "other.onnx": "different",
        "doubt.onnx": "not verified",
        "mute.onnx": "crashed",
    }
    assert lines(tmp_path / "out") == {record.output: record.status for record in report.records}
    assert report.exit_code == 2
    errors = {record.output: record.error for record in report.records}
    assert errors["bad.onnx"].endswith("SIGKILL")
    assert values_in(errors["late.onnx"]) == ["100"]
    assert values_in(errors["odd.onnx"]) == ["it"]
    assert files(tmp_path / "out") == {RESULTS, "a/good.onnx", "doubt.onnx"}
    good = report.records[0]
    assert (good.nodes_before, good.nodes_after, good.bytes_after) == (3, 1, 100)
    assert good.verdict.startswith("equal, no ")


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (["fine"], 0),
        (["fine", "doubtful"], 3),
        (["doubtful", "different"], 1),
        (["different", "crash"], 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst(tmp_path: Path, texts: list[str], code: int) -> None:
    models = write(tmp_path / "in", **{f"m{number}": text for number, text in enumerate(texts)})
    assert xoptim.batch(models, tmp_path / "out", FAST).exit_code == code


def test_branches_that_did_not_run_are_in_the_verdict(tmp_path: Path) -> None:
    models = write(tmp_path / "in", a="partial")
    (record,) = xoptim.batch(models, tmp_path / "out", FAST).records
    assert record.status == "done"
    assert record.verdict.startswith("equal, 1 branch ")
    assert values_in(record.verdict) == ["1", "then", "y"]


@pytest.mark.slow
def test_only_the_changes_are_done_again(tmp_path: Path) -> None:
    models, out = (
        write(tmp_path / "in", a="fine", b="fine", c="different", d="crash"),
        tmp_path / "out",
    )
    xoptim.batch(models, out, FAST)
    assert xoptim.batch(models, out, FAST).skipped == {"a.onnx", "b.onnx", "c.onnx"}
    assert runs(models) == {"a": 1, "b": 1, "c": 1, "d": 2}, "a crash is tried again"
    write(models, a="fine 2", d="fine")
    assert xoptim.batch(models, out, FAST).skipped == {"b.onnx", "c.onnx"}
    assert json.loads((out / "a.onnx").read_text())[-1] == ["2"]
    (out / "b.onnx").write_text("damaged")
    assert xoptim.batch(models, out, FAST).skipped == {"a.onnx", "c.onnx", "d.onnx"}
    assert "damaged" not in (out / "b.onnx").read_text()
    changed = BatchOptions(jobs=4, arguments=("--drop", "Gelu"))
    assert not xoptim.batch(models, out, changed).skipped
    assert json.loads((out / "b.onnx").read_text())[1] == [
        "--no-config",
        "optimize",
        "--drop",
        "Gelu",
    ]
    assert len(xoptim.batch(models, out, changed).skipped) == 4
    assert not xoptim.batch(
        models, out, BatchOptions(jobs=4, arguments=("--drop", "Gelu"), resume=False)
    ).skipped


def test_results_that_no_longer_hold_are_removed(tmp_path: Path) -> None:
    models, out = write(tmp_path / "in", a="weighty", b="weighty"), tmp_path / "out"
    xoptim.batch(models, out, FAST)
    assert files(out) == {RESULTS, *(f"{name}.onnx{end}" for name in "ab" for end in ("", ".data"))}
    (out / "notes.txt").write_text("another file")
    (models / "b.onnx").unlink()
    assert (
        xoptim.batch([models / "a.onnx", models / "b.onnx"], out, FAST).records[1].status
        == "failed"
    )
    assert "b.onnx.data" in files(out), "a model that cannot be read may be the same"
    write(models, a="fine", b="crash")
    xoptim.batch(models, out, FAST)
    assert files(out) == {RESULTS, "a.onnx", "notes.txt"}


def test_an_interrupted_batch_goes_on(tmp_path: Path) -> None:
    models, out = write(tmp_path / "in", a="fine", b="slow", c="slow"), tmp_path / "out"

    def interrupt(step: BatchStep) -> None:
        if step.done:
            while not (models / "b.runs").exists():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        xoptim.batch(models, out, BatchOptions(jobs=2), on_step=interrupt)
    assert not is_running(int((models / "b.runs").read_text()))
    assert lines(out) == {"a.onnx": "done"}
    assert files(out) == {RESULTS, "a.onnx"}
    assert [path.name for path in (out / ".xopt-batch").iterdir()] == ["lock"]
    write(models, b="fine", c="fine")
    assert xoptim.batch(models, out, FAST).skipped == {"a.onnx"}
    assert lines(out) == dict.fromkeys(("a.onnx", "b.onnx", "c.onnx"), "done")


@pytest.mark.slow
def test_two_batches_with_one_folder(tmp_path: Path) -> None:
    models, out = write(tmp_path / "in", a="fine"), tmp_path / "out"
    with Store(out), pytest.raises(BatchError, match="another batch"):
        xoptim.batch(models, out)
    assert xoptim.batch(models, out).exit_code == 0


def test_lines_of_other_models_stay(tmp_path: Path) -> None:
    models, out = write(tmp_path / "in", a="fine", b="fine"), tmp_path / "out"
    xoptim.batch([models / "a.onnx"], out)
    xoptim.batch([models / "b.onnx"], out)
    assert lines(out) == {"a.onnx": "done", "b.onnx": "done"}


@pytest.mark.slow
def test_the_bytes_are_those_of_one_model_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real command, and weights in a file of their own."""
    monkeypatch.undo()
    text = (
        "agraph (float[a,300] x) => (float[a,300] y) { t = Transpose(x) u = Transpose(t) "
        "y = Mul(u, w) }"
    )
    model = parse(text)
    weights = np.arange(300, dtype=np.float32)[None]
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    (tmp_path / "in").mkdir()
    onnx.save(
        model,
        tmp_path / "in/m.onnx",
        save_as_external_data=True,
        location="m.bin",
        size_threshold=0,
    )
    report = xoptim.batch(tmp_path / "in", tmp_path / "out")
    assert (report.exit_code, report.records[0].nodes_after) == (0, 1)
    (tmp_path / "alone").mkdir()
    assert run([str(tmp_path / "in/m.onnx"), "-o", str(tmp_path / "alone/m.onnx"), "-q"]) == 0
    for name in ("m.onnx", "m.onnx.data"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert xoptim.batch(tmp_path / "in", tmp_path / "out").skipped == {"m.onnx"}
    with (tmp_path / "in/m.bin").open("r+b") as stream:
        stream.write(b"\x01")
    assert not xoptim.batch(tmp_path / "in", tmp_path / "out").skipped, (
        "weights in a file of their own count"
    )


@pytest.mark.slow
@pytest.mark.skipif(not CAN_FORK, reason="processes are not copied")
def test_a_process_that_is_kept_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real command: the same files and records as with a process for each model."""
    monkeypatch.undo()
    (tmp_path / "in").mkdir()
    moves = "t = Transpose(x) u = Transpose(t)"
    for name, body in {"a": f"{moves} y = Relu(u)", "b": f"{moves} y = Add(u, u)"}.items():
        model = parse(f"agraph (float[n,4] x) => (float[n,4] y) {{ {body} }}")
        onnx.save(model, tmp_path / f"in/{name}.onnx")
    (tmp_path / "in/c.onnx").write_text("no model")
    one_each = BatchOptions(jobs=1, arguments=("--strict",))
    kept = xoptim.batch(tmp_path / "in", tmp_path / "kept", one_each)
    monkeypatch.setattr("xoptim.batching.running.CAN_FORK", False)
    alone = xoptim.batch(tmp_path / "in", tmp_path / "alone", one_each)
    assert [replace(record, seconds=0) for record in kept.records] == [
        replace(record, seconds=0) for record in alone.records
    ]
    assert [record.status for record in kept.records] == ["done", "done", "failed"]
