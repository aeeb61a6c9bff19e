"""xoptim in place of onnxslim."""

import importlib
import sys
from pathlib import Path

import onnx
import pytest

import xoptim
from tests.support import parse, types
from xoptim.integrations.onnxslim import in_place_of_onnxslim

TEXT = "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) u = Transpose(t) y = Relu(u) }"


def test_slim_optimizes_a_protobuf() -> None:
    before = sys.modules.get("onnxslim")
    with in_place_of_onnxslim(verify=True):
        module = importlib.import_module("onnxslim")
        found = module.slim(parse(TEXT), skip_fusion_patterns=None)
        assert "xoptim" in module.__version__
    assert types(found) == ["Relu"]
    assert sys.modules.get("onnxslim") is before


def test_slim_writes_a_file(tmp_path: Path) -> None:
    onnx.save(parse(TEXT), tmp_path / "model.onnx")
    with in_place_of_onnxslim():
        module = importlib.import_module("onnxslim")
        assert module.slim(str(tmp_path / "model.onnx"), str(tmp_path / "small.onnx")) is None
    assert types(onnx.load(tmp_path / "small.onnx")) == ["Relu"]


def test_options_and_errors() -> None:
    with in_place_of_onnxslim(patterns=None):
        assert len(importlib.import_module("onnxslim").slim(parse(TEXT)).graph.node) == 3
    with in_place_of_onnxslim(patterns="NoSuchPattern"), pytest.raises(xoptim.UnknownPatternError):
        importlib.import_module("onnxslim").slim(parse(TEXT))


def test_as_ultralytics_calls_it() -> None:
    """ultralytics 8.4.190 asks for onnxslim 0.1.82 or newer, and uses the model that it returns."""
    with in_place_of_onnxslim():
        onnxslim = importlib.import_module("onnxslim")
        assert f"slimming with onnxslim {onnxslim.__version__}" == (
            f"slimming with onnxslim xoptim {xoptim.__version__}"
        )
        assert types(onnxslim.slim(parse(TEXT))) == ["Relu"]


def test_weights_in_another_file(tmp_path: Path) -> None:
    text = "agraph (float[2,3] x) => (float[2,3] y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}>"
    model = parse(f"{text} {{ y = MatMul(x, w) }}")
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, size_threshold=0)
    with in_place_of_onnxslim(verify=True):
        found = importlib.import_module("onnxslim").slim(str(tmp_path / "model.onnx"))
    assert found.graph.initializer[0].raw_data or found.graph.initializer[0].float_data
