"""The snippets of docs/debugging.md run."""

import re
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.meta.sources import ROOT
from tests.support import types
from xoptim.cli.main import run
from xoptim.engine.environment import DebugSettings
from xoptim.scaffold.new_pattern import pattern_from_model

PAGE = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
SHIPPED = ROOT / "examples" / "models" / "tiny_bert.onnx"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _playground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SHIPPED, "model.onnx")


@pytest.mark.slow
def test_shell_snippets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        shlex.split(line, comments=True) for block in _blocks("sh") for line in block.splitlines()
    ]
    commands = set()
    for words in filter(None, lines):
        if words[0] == "make":
            given = dict(word.split("=", 1) for word in words[2:])
            text = pattern_from_model(given["NAME"], given["FROM"], given["NODES"].split(","))
            assert "g.op.Gelu(" in text
            continue
        with monkeypatch.context() as patch:
            while "=" in words[0]:
                name, _, value = words.pop(0).partition("=")
                patch.setenv(name, value)
            code = run(words[1:])
        captured = capsys.readouterr()
        assert (code, captured.err) == (0, ""), words
        assert captured.out
        commands.add(words[1])
    assert commands == {"explain", "apply", "bisect", "replay", "model.onnx"}


def test_python_snippets(capsys: pytest.CaptureFixture[str]) -> None:
    session: dict[str, Any] = {}
    for snippet in _blocks("python"):
        exec(compile(snippet, "debugging.md", "exec"), session)
    assert capsys.readouterr().out.startswith(
        "GatherUnsqueeze refused at #9 Gather '/m/Gather_1': an intermediate result is read "
        "elsewhere"
    )
    removed = Counter(types(onnx.load("model.onnx"))) - Counter(types(session["once"]))
    assert removed == {"Unsqueeze": 1, "Constant": 2}, "the constants that nothing reads went too"


def test_all_variables_are_listed() -> None:
    listed = set(re.findall(r"^\| `(\w+)=", PAGE, re.MULTILINE))
    assert listed >= {
        "LOG_PATTERN_OPTIMIZE",
        "PATTERN",
        "DROPPATTERN",
        "DUMPPATTERNS",
        "PATTERNNOREMOVE",
        "PATTERNSTEP",
    }
    fields = len(DebugSettings.__dataclass_fields__)
    assert len(listed) == fields, "a setting is missing on the page"
