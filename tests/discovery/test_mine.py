"""``python -m lab.discovery.mine``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.discovery.mine import main
from tests.cli.command import write

SWISH = (
    "agraph (float[4] x) => (float[4] y) { s = Sigmoid(x) t = Mul(s, x) u = Sigmoid(t) "
    "y = Mul(t, u) }"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def mined(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_table() -> None:
    write(SWISH)
    write("agraph (float[4] x) => (float[4] y) { t = Sigmoid(x) y = Mul(x, t) }", "other.onnx")
    outcome = mined("model.onnx", "other.onnx", "--size", "2", "--top", "1")
    assert outcome.exit_code == 0
    heading, title, row = outcome.stdout.splitlines()
    assert heading.split() == ["subgraph", "places", "exclusive", "models", "example"]
    assert title.strip() == "2 nodes"
    assert row.split("  ")[1] == "Mul(Sigmoid(a), a)"
    assert row.split()[2:] == ["3", "3", "2", "model.onnx:", "s,", "t"]


def test_json() -> None:
    write(SWISH)
    found = json.loads(mined("model.onnx", "--json").stdout)
    assert [each["nodes"] for each in found] == [4, 3, 3, 3, 2, 2, 2]
    assert found[0] == {
        "form": "t1 = Mul(Sigmoid(a), a); Mul(Sigmoid(t1), t1)", "nodes": 4, "count": 1,
        "exclusive": 1, "models": 1, "model": "model.onnx", "place": ["s", "t", "u", "y"],
    }  # fmt: skip


def test_nothing_to_find() -> None:
    write("agraph (float[4] x) => (float[4] y) { y = Relu(x) }")
    assert json.loads(mined("model.onnx", "--json").stdout) == []
    assert mined().exit_code == 2
    assert mined("model.onnx", "--size", "6").exit_code == 2
