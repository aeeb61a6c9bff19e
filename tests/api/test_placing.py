from pathlib import Path

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse
from xoptim import ModelError
from xoptim.api.placing import smallest_failing
from xoptim.targets import UnknownTargetError, named

MODEL = parse("agraph (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Neg(t) }")


def test_models_of_each_kind(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(MODEL.SerializeToString())
    for model in (MODEL, MODEL.SerializeToString(), tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        found = xoptim.place(model, "onnx")
        assert isinstance(found, xoptim.Placement)
        assert [node.name for node in found.taken] == ["t", "y"]
    assert xoptim.place(MODEL, named("webnn")).target == "webnn"


def test_external_data_next_to_a_file(tmp_path: Path) -> None:
    model = parse("agraph (float[300] x) => (float[300] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(300, np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    assert len(xoptim.place(tmp_path / "m.onnx", "cpu").taken) == 1


def test_errors() -> None:
    with pytest.raises(UnknownTargetError):
        xoptim.place(MODEL, "nowhere")
    with pytest.raises(ModelError):
        xoptim.place("missing.onnx", "cpu")


def test_a_model_that_compiles_has_no_failing_part() -> None:
    assert smallest_failing(MODEL, "cpu") is None
