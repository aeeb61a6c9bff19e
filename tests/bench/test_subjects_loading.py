"""Time and memory to load a model."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from xoptim.bench.subjects import measure_loading
from xoptim.system.machine import resident_size
from xoptim.verification import LoadError, SessionSettings

MEGABYTES = 64


@pytest.mark.slow
def test_memory_of_the_weights_is_counted(tmp_path: Path) -> None:
    count = (MEGABYTES << 20) // 4
    weight = numpy_helper.from_array(np.random.default_rng(0).random(count, np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [count]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    found = measure_loading(
        path, SessionSettings(threads=1, level="all"), {"x": np.ones(count, np.float32)}
    )
    assert found.seconds > 0
    if resident_size() is not None:  # Linux
        assert found.memory is not None
        assert MEGABYTES << 20 <= found.memory < 6 * MEGABYTES << 20


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(LoadError, match=r"model\.onnx' .*: .*LoadError"):
        measure_loading(path, SessionSettings(), {})
