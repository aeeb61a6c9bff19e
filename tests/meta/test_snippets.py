"""Every snippet of the README and of the guides runs: here, or in the test of the page."""

import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import xoptim
from tests.meta.sources import ROOT
from tests.preparation.test_pairing import DECODER, ENCODER
from tests.support import parse
from xoptim.bench.options import BenchOptions
from xoptim.cli.main import run
from xoptim.tuning.options import TuneOptions

SHIPPED = ROOT / "examples" / "models" / "tiny_bert.onnx"
# they install packages, and the second one runs this test
NOT_RUN_HERE = {"make demo", "make test"}
SHIPPING = ("README", "getting-started", "python-api")
"""Pages that run on the model that ships."""
GUIDES = (
    "assumptions",
    "batch",
    "benchmarks",
    "cli",
    "coming-from",
    "large-models",
    "opsets",
    "patterns-by-hand",
    "performance",
    "exporters",
    "pipelines",
    "repeated",
    "report",
    "targets",
    "../lab/winograd",
    "tuning",
    "verification",
)
ELSEWHERE = {
    "chains": "dialects/test_chain.py",
    "custom-operators": "meta/test_examples.py",
    "decoders": "integrations/test_genai.py",
    "debugging": "meta/test_debugging_page.py",
    "quantization": "meta/test_precision.py",
    "rewriters": "dialects/test_rewriters_page.py",
    "rules": "dialects/test_rules_page.py",
    "selection": "catalogue/test_selection_page.py",
    "writing-patterns": "match/test_writing_page.py",
}
"""Pages with a test of their own."""
SHORTER = {
    "budget=60": "budget=1",
    "--budget 10": "--budget 1",
    "--budget 2m": "--budget 1",
    "jobs=2": "jobs=1",
}
"""Settings that decide only how long a snippet runs."""
MODEL = """
agraph (float[batch,seq,16] x, int64[batch,seq] mask) => (float[batch,seq,4] y)
{
    t = Transpose <perm = [0, 2, 1]> (x)
    u = Transpose <perm = [0, 2, 1]> (t)
    weight = Cast <to = 1> (mask)
    axis = Constant <value = int64[1] {2}> ()
    factor = Unsqueeze(weight, axis)
    hidden = Mul(u, factor)
    y = MatMul(hidden, w)
}"""


def _page(name: str) -> str:
    return (ROOT / (f"{name}.md" if name == "README" else f"docs/{name}.md")).read_text(
        encoding="utf-8"
    )


