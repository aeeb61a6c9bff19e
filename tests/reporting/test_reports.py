"""Reports from Python."""

import os
from pathlib import Path

import onnx
import pytest

import xoptim
from tests.reporting.models import data_of
from tests.support import parse
from xoptim.bench import BenchOptions
from xoptim.facts.errors import ModelError

pytest.importorskip("igraph")
pytest.importorskip("jinja2")

TEXT = "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) y = Exp(b) }"


def test_two_models(tmp_path: Path) -> None:
    before = parse(TEXT)
    onnx.save(before, tmp_path / "before.onnx")
    after = xoptim.optimize(before)
    made = xoptim.report(tmp_path / "before.onnx", after, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == made.html
    assert "<h1>before.onnx" in made.html
    assert ">equal<" in made.html
    assert [report.status for report in made.verification] == ["equal"]
    links = data_of(made.html)["links"]
    assert links["fates"] == [4, 3, 0] or links["fates"][2] == 0
    assert repr(made).startswith("HtmlReport(")


def test_models_that_differ() -> None:
    made = xoptim.report(parse(TEXT), parse(TEXT.replace("Exp", "Sin")))
    assert [report.status for report in made.verification] == ["different"]
    assert ">different<" in made.html


@pytest.mark.slow
def test_times_of_operators() -> None:
    model = parse(TEXT)
    made = xoptim.report(
        model,
        model,
        verify=False,
        bench=BenchOptions(seconds=0.01, passes=1, threads=1, dims={"n": 4}),
    )
    assert "ms before" in made.html
    assert "time of a run" in made.html
    assert ">not compared<" in made.html


@pytest.mark.parametrize("verify", [False, True])
def test_optimize_writes_a_page(tmp_path: Path, verify: bool) -> None:
    target = tmp_path / "report.html"
    smaller = xoptim.optimize(parse(TEXT), verify=verify, report=target)
    assert [node.op_type for node in smaller.graph.node] == ["Exp"]
    page = target.read_text(encoding="utf-8")
    assert [change[0] for change in data_of(page)["links"]["changes"]] == ["NegNeg"]
    assert (">equal<" in page) == verify


def test_notebooks() -> None:
    model = parse(TEXT)
    shown = xoptim.report(model, model, verify=False)._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert shown.count("<") == 2, "the page is one attribute"
    reports: list[xoptim.OptimizationReport] = []
    xoptim.optimize(model, verify=True, report=reports.append)
    table = reports[0]._repr_html_()
    assert "<td>3 → 1</td>" in table
    assert ">NegNeg</th><td>1</td>" in table
    assert "equal: 1 output" in table


def test_a_page_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match=os.strerror(28)):
        xoptim.report(parse(TEXT), parse(TEXT), target, verify=False)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
