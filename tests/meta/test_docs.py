"""The documentation is correct: pages are up to date, snippets run, links have targets."""

from __future__ import annotations

import importlib.util
import logging
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from xoptim.cli.main import run

from tests.meta.sources import ROOT
from tests.support import parse

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(p for p in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")))
NOT_RUN_HERE = {"make demo", "make test"}  # they install packages, and the second one runs this test
NOT_THERE = {"patterns/activations/relu_relu.py"}  # the pattern that a reader writes

MODEL = """
agraph (float[batch,seq,768] x, int64[batch,seq] mask) => (float[batch,seq,4] y)
{
    t = Transpose <perm = [0, 2, 1]> (x)
    u = Transpose <perm = [0, 2, 1]> (t)
    shown = Cast <to = 9> (mask)
    hidden_ = Not(shown)
    back = Not(hidden_)
    weight = Cast <to = 1> (back)
    axis = Constant <value = int64[1] {2}> ()
    factor = Unsqueeze(weight, axis)
    hidden = Mul(u, factor)
    y = MatMul(hidden, w)
}"""


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(language: str) -> list[str]:
    """The snippets in a language in the README, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture
def playground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that the snippets name."""
    monkeypatch.chdir(tmp_path)
    model = parse(MODEL)
    weights = np.random.default_rng(0).standard_normal((768, 4)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    for name in ("model.onnx", "a.onnx", "b.onnx"):
        onnx.save(model, name)
    np.savez("inputs.npz", x=np.ones((4, 3, 768), np.float32))
    logger = logging.getLogger("xoptim")
    level, handlers = logger.level, list(logger.handlers)
    yield tmp_path
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_pages_of_patterns_are_up_to_date() -> None:
    pytest.importorskip("jinja2")
    generate = _module(ROOT / "docs" / "generate.py")
    wanted = generate.pages()
    found = {path.name: path.read_text(encoding="utf-8") for path in generate.FOLDER.glob("*")}
    stale = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    assert not stale, "run `make docs`"


def test_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    generate = _module(ROOT / "docs" / "generate.py")
    monkeypatch.setattr(generate, "FOLDER", tmp_path / "patterns")
    check, write = ["generate.py", "--check"], ["generate.py"]
    for words, code in ((check, 1), (write, 0), (check, 0)):
        monkeypatch.setattr("sys.argv", words)
        assert generate.main() == code
        assert ("out of date: docs/patterns/Cast.md" in capsys.readouterr().err) == bool(code)
    (tmp_path / "patterns" / "Cast.md").write_text("stale")
    (tmp_path / "patterns" / "Gone.md").write_text("superfluous")
    monkeypatch.setattr("sys.argv", check)
    assert generate.main() == 1
    assert capsys.readouterr().err.splitlines() == ["out of date: docs/patterns/Cast.md", "out of date: docs/patterns/Gone.md"]
    monkeypatch.setattr("sys.argv", write)
    generate.main()
    assert {path.name for path in (tmp_path / "patterns").iterdir()} == generate.pages().keys()


def test_python_snippets_run(playground: Path) -> None:
    """In order, as in one session."""
    snippets = blocks("python")
    assert snippets
    session: dict[str, Any] = {}
    for number, snippet in enumerate(snippets, 1):
        exec(compile(snippet, f"README.md, snippet {number}", "exec"), session)
    assert isinstance(session["smaller"], onnx.ModelProto)
    assert "Not" not in {node.op_type for node in session["smaller"].graph.node}
    assert (playground / "smaller.onnx").is_file()


def test_the_pattern_by_hand_is_the_declared_one(playground: Path) -> None:
    session: dict[str, Any] = {}
    for snippet in blocks("python"):
        exec(compile(snippet, "README.md", "exec"), session)
    by_hand = session["optimize"](session["model"], patterns=[session["NotNotByHandPattern"]])
    assert [n.op_type for n in by_hand.graph.node] == [n.op_type for n in session["smaller"].graph.node]


@pytest.mark.slow
def test_shell_snippets_run(playground: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    skipped: set[str] = set()
    for words in filter(None, lines):
        if words[0] != "xopt" and "=" not in words[0]:
            skipped.add(" ".join(words))
            continue
        shutil.copy("a.onnx", "model.onnx")  # one of the lines overwrites it
        with monkeypatch.context() as patch:
            while "=" in words[0]:
                name, _, value = words.pop(0).partition("=")
                patch.setenv(name, value)
            assert words[0] == "xopt"
            code = run(words[1:])
        captured = capsys.readouterr()
        assert code == 0, (words, captured.err)
        assert captured.err == "", words
    assert skipped == NOT_RUN_HERE
    assert {"model.opt.onnx", "fast.onnx", "dumps"} <= {path.name for path in playground.iterdir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = [link for link in re.findall(r"\]\(([^()\s]+)\)", text) if not re.match(r"[a-z]+:", link)]
    paths = re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`", text)
    assert [link for link in links if not (page.parent / link.partition("#")[0]).exists()] == []
    assert {path for path in paths if not (ROOT / path).exists() and not (page.parent / path).exists()} <= NOT_THERE


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_lists_its_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = dict(re.findall(r"^([a-z-]+):.*?## (.+)$", makefile, re.MULTILINE))
    assert {"demo", "test", "check", "lint", "types", "docs"} <= targets.keys()
    listed = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert dict(line.split(maxsplit=1) for line in listed.stdout.splitlines()) == targets
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == targets.keys()
