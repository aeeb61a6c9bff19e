"""Weights of QLoRA give what onnxruntime's kernel gives."""

import numpy as np
import pytest
from onnx import numpy_helper

from tests.support import parse, run, types
from xoptim import optimize


@pytest.mark.parametrize("quant_type", [0, 1])
@pytest.mark.parametrize("block", [16, 32])
def test_each_type(quant_type: int, block: int) -> None:
    rng = np.random.default_rng(0)
    rows, columns = 6, 32
    model = parse(
        f"agraph (float[n,{columns}] x) => (float[n,{rows}] y) {{ y = com.microsoft.MatMulBnb4 "
        f"<K = {columns}, N = {rows}, block_size = {block}, quant_type = {quant_type}> "
        "(x, w, s) }",
        21,
        domains={"com.microsoft": 1},
    )
    arrays: dict[str, np.ndarray] = {
        "w": rng.integers(0, 256, rows * columns // 2).astype(np.uint8),
        "s": rng.random(rows * columns // block).astype(np.float32),
    }
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    after = optimize(model, patterns="LowerMatMulBnb4", strict=True)
    assert "MatMul" in types(after)
    feeds = {"x": rng.standard_normal((4, columns)).astype(np.float32)}
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-5)
