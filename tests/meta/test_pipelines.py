"""The scripts in ``examples/pipelines`` run where the packages that they show are installed."""

import json
import re
import subprocess
import sys
from importlib import import_module, util
from pathlib import Path

import pytest

from benchmarks.exporters import MARK, PACKAGES, PAGE
from benchmarks.measured import read
from tests.meta.sources import ROOT

FOLDER = ROOT / "examples" / "pipelines"
TRANSFORMERS = ("torch", "onnxscript", "transformers.exporters")
NEEDS = {
    "diffusers_unet": ("torch", "onnxscript", "diffusers"),
    "keras_model": ("torch", "keras"),
    "olive_workflow": ("olive",),
    "onnx_ir_passes": (),
    "optimum_export": ("torch", "transformers", "optimum.onnxruntime"),
    "paddle_ocr_file": ("rapidocr_onnxruntime",),
    "paddle_layer": ("paddle", "paddle2onnx"),
    "sentence_transformers_model": ("torch", "onnxscript", "sentence_transformers"),
    "sklearn_pipeline": ("sklearn", "skl2onnx"),
    "tensorflow_function": ("tensorflow", "tf2onnx"),
    "timm_model": ("torch", "onnxscript", "timm"),
    "torch_exports": ("torch", "onnxscript"),
    "transformers_decoder": TRANSFORMERS,
    "transformers_encoder": TRANSFORMERS,
    "transformers_vision": ("torch", "onnxscript", "transformers"),
    "transformers_whisper": TRANSFORMERS,
    "ultralytics_export": ("torch", "ultralytics"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_script(name: str, tmp_path: Path) -> None:
    """A script runs in a process of its own, verifies its result, and says that the model became
    smaller.
    """
    missing = [package for package in NEEDS[name] if not _is_installed(package)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    path = FOLDER / f"{name}.py"
    done = subprocess.run(
        [sys.executable, path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = re.search(r"^(\d+) nodes became (\d+)$", done.stdout, re.MULTILINE)
    assert said is not None, done.stdout
    assert int(said[1]) >= int(said[2])


def _is_installed(package: str) -> bool:
    try:
        return util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def test_every_script_is_tested_and_described() -> None:
    page = (ROOT / "docs" / "exporters.md").read_text(encoding="utf-8")
    assert {path.stem for path in FOLDER.glob("*.py")} == set(NEEDS)
    for name in NEEDS:
        assert f"python examples/pipelines/{name}.py" in (FOLDER / f"{name}.py").read_text(
            encoding="utf-8"
        )
        assert f"examples/pipelines/{name}.py)" in page


def test_every_script_that_exports_has_a_row() -> None:
    exporting = {
        path.stem for path in FOLDER.glob("*.py") if "\ndef export()" in path.read_text("utf-8")
    }
    assert exporting == set(PACKAGES)
    rows = read(PAGE)[MARK].dictionaries()
    assert {row["script"].partition("]")[0].lstrip("[") for row in rows} == exporting
    assert all(int(row["xoptim"]) <= int(row["exported"]) for row in rows)


def test_olive_finds_the_pass() -> None:
    passes = json.loads((FOLDER / "olive_package.json").read_text(encoding="utf-8"))["passes"]
    module, _, name = passes["XoptimOptimizer"]["module_path"].rpartition(".")
    source = ROOT / module.replace(".", "/") / "__init__.py"
    assert f"class {name}(Pass)" in source.read_text(encoding="utf-8")
    pytest.importorskip("olive")
    assert hasattr(import_module(module), name)
