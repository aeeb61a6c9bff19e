"""Quantized attention without onnxruntime's operator gives what its kernel gives."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run
from xoptim import optimize

_ZEROS = ", u, v"


@pytest.mark.parametrize("columns", [1, 24])
@pytest.mark.parametrize("padding", ["", "p", "l"])
@pytest.mark.parametrize("zeros", ["", _ZEROS])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_each_form(columns: int, padding: str, zeros: str, unidirectional: int) -> None:
    operands = f"x, w, b, s, t, {padding}{zeros}".rstrip(", ")
    model = parse(
        "agraph (uint8[b,s,16] x, int32[b,s] p, int32[b] l) => (float[b,s,8] y) { y = "
        f"com.microsoft.QAttention <num_heads = 2, unidirectional = {unidirectional}> "
        f"({operands}) }}",
        domains={"com.microsoft": 1},
    )
    rng = np.random.default_rng(0)
    scale = 0.01 * rng.random(columns) if columns > 1 else np.array(0.01)
    arrays: dict[str, np.ndarray] = {
        "w": rng.integers(-120, 120, (16, 24)).astype(np.int8),
        "b": rng.standard_normal(24).astype(np.float32),
        "s": np.array(0.02, np.float32),
        "t": scale.astype(np.float32),
        "u": np.array(120, np.uint8),
        "v": np.zeros(scale.shape, np.int8),
    }
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    feeds = {
        "x": rng.integers(0, 255, (2, 5, 16)).astype(np.uint8),
        "p": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
        "l": np.array([3, 5], np.int32),
    }
    after = optimize(model, patterns="lower", strict=True)
    assert _domains(after) == {""}
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-5)


def _domains(model: onnx.ModelProto) -> set[str]:
    return {node.domain for node in model.graph.node}
