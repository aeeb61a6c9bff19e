from pathlib import Path

import onnx
import pytest

from tests.support import parse
from xoptim.facts.errors import ModelError
from xoptim.graph.data_file import (
    check_external_data,
    external_bytes,
    external_locations,
    has_external_data,
)
from xoptim.graph.save import save_proto

MODEL = """agraph (bool c, float[600] x) => (float[600] y) {
  y = If (c) <then_branch = b () => (float[600] q) <float[600] w> { q = Add(x, w) },
              else_branch = e () => (float[600] q) { q = Neg(x) }>
}"""


def stored_elsewhere(folder: Path) -> onnx.ModelProto:
    """A model whose only weight belongs to a branch, and is in ``folder/weights.bin``.

    It has no length of its own.
    """
    folder.mkdir()
    proto = parse(MODEL)
    weight = proto.graph.node[0].attribute[0].g.initializer.add(name="w", data_type=1, dims=[600])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    (folder / "weights.bin").write_bytes(bytes(2400))
    return proto


def test_weights_of_subgraphs_count(tmp_path: Path) -> None:
    proto = stored_elsewhere(tmp_path / "in")
    assert has_external_data(proto)
    assert external_locations(proto) == ["weights.bin"]
    assert external_bytes(proto.graph) == 2400, "the length may be left out"
    save_proto(proto, tmp_path / "m.onnx", tmp_path / "in")
    assert external_bytes(onnx.load(tmp_path / "m.onnx", load_external_data=False).graph) == 2400


def test_checking_external_data(tmp_path: Path) -> None:
    proto = stored_elsewhere(tmp_path / "in")
    check_external_data(proto, tmp_path / "in")
    with pytest.raises(ModelError, match="is missing"):
        check_external_data(proto, tmp_path)
    proto.graph.node[0].attribute[0].g.initializer[0].external_data[0].value = "../weights.bin"
    with pytest.raises(ModelError, match="outside"):
        check_external_data(proto, tmp_path / "in")
