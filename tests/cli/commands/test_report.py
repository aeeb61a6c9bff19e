"""``xopt MODEL --report``, ``xopt diff --html``, ``xopt stats --html``."""

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
    assert (found.summary["report"], found.summary["written"]) == ("page.html", "nothing")
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
    assert found.code == 1
    assert found.summary["verification"].startswith("different on cpu: output 'y'")
    assert found.summary["written"] == "other.html"
    assert ">different<" in Path("other.html").read_text(encoding="utf-8")
    assert xopt("diff", "model.onnx", "model.onnx", "--html", "a.html", "--no-verify").code == 0


def test_one_model(xopt: Xopt) -> None:
    write(TEXT)
    found = xopt("stats", "model.onnx", "--html", "page.html", "--dim", "n=6")
    assert (found.code, found.summary, found.err) == (0, {"written": "page.html"}, "")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<h1>model.onnx</h1>" in page
    assert "n=6" in page
    assert 'id="placement"' not in page
    assert xopt("stats", "model.onnx", "--html", "page.html", "--target", "onnx").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert 'id="placement"' in page
    assert "3 of 3 nodes in 1 partition" in page
    assert "'k'" in xopt("stats", "model.onnx", "--html", "page.html", "--dim", "k=6").error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--html", "model.onnx"), "--html 'model.onnx' would replace the model"),
        (("--html", "a.txt"), "--html writes HTML: name the file 'a.html', not 'a.txt'"),
        (("--html", "a.html", "--layers"), "--layers has no effect with --html; remove it"),
        (("--html", "a.html", "--json"), "--json has no effect with --html; remove it"),
        (("--target", "onnx"), "--target has no effect without --html; remove it"),
        (
            ("--html", "a.html", "--software-device"),
            "--software-device has no effect without --target webgpu; remove it",
        ),
    ],
)
def test_one_model_with_options_that_do_not_fit(
    xopt: Xopt, words: tuple[str, ...], message: str
) -> None:
    write(TEXT)
    assert xopt("stats", "model.onnx", *words).error == message
    assert not Path("a.html").exists()


def test_without_the_library(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda _: None)
    write(TEXT)
    message = 'xopt: error: the report needs igraph and jinja2: pip install "xoptim[report]"\n'
    assert xopt("model.onnx", "--report", "page.html") == (2, "", message)
    assert xopt("diff", "model.onnx", "model.onnx", "--html", "page.html").err == message
    assert xopt("stats", "model.onnx", "--html", "page.html").err == message
    assert not Path("page.html").exists()
    assert not Path("model.opt.onnx").exists()


def test_a_file_that_cannot_be_written(xopt: Xopt) -> None:
    write(TEXT)
    words = ("diff", "model.onnx", "model.onnx", "--html", "model.onnx")
    for command in (("model.onnx", "--report", "model.opt.onnx"), words):
        assert xopt(*command).error.endswith(" would replace a model")