def _blocks(name: str, language: str) -> list[str]:
    text = _page(name)
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _playground(tmp_path: Path, brief: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own and short measurements; what snippets set for the process is restored.

    Other versions of onnxruntime are not installed: the one of this process stands for them.
    """
    monkeypatch.setattr(
        "xoptim.bench.versions.python_with_onnxruntime", lambda _: Path(sys.executable)
    )
    for options, shorter in (
        (BenchOptions, {"seconds": 0.05, "passes": 1, "loading": False}),
        (TuneOptions, {"budget": 1.0}),
    ):
        defaults: Any = options.__init__.__kwdefaults__
        for name, value in shorter.items():
            monkeypatch.setitem(defaults, name, value)
    (tmp_path / "xoptim.toml").write_text("[bench]\nseconds = 0.05\n[tune]\nbudget = 1.0\n")
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("xoptim")
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


def _files(page: str) -> None:
    """Write the files that the snippets of a page name: the README runs on the model that ships."""
    if page in SHIPPING:
        for name in ("model", "a", "b"):
            shutil.copy(SHIPPED, f"{name}.onnx")
        np.savez("inputs.npz", input_ids=np.arange(12).reshape(4, 3))
        return
    model = parse(MODEL)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((16, 4), np.float32), "w"))
    Path("models").mkdir()
    if page == "pipelines":  # which shows checks that pass, one of them against a revision
        model = xoptim.optimize(model)
        for words in (
            "init -q",
            "add .",
            "-c user.name=n -c user.email=e@x commit -q --allow-empty -m models",
        ):
            subprocess.run(["git", *words.split()], check=True, capture_output=True)
    for name in ("model", "model.opt", "a", "b", "models/one"):
        onnx.save(model, f"{name}.onnx")
    onnx.save(parse(ENCODER), "encoder.onnx")
    onnx.save(parse(DECODER), "decoder.onnx")
    x, mask = np.ones((4, 3, 16), np.float32), np.ones((4, 3), np.int64)
    np.savez("inputs.npz", x=x, mask=mask)


def _run_shell(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> set[str]:
    """Run the lines of the shell snippets of a page.

    Returns the first words of those that are other programs.
    """
    others: set[str] = set()
    for line in filter(
        None, (line for block in _blocks(page, "sh") for line in block.splitlines())
    ):
        words = shlex.split(line, comments=True)
        if "|" in words:
            paths = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
            subprocess.run(
                ["bash", "-ec", line],
                check=True,
                env={**os.environ, "PATH": paths},
                capture_output=True,
            )
            continue
        if words[0] != "xopt" and "=" not in words[0]:
            others.add(" ".join(words))
            continue
        if page in SHIPPING:
            shutil.copy(SHIPPED, "model.onnx")  # one of the lines overwrites it
        with monkeypatch.context() as patch:
            while "=" in words[0]:
                name, _, value = words.pop(0).partition("=")
                patch.setenv(name, value)
            assert words[0] == "xopt"
            code = run(words[1:])
        captured = capsys.readouterr()
        assert (code, captured.err) == (0, ""), (words, captured.err)
        assert captured.out, words
    return others


def _run_python(page: str) -> dict[str, Any]:
    """Run the snippets in Python in order, as in one session."""
    session: dict[str, Any] = {
        "xoptim": xoptim,
        "model": onnx.load("model.onnx"),
        "smaller": xoptim.optimize("model.onnx"),
    }
    for number, snippet in enumerate(_blocks(page, "python"), 1):
        if "xoptim.integrations.torch" in snippet and importlib.util.find_spec("torch") is None:
            continue
        with warnings.catch_warnings():
            if "xoptim.integrations.torch" in snippet:
                warnings.simplefilter("ignore")  # torch's exporter warns about its own use of torch
            exec(compile(snippet, f"{page}, snippet {number}", "exec"), session)
    return session


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README", "getting-started"])
def test_shell_snippets_of_the_shipped_model(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _files(page)
    assert _run_shell(page, monkeypatch, capsys) == (NOT_RUN_HERE if page == "README" else set())
    assert {"model.opt.onnx", "fast.onnx"} <= set(os.listdir())


def _check_session(session: dict[str, Any], pattern: str) -> None:
    """The pattern of a page applies to the model that ships."""
    model = session["model"]
    rest = xoptim.optimize(model, patterns=None)
    once = xoptim.optimize(model, patterns=[session[pattern]], verify=True)
    assert len(once.graph.node) == len(rest.graph.node) - 1 < len(model.graph.node)
    assert session["report"].ok
    assert Path("smaller.onnx").is_file()


def test_python_snippets_of_the_shipped_model() -> None:
    _files("README")
    assert _run_python("README")["report"].ok
    _check_session(_run_python("getting-started"), "UnsqueezeTwicePattern")


@pytest.mark.slow
def test_python_snippets_of_the_api() -> None:
    _files("python-api")
    assert _run_python("python-api")["report"].ok
    assert Path("smaller.onnx").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES)
def test_guide(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _files(page)
    others = _run_shell(page, monkeypatch, capsys)
    assert page == "performance" or not others
    for words in map(str.split, others):  # they take hours
        spec = importlib.util.find_spec(words[2])
        assert words[:2] == ["python", "-m"]
        assert spec is not None
        source = Path(spec.origin or "").read_text(encoding="utf-8")
        assert [word for word in words if word.startswith("--") and f'"{word}"' not in source] == []
    if _blocks(page, "python"):
        _run_python(page)


@pytest.mark.slow
def test_commands_next_to_those_of_other_tools(capsys: pytest.CaptureFixture[str]) -> None:
    _files("coming-from")
    commands = re.findall(r"`(xopt [^`]+)` *\|$", _page("coming-from"), re.MULTILINE)
    assert len(commands) > 10
    for words in map(shlex.split, commands):
        code = run(words[1:])
        assert (code, capsys.readouterr().err) == (0, ""), words


def test_every_page_with_snippets_is_run() -> None:
    """A page is run here, or its own test reads it."""
    pages = {
        path.stem
        for path in (ROOT / "docs").glob("*.md")
        if re.search(r"^```(sh|python)$", _page(path.stem), re.MULTILINE)
    }
    guides = {page for page in GUIDES if not page.startswith("../")}
    assert pages == {*guides, *ELSEWHERE, *SHIPPING[1:]}
    for page, test in ELSEWHERE.items():
        assert f'"{page}.md"' in (ROOT / "tests" / test).read_text(encoding="utf-8")
