"""Transposed weights that are quantized in blocks."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.support import parse, run, types
from xoptim import optimize

_DEQUANTIZED = "d = DequantizeLinear <axis = 1, block_size = 4> (w, s, z)"
_KINDS = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4, "int8": TensorProto.INT8}


def transposed(nodes: str, kind: str = "int4", outputs: str = "y") -> onnx.ModelProto:
    """The default result for a weight of 3 by 8; equal on a value."""
    model = parse(f"agraph (float[n,8] x) => ({outputs}) {{ {nodes} }}", 21)
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"w": (3, 8), "z": (3, 2), "s": (3, 2), "c": (3,)}
    for name, shape in shapes.items():
        element = _KINDS[kind] if name in "wz" else TensorProto.FLOAT
        numbers = [*map(int, rng.integers(0, 8, np.prod(shape)))]
        model.graph.initializer.append(helper.make_tensor(name, element, shape, numbers))
    after = optimize(model, patterns="default", strict=True)
    feeds = {"x": rng.standard_normal((2, 8)).astype(np.float32)}
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    return after


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (f"{_DEQUANTIZED} t = Transpose(d) y = MatMul(x, t)", ["DequantizeLinear", "MatMul"]),
        (f"{_DEQUANTIZED} y = Gemm <transB = 1> (x, d, c)", ["DequantizeLinear", "Gemm"]),
    ],
)
def test_the_blocks_lie_along_the_first_axis(nodes: str, expected: list[str], kind: str) -> None:
    after = transposed(nodes, kind)
    assert types(after) == expected
    dequantize, product = after.graph.node
    assert {a.name: helper.get_attribute_value(a) for a in dequantize.attribute} == {
        "axis": 0,
        "block_size": 4,
    }
    assert not product.attribute
    stored = {tensor.name: tensor for tensor in after.graph.initializer}
    weight, scale, zero = (stored[name] for name in dequantize.input)
    assert [tuple(t.dims) for t in (weight, scale, zero)] == [(8, 3), (2, 3), (2, 3)]
    assert weight.data_type == _KINDS[kind]


def test_a_weight_that_is_read_elsewhere_stays() -> None:
    """The weight of an embedding and of the last layer is stored once."""
    nodes = f"{_DEQUANTIZED} t = Transpose(d) y = MatMul(x, t) v = ReduceMax(d)"
    after = transposed(nodes, outputs="float[n,3] y, float[1,1] v")
    sizes = [tuple(tensor.dims) for tensor in after.graph.initializer]
    assert (3, 8) in sizes
    assert (8, 3) not in sizes
