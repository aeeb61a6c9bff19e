"""Locations of external data with the separators of Windows, and files of weights that are
missing.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim import ModelError, infer, optimize, optimize_file
from xoptim.diagnose.costs import model_costs
from xoptim.facts.words import quoted
from xoptim.graph.stored import StoredTensor
from xoptim.verification import verify_models

WEIGHT = np.arange(4, dtype=np.float32)


def model(location: str) -> onnx.ModelProto:
    proto = parse("agraph (float[n,4] x) => (float[a,4] y) { t = Identity(x) y = Add(t, w) }")
    tensor = proto.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=[4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "0", "length": "16"}.items():
        tensor.external_data.add(key=key, value=value)
    return proto


def saved(folder: Path, location: str, *files: str) -> Path:
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(WEIGHT.tobytes())
    path = folder / "model.onnx"
    path.write_bytes(model(location).SerializeToString())
    return path


def test_a_backslash_separates_folders(tmp_path: Path) -> None:
    path = saved(tmp_path, "inner\\w.bin", "inner/w.bin")
    optimize_file(path, tmp_path / "new.onnx", verify=True)
    assert verify_models(path, tmp_path / "new.onnx").status == "equal"
    (tensor,) = infer(path).graph.initializer
    assert tensor.external_data[0].value == "inner/w.bin"
    assert (
        StoredTensor(model("inner\\w.bin").graph.initializer[0], tmp_path).numpy().tolist()
        == WEIGHT.tolist()
    )


@pytest.mark.skipif(sys.platform == "win32", reason="a backslash always separates folders there")
def test_a_name_may_hold_a_backslash(tmp_path: Path) -> None:
    saved(tmp_path, "inner\\w.bin", "inner/w.bin")
    (tmp_path / "inner\\w.bin").write_bytes((WEIGHT + 1).tobytes())
    assert StoredTensor(model("inner\\w.bin").graph.initializer[0], tmp_path).numpy().tolist() == [
        1,
        2,
        3,
        4,
    ]


def test_a_backslash_does_not_leave_the_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "inner").mkdir()
    path = saved(tmp_path / "inner", "..\\w.bin")
    with pytest.raises(ModelError, match="outside"):
        optimize(path)


def test_the_message_has_one_backslash(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as error:
        optimize(saved(tmp_path, "inner\\w.bin"))
    assert "inner\\w.bin' is missing" in str(error.value)
    assert "\\\\" not in str(error.value)
    assert quoted("a\\b\n") == "'a\\b\\n'"


@pytest.mark.parametrize("size", [None, 15])
def test_shapes_and_costs_need_no_weights(tmp_path: Path, size: int | None) -> None:
    path = saved(tmp_path, "w.bin")
    if size is not None:
        (tmp_path / "w.bin").write_bytes(bytes(size))
    found = infer(path)
    assert [value.name for value in found.graph.value_info] == ["t"]
    assert found.graph.initializer[0].external_data[0].value == "w.bin"
    assert model_costs(path).total.parameters == 4
    with pytest.raises(ModelError, match=r"w\.bin"):
        optimize(path)


def test_a_shape_that_is_missing_is_unknown(tmp_path: Path) -> None:
    proto = parse("agraph (float[n,6] x) => (float[a,b,c] y) { t = Reshape(x, s) y = Relu(t) }")
    tensor = proto.graph.initializer.add(name="s", data_type=onnx.TensorProto.INT64, dims=[3])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="s.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    (value,) = infer(path).graph.value_info
    assert len(value.type.tensor_type.shape.dim) == 3
    assert not any(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    (tmp_path / "s.bin").write_bytes(np.array([0, 2, 3]).tobytes())
    (value,) = infer(path).graph.value_info
    assert [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] == [
        "n",
        2,
        3,
    ]
