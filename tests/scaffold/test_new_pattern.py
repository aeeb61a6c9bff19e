"""The template of a pattern is itself a pattern that passes everything."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.sources import ROOT
from xoptim import EasyPatternOptimization
from xoptim.catalogue.discovery import patterns_of
from xoptim.scaffold.new_pattern import file_name, write_pattern
from xoptim.testing import check_example, check_near_misses


def test_the_template_passes_the_harness(tmp_path: Path) -> None:
    path = write_pattern("ReluReluPattern", tmp_path)
    assert path == tmp_path / "relu_relu.py"
    spec = importlib.util.spec_from_file_location("relu_relu", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (pattern,) = patterns_of(module)
    assert issubclass(pattern, EasyPatternOptimization)
    assert pattern.name() == "ReluRelu"
    assert pattern.arrow() == "Relu(Relu(x)) → Relu(x)"
    for example in pattern.examples:
        check_example(pattern, example)
        assert check_near_misses(pattern, example)["fired"]


def test_the_template_has_the_style_of_the_house(tmp_path: Path) -> None:
    text = write_pattern("ReluReluPattern", tmp_path).read_text(encoding="utf-8")
    pytest.importorskip("ruff")
    for command in (["check"], ["format", "--check"]):
        words = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--stdin-filename",
            "patterns/activations/relu_relu.py",
            "-",
        ]
        done = subprocess.run(
            words,
            cwd=ROOT,
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MatMulAddPattern", "mat_mul_add.py"),
        ("LSTMActivationPattern", "lstm_activation.py"),
        ("FusedMatMulx2Pattern", "fused_mat_mulx2.py"),
        ("RMSNormalizationPattern", "rms_normalization.py"),
    ],
)
def test_names_of_files(name: str, expected: str) -> None:
    assert file_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Pattern",
        "ReluRelu",
        "reluReluPattern",
        "Relu_ReluPattern",
        "ReluReluPattern2",
        "Relu ReluPattern",
        "../UpPattern",
        "2ReluPattern",
        "ReluReluPattern\n",
        "ÄhmPattern",
    ],
)
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a class name"):
        write_pattern(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "relu_relu.py").write_text("precious")
    with pytest.raises(FileExistsError):
        write_pattern("ReluReluPattern", tmp_path)
    assert (tmp_path / "relu_relu.py").read_text() == "precious"
