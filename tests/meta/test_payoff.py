"""Every fusion has a subject on which it applies, and the check of the measurements finds what is
wrong.
"""

import pytest

import xoptim
from benchmarks import operators
from benchmarks.operators import SIZES, SUBJECTS, Subject, faults_of, fusions, model_of


def test_each_fusion_has_a_subject() -> None:
    assert fusions("default+onnxruntime") - SUBJECTS.keys() == set()


def test_each_fusion_applies_on_its_model() -> None:
    for name in fusions("default+onnxruntime"):
        applied: list[object] = []
        xoptim.optimize(
            model_of(SUBJECTS[name], SUBJECTS[name].rows[0]),
            patterns=name,
            on_application=applied.append,
        )
        assert applied, name


def test_faults_of_the_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m benchmarks.operators --check` looks at the page, whose figures are those of one
    machine.
    """
    monkeypatch.setattr(operators, "SUBJECTS", {"Gelu": Subject("", rows=(1, 16))})
    monkeypatch.setattr(operators, "fusions", lambda selection: {"Gelu"})

    def row(one: str, sixteen: str) -> list[str]:
        return [{1: one, 16: sixteen}.get(size, "") for size in SIZES]

    fine, slow = "0.50 (0.45 to 1.10)", "1.20 (1.10 to 1.30)"
    assert faults_of({("Gelu", "cpu", "1"): row(fine, fine)}) == []
    assert faults_of({("Gelu", "cpu", "1"): row(fine, "")}) == [
        "Gelu, cpu, 1: the sizes are not those of the subject"
    ]
    assert faults_of({("Gelu", "cpu", "1"): row(fine, slow)}) == [
        "Gelu, cpu, 1: slower with 16 rows, but applied by default"
    ]
    assert faults_of({("Gelu", "cuda", "1"): row(fine, "")}) == ["Gelu is not measured"]
