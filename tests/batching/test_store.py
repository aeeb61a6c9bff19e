"""Leftovers of a killed run, and results that cannot be published."""

from pathlib import Path

import pytest

from tests.batching.fakes import files
from xoptim.batching import Record
from xoptim.batching.job import JobAttempt
from xoptim.batching.store import RESULTS, Store

A, B = (Record(model=f"/{name}", output=name, status="done") for name in "ab")


def test_what_a_killed_run_left(tmp_path: Path) -> None:
    (tmp_path / ".xopt-batch/run-old/attempt").mkdir(parents=True)
    newer = Record(model="/a", output="a", status="failed", error="why")
    (tmp_path / RESULTS).write_text(
        "\n".join([B.to_line(), A.to_line(), newer.to_line(), A.to_line()[:20]])
    )
    with Store(tmp_path) as store:
        assert store.records == {"a": newer, "b": B}
        assert list((tmp_path / ".xopt-batch").glob("run-*")) == [store.workspace]
        store.publish(JobAttempt(A))
        assert (tmp_path / RESULTS).read_text().splitlines()[-1] == A.to_line()
    assert (tmp_path / RESULTS).read_text() == f"{A.to_line()}\n{B.to_line()}\n"
    assert files(tmp_path) == {RESULTS}


def test_a_run_that_cannot_begin_or_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, content: bytes) -> None:
        raise OSError(f"cannot write {path}")

    with monkeypatch.context() as patch:
        patch.setattr("xoptim.batching.store.write_derived", fail)
        with pytest.raises(OSError, match=RESULTS), Store(tmp_path):
            pass
        patch.undo()
        with pytest.raises(OSError, match=RESULTS), Store(tmp_path):
            patch.setattr("xoptim.batching.store.write_derived", fail)
    with Store(tmp_path) as store:
        assert list((tmp_path / ".xopt-batch").glob("run-*")) == [store.workspace]


def test_a_result_that_cannot_be_moved(tmp_path: Path) -> None:
    (tmp_path / "a" / "inside").mkdir(parents=True)
    with Store(tmp_path) as store:
        record = store.publish(_attempt(store, "a"))
        assert record.status == "failed"
        assert "cannot write" in record.error
    assert (tmp_path / "a/inside").is_dir()


def test_weights_of_the_model_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.data").write_text("weights")
    with Store(tmp_path) as store:
        record = store.publish(_attempt(store, "a.data", "a", inputs=(tmp_path / "a.data",)))
        assert (record.status, record.written) == ("failed", {})
        assert "holds weights" in record.error
    assert (tmp_path / "a.data").read_text() == "weights"
    assert files(tmp_path) == {RESULTS, "a.data"}


def _attempt(store: Store, *names: str, inputs: tuple[Path, ...] = ()) -> JobAttempt:
    folder = store.workspace / "attempt"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("new")
    record = Record(
        model="/a", output="a", status="done", key="k", written=dict.fromkeys(names, "")
    )
    return JobAttempt(record, folder, names, inputs)
