"""xoptim in place of onnxslim."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse, types
from xoptim.integrations.onnxslim import in_place_of_onnxslim

TEXT = "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) u = Transpose(t) y = Relu(u) }"
UNVERIFIED = "agraph (float[2,3] x) => (float[2,3] y) { a = Abs(x) n = Neg(a) y = Log(n) }"
"""No result is finite in any run."""


def test_slim_optimizes_a_protobuf() -> None:
    before = sys.modules.get("onnxslim")
    with in_place_of_onnxslim(verify=True):
        module = importlib.import_module("onnxslim")
        found = module.slim(parse(TEXT), skip_fusion_patterns=None)
        assert "xoptim" in module.__version__
    assert types(found) == ["Relu"]
    assert sys.modules.get("onnxslim") is before


def test_modules_that_are_imported_meanwhile_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second import of a module has other classes."""
    (tmp_path / "imported_meanwhile.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with in_place_of_onnxslim():
        module = importlib.import_module("imported_meanwhile")
    assert sys.modules.pop("imported_meanwhile", None) is module


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
    model = parse("agraph (float[2,3] x) => (float[2,3] y) { y = MatMul(x, w) }")
    weights = np.arange(9, dtype=np.float32).reshape(3, 3)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, size_threshold=0)
    with in_place_of_onnxslim(verify=True):
        found = importlib.import_module("onnxslim").slim(str(tmp_path / "model.onnx"))
    assert onnx.numpy_helper.to_array(found.graph.initializer[0]).tolist() == weights.tolist()


def slim(*words: Any, **arguments: Any) -> Any:
    """Call onnxslim as its callers do."""
    return importlib.import_module("onnxslim").slim(*words, **arguments)


@pytest.mark.parametrize("shapes", [["x:2,3"], {"x": [2, 3]}])
def test_shapes_of_inputs_are_fixed(shapes: object) -> None:
    with in_place_of_onnxslim():
        found = slim(parse(TEXT), input_shapes=shapes)
    assert types(found) == ["Relu"]
    for value in (*found.graph.input, *found.graph.output):
        assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [2, 3]


def test_inputs_and_outputs_choose_a_part() -> None:
    text = "agraph (float[a] x) => (float[a] y) { t = Abs(x) u = Neg(t) v = Exp(u) y = Sin(v) }"
    with in_place_of_onnxslim():
        found = slim(parse(text), inputs=["t"], outputs=["v"])
        assert types(slim(parse(text), outputs=["u"])) == ["Abs", "Neg"]
    assert types(found) == ["Neg", "Exp"]
    assert ([v.name for v in found.graph.input], found.graph.output[0].name) == (["t"], "v")


def test_a_check_of_the_model_is_verification() -> None:
    with in_place_of_onnxslim():
        slim(parse(UNVERIFIED))
        with pytest.raises(xoptim.NotVerifiedError):
            slim(parse(UNVERIFIED), model_check=True)
    with in_place_of_onnxslim(verify=False):
        assert slim(parse(UNVERIFIED), model_check=True), "the caller of the manager decides"


def test_weights_are_written_to_a_file_of_their_own(tmp_path: Path) -> None:
    weight = ", ".join(["1.5"] * 400)
    text = f"agraph (float[2,20] x) => (float[2,20] y) <float[20,20] w = {{{weight}}}>"
    with in_place_of_onnxslim():
        slim(
            parse(f"{text} {{ y = MatMul(x, w) }}"),
            output_model=str(tmp_path / "small.onnx"),
            save_as_external_data=True,
        )
    assert (tmp_path / "small.onnx.data").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "float16"}, "dtype"),
        ({"outputs": ["y:fp16"]}, "types of outputs"),
        ({"inputs": ["x:int32"]}, "types of inputs"),
    ],
)
def test_other_types_are_refused(arguments: dict[str, Any], message: str) -> None:
    with in_place_of_onnxslim(), pytest.raises(ValueError, match=message):
        slim(parse(TEXT), **arguments)


def test_a_list_of_models_is_refused() -> None:
    with in_place_of_onnxslim(), pytest.raises(ValueError, match="list"):
        slim([parse(TEXT), parse(TEXT)])


def test_arguments_without_effect_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    with in_place_of_onnxslim():
        slim(parse(TEXT), skip_optimizations=None, inspect=False, verbose=True)
        assert caplog.messages == []
        slim(parse(TEXT), skip_fusion_patterns=["FusionGelu"], size_threshold=10)
    (message,) = caplog.messages
    assert message.endswith(" size_threshold, skip_fusion_patterns")
