"""xoptim in place of onnxsim."""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse, types
from xoptim.integrations.onnxsim import POSITIONAL, in_place_of_onnxsim

TEXT = "agraph (float[2,3] x) => (float[2,3] y) { t = Transpose(x) u = Transpose(t) y = Relu(u) }"
UNVERIFIED = "agraph (float[2,3] x) => (float[2,3] y) { a = Abs(x) n = Neg(a) y = Log(n) }"
"""No result is finite in any run."""


def simplify(*words: Any, **arguments: Any) -> Any:
    """Call onnxsim as its callers do."""
    return importlib.import_module("onnxsim").simplify(*words, **arguments)


def test_as_rf_detr_calls_it(tmp_path: Path) -> None:
    """rf-detr 1.11.2 asks for onnxsim 0.7 or newer, and needs a true verdict."""
    path = str(tmp_path / "model.onnx")
    onnx.save(parse(TEXT), path)
    data = {"x": np.ones((2, 3), np.float32)}
    with in_place_of_onnxsim():
        found, ok = simplify(path, check_n=3, input_data=data, dynamic_input_shape=False)
    assert (types(found), ok) == (["Relu"], True)
    onnx.save(found, path)


def test_as_most_callers_call_it() -> None:
    before = sys.modules.get("onnxsim")
    with in_place_of_onnxsim():
        from onnxsim import simplify as imported

        found, ok = imported(parse(TEXT))
        assert "xoptim" in importlib.import_module("onnxsim").__version__
    assert (types(found), ok) == (["Relu"], True)
    assert sys.modules.get("onnxsim") is before


def test_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    with in_place_of_onnxsim():
        assert simplify(parse(UNVERIFIED))[1], "nobody asked for a check"
        found, ok = simplify(parse(UNVERIFIED), check_n=1)
    assert (types(found), ok) == (["Abs", "Neg", "Log"], False)

    def differs(*_: object, **__: object) -> None:
        raise xoptim.DifferentModelError(xoptim.VerificationReport("different"), parse(TEXT))

    monkeypatch.setattr(xoptim, "optimize", differs)
    with in_place_of_onnxsim():
        found, ok = simplify(parse(TEXT), 3)
    assert (types(found), ok) == (["Transpose", "Transpose", "Relu"], False), "the original"


def test_values_of_the_caller_are_used() -> None:
    with in_place_of_onnxsim(), pytest.raises(xoptim.ChoiceError):
        simplify(parse(TEXT), check_n=1, input_data={"x": np.ones((5, 5), np.float32)})
    with in_place_of_onnxsim(verify=False):
        assert simplify(parse(TEXT), check_n=1, input_data={"other": np.ones(1)})[1]


def test_weights_in_another_file(tmp_path: Path) -> None:
    text = "agraph (float[2,3] x) => (float[2,3] y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}>"
    model = parse(f"{text} {{ y = MatMul(x, w) }}")
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, size_threshold=0)
    with in_place_of_onnxsim():
        found, ok = simplify(str(tmp_path / "model.onnx"), check_n=1)
    assert (types(found), ok) == (["MatMul"], True)
    assert found.graph.initializer[0].raw_data or found.graph.initializer[0].float_data


def test_a_file_is_written(tmp_path: Path) -> None:
    with in_place_of_onnxsim():
        simplify(parse(TEXT), output_path=str(tmp_path / "small.onnx"))
    assert types(onnx.load(tmp_path / "small.onnx")) == ["Relu"]


@pytest.mark.parametrize(
    ("name", "value"), [("overwrite_input_shapes", {"x": [1, 3]}), ("target_opset_version", 21)]
)
def test_what_would_change_the_model_is_refused(name: str, value: object) -> None:
    with in_place_of_onnxsim():
        with pytest.raises(ValueError, match=name):
            simplify(parse(TEXT), **{name: value})
        assert simplify(parse(TEXT), **{name: None})[1]


def test_arguments_by_position_count() -> None:
    with in_place_of_onnxsim(), pytest.raises(ValueError, match="overwrite_input_shapes"):
        simplify(parse(TEXT), 0, True, False, {"x": [1, 3]})


def test_arguments_without_effect_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    with in_place_of_onnxsim():
        simplify(parse(TEXT), 0, True, dynamic_input_shape=False, skip_shape_inference=True)
        simplify(parse(TEXT), skipped_optimizers=[], initializers_as_constants=True)
        assert caplog.messages == []
        simplify(parse(TEXT), perform_optimization=False, skip_constant_folding=True)
    (message,) = caplog.messages
    assert message.endswith(" perform_optimization, skip_constant_folding")


def test_tolerances_of_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def optimizes(model: onnx.ModelProto, *_: object, **settings: Any) -> onnx.ModelProto:
        seen.append(settings["verify"])
        return model

    monkeypatch.setattr(xoptim, "optimize", optimizes)
    with in_place_of_onnxsim():
        simplify(parse(TEXT), 3, check_rtol=0.1, check_atol=0.2)
        simplify(parse(TEXT), 3)
    assert [(checks.rtol, checks.atol) for checks in seen] == [(0.1, 0.2), (None, None)]


def test_onnxsim_takes_the_same_arguments() -> None:
    if importlib.util.find_spec("onnxsim") is None:
        pytest.skip("there is no onnxsim")
    real = importlib.import_module("onnxsim").simplify
    names = [*inspect.signature(real).parameters]
    assert names[:2] == ["model", "check_n"]
    assert tuple(names[2:16]) == POSITIONAL
    assert {"input_data", "dynamic_input_shape", "overwrite_input_shapes"} <= {*names}
    found, ok = real(parse(TEXT), check_n=1)
    assert isinstance(found, onnx.ModelProto)
    assert ok is True
