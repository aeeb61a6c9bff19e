"""Weights of 2, 4 and 8 bits give what onnxruntime's kernels give."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.support import parse, run, types
from xoptim import optimize

_BLOCK = 16


def _model(text: str, constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    model = parse(text, 21, domains={"com.microsoft": 1})
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in constants.items()
    )
    return model


def _check(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    after = optimize(model, patterns="lower", strict=True)
    assert "DequantizeLinear" in types(after)
    assert all(not node.domain for node in after.graph.node)
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows(bits: int, zeros: bool) -> None:
    rng = np.random.default_rng(bits)
    blocks, rows = 8 // bits, 5
    constants: dict[str, np.ndarray] = {
        "w": rng.integers(0, 256, (rows, blocks * _BLOCK * bits // 8)).astype(np.uint8),
        "s": rng.random((rows, blocks)).astype(np.float32),
        "z": rng.integers(0, 256, (rows, blocks * bits // 8)).astype(np.uint8),
    }
    model = _model(
        f"agraph (int64[n] i) => (float[n,{blocks * _BLOCK}] y) {{ "
        f"y = com.microsoft.GatherBlockQuantized <bits = {bits}, block_size = {_BLOCK}, "
        f"gather_axis = 0, quantize_axis = 1> (w, i, s{', z' * zeros}) }}",
        constants,
    )
    _check(model, {"i": np.array([0, 4, 2])})


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_matrices(bits: int, zeros: bool) -> None:
    rng = np.random.default_rng(bits)
    blocks, columns = 8 // bits, 3
    constants: dict[str, np.ndarray] = {
        "w": rng.integers(0, 256, (columns, blocks, _BLOCK * bits // 8)).astype(np.uint8),
        "s": rng.random((columns, blocks)).astype(np.float32),
        "z": rng.integers(0, 256, (columns, blocks * bits // 8)).astype(np.uint8),
    }
    width = blocks * _BLOCK
    model = _model(
        f"agraph (float[n,{width}] x) => (float[n,{columns}] y) {{ y = "
        f"com.microsoft.MatMulNBits <K = {width}, N = {columns}, bits = {bits}, block_size = "
        f"{_BLOCK}> (x, w, s{', z' * zeros}) }}",
        constants,
    )
    _check(model, {"x": rng.standard_normal((4, width)).astype(np.float32)})


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
@pytest.mark.parametrize(("axis", "place"), [(0, 1), (1, 0), (-1, -2), (1, 1)])
@pytest.mark.parametrize("zeros", [False, True])
def test_each_axis_of_int4(kind: int, axis: int, place: int, zeros: bool) -> None:
    rng = np.random.default_rng(kind)
    shape = [32, 32]
    blocks = [size // _BLOCK if n == axis % 2 else size for n, size in enumerate(shape)]
    low = -8 if kind == onnx.TensorProto.INT4 else 0
    model = _model(
        "agraph (int64[n] i) => (float[p,q] y) { y = com.microsoft.GatherBlockQuantized "
        f"<block_size = {_BLOCK}, gather_axis = {place}, quantize_axis = {axis}> "
        f"(w, i, s{', z' * zeros}) }}",
        {"s": rng.random(blocks).astype(np.float32)},
    )
    for name, sizes in (("w", shape), ("z", blocks)):
        values = rng.integers(low, low + 16, sizes).reshape(-1)
        model.graph.initializer.append(helper.make_tensor(name, kind, sizes, values))
    _check(model, {"i": np.array([0, 31, 7])})
