"""``xopt MODEL --report``, ``xopt diff --html``."""

from pathlib import Path

import pytest

from tests.cli.command import Xopt, write
from xoptim.reporting import libraries

pytest.importorskip("igraph")
pytest.importorskip("jinja2")

TEXT = "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) y = Exp(b) }"


def test_an_optimization(xopt: Xopt) -> None:
    write(TEXT)
    found = xopt("model.onnx", "--report", "page.html", "--dry-run")
    assert found.code == 0
    assert "report        page.html\nwritten       nothing\n" in found.out
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<h1>model.onnx" in page
    assert ">equal<" in page
    assert xopt("model.onnx", "--report", "page.html", "--json").json["report"] == "page.html"
    assert xopt("model.onnx", "--json").json["report"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_with_times(xopt: Xopt, brief: None) -> None:
    write(TEXT)
    assert xopt("model.onnx", "--report", "page.html", "--benchmark", "--dim", "n=4").code == 0
    assert "ms before" in Path("page.html").read_text(encoding="utf-8")


def test_two_models(xopt: Xopt) -> None:
    write(TEXT)
    write(TEXT.replace("Exp", "Sin"), "other.onnx")
    found = xopt("diff", "model.onnx", "other.onnx", "--html", "other.html")
    assert (found.code, "verification  different on cpu: output 'y'" in found.out) == (1, True)
    assert found.out.endswith("written       other.html\n")
    assert ">different<" in Path("other.html").read_text(encoding="utf-8")
    assert xopt("diff", "model.onnx", "model.onnx", "--html", "a.html", "--no-verify").code == 0


def test_without_the_library(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda _: None)
    write(TEXT)
    message = 'xopt: error: the report needs igraph and jinja2: pip install "xoptim[report]"\n'
    assert xopt("model.onnx", "--report", "page.html") == (2, "", message)
    assert xopt("diff", "model.onnx", "model.onnx", "--html", "page.html").err == message
    assert not Path("page.html").exists()
    assert not Path("model.opt.onnx").exists()


def test_a_file_that_cannot_be_written(xopt: Xopt) -> None:
    write(TEXT)
    assert (
        "the folder 'missing' does not exist"
        in xopt("model.onnx", "--report", "missing/page.html").err
    )
    for name in ("model.onnx", "model.opt.onnx"):
        assert "would replace a model" in xopt("model.onnx", "--report", name).err
    assert (
        "would replace a model"
        in xopt("diff", "model.onnx", "model.onnx", "--html", "model.onnx").err
    )
