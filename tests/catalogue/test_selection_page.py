"""The page about selection is true: its snippets run."""

import re
import shlex
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.catalogue.toys import Install
from tests.support import parse, types
from xoptim import Query, database, installed_patterns
from xoptim.catalogue.entries import PRESETS
from xoptim.cli.main import run

PAGE = (Path(__file__).parents[2] / "docs" / "selection.md").read_text(encoding="utf-8")
MODEL = (
    "agraph (float[a,b] x) => (float[a,b] y) { s = Transpose(x) t = Transpose(s) u = Sinh(t) "
    "y = Asinh(u) }"
)


@pytest.fixture(autouse=True)
def _playground(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(MODEL), "model.onnx")
    install(*installed_patterns().values())


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_python_snippets() -> None:
    first, second = blocks("python")
    session: dict[str, Any] = {}
    exec(compile(first, "selection.md", "exec"), session)
    names = {
        key: [p.name() for p in session["select"](session[key])]
        for key in ("safe", "quick", "careful", "portable")
    }
    assert {"TransposeTranspose", "EinsumTranspose"} <= set(names["safe"]) - set(names["quick"])
    assert set(names["safe"]) - set(names["careful"]) >= {"FusedMatMul"}
    assert names["careful"][-2:] == [
        "RepeatedOnCpu",
        "ShapeArithmetic",
    ], "the last ones are passes of other groups"
    assert {"TransposeTranspose", "EinsumTranspose", "FusedMatMul"}.intersection(
        names["portable"]
    ) == {"TransposeTranspose"}
    assert {p.name() for p in database().query(Query(["einsum"]))} <= {
        p.name() for p in session["options"].selected()
    }
    exec(compile(second, "selection.md", "exec"), session)
    assert types(session["smaller"]) == ["Transpose", "Transpose"], "nothing but that pattern ran"
    assert types(session["optimize"](session["model"])) == ["Identity"]


def test_shell_snippets(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()
    ]
    assert len(lines) == 5
    for words in lines:
        assert words[0] == "xopt"
        assert run(words[1:]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        assert captured.out


def test_all_words_are_explained() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    explained = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    assert {*PRESETS} <= explained
    assert set(database().words()) <= explained | {
        tag for cls in installed_patterns().values() for tag in cls.tags
    }
    for word in explained:
        database().find(word)
