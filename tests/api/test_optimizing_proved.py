"""Proofs of the rewrites of `optimize` and `optimize_file`."""

from pathlib import Path

import onnx

from tests.support import parse
from xoptim import OptimizationReport, optimize, optimize_file

MODEL = """g (float[N,4] x) => (float[N,4] y) {
    a = Transpose(x) b = Transpose(a) y = Neg(b) }"""


def _names(report: OptimizationReport) -> list[tuple[str, str]]:
    assert report.proofs is not None
    return [(step.pattern, step.proof.grade) for step in report.proofs.steps]


def test_a_model() -> None:
    reports: list[OptimizationReport] = []
    optimize(parse(MODEL), prove=True, report=reports.append)
    assert _names(reports[0]) == [("TransposeTranspose", "same bits")]
    assert "1 of 1" in reports[0]._repr_html_()
    optimize(parse(MODEL), report=reports.append)
    assert reports[1].proofs is None


def test_a_file(tmp_path: Path) -> None:
    onnx.save(parse(MODEL), tmp_path / "a.onnx")
    reports: list[OptimizationReport] = []
    optimize_file(
        tmp_path / "a.onnx", tmp_path / "b.onnx", prove=True, verify=False, report=reports.append
    )
    assert _names(reports[0]) == [("TransposeTranspose", "same bits")]
