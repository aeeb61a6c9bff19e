"""``benchmarks.startup`` on a small model: one start of each file, and the rows of its tables."""

import json
import sys
from pathlib import Path

import onnx
import pytest

from benchmarks import startup
from benchmarks.large import Sizes
from benchmarks.measured import Table
from benchmarks.startup import (
    Start,
    Subject,
    cnn,
    decoder,
    in_order,
    ratio,
    settings_of,
    settings_rows,
)


@pytest.mark.slow
def test_a_start(tmp_path: Path) -> None:
    """The decoder and the CNN run, with settings of both kinds."""
    for name, model in (("decoder", decoder(Sizes(1, 32, 64, 4, 2, 50))), ("cnn", cnn(8, 2))):
        path = tmp_path / f"{name}.onnx"
        onnx.save(model, path)
        changes = {"level": "off", "enable_mem_pattern": False, "session.disable_prepacking": "1"}
        start = startup.start(Subject(path, changes), runs=1)
        assert min(start) > 0


def test_the_settings_of_a_file(tmp_path: Path) -> None:
    stored = {"graph_optimization_level": "off", "session_config_entries": {"a.b": "1"}}
    (tmp_path / "m.onnx.session.json").write_text(json.dumps(stored), encoding="utf-8")
    assert settings_of(tmp_path / "m.onnx") == {"level": "off", "a.b": "1"}


@pytest.mark.skipif(sys.platform != "linux", reason="the page cache of Linux is dropped")
def test_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round of warm starts is not counted; ratios are medians over the rounds."""
    starts: list[str] = []

    def start(subject: Subject, runs: int = 0) -> Start:
        starts.append(subject.path.name)
        place = int(subject.path.stem)
        return Start(4.0 / 2**place, 8_000_000 >> place, 6.0 / 2**place, 1.0)

    monkeypatch.setattr(startup, "start", start)
    names = ("original", "xopt", "xopt fast --for startup")
    for place in range(3):
        (tmp_path / f"{place}.onnx").touch()
    subjects = {name: Subject(tmp_path / f"{n}.onnx", {}) for n, name in enumerate(names)}
    cells = startup.row("CNN", "1 MB", subjects, rounds=2)
    ratios = ["0.50", "0.25"] * 2
    assert cells == ["CNN", "1 MB", *ratios, "8 MB", "4 MB", "2 MB"]
    assert starts == ["0.onnx", "1.onnx", "2.onnx"] * 5
    rows = [*settings_rows("CNN", "1 MB", subjects["xopt"], rounds=1)]
    assert rows[0] == ["CNN, 1 MB", "ORT graph optimizations: extended", "1.00", "1.00", "1.00"]


def test_a_ratio_is_of_pairs() -> None:
    assert ratio([1.0, 10.0, 3.0], [2.0, 10.0, 30.0]) == "0.50"


def test_the_order_of_rows() -> None:
    old = Table(["model", "weights", "time"], [["decoder", "1 GB", "0.5"], ["CNN", "1 GB", "0.6"]])
    new = Table(["model", "weights", "warm"], [["CNN", "100 MB", "0.8"], ["CNN", "10 MB", "0.7"]])
    table = in_order(old, new)
    assert [row[:2] for row in table.rows] == [
        ["CNN", "10 MB"],
        ["CNN", "100 MB"],
        ["CNN", "1 GB"],
        ["decoder", "1 GB"],
    ]
    assert table.columns == ["model", "weights", "warm"]
