"""Weights of 4 and 8 bits in blocks: the packed integers give the products of the dequantized
ones.
"""

from itertools import product

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import run, types
from xoptim import optimize
from xoptim.facts.dtypes import element_type
from xoptim.patterns._bits import packed

ALONE = "MatMulNBits"
DTYPES = [np.dtype(each) for each in (ml_dtypes.int4, ml_dtypes.uint4, np.int8, np.uint8)]


def model_of(
    dtype: np.dtype,
    *,
    zeros: bool = True,
    transposed: bool = False,
    block: int = 16,
    terms: int = 64,
    reads: int = 1,
) -> onnx.ModelProto:
    """Products of tensors (n, terms) with the same five columns of weights."""
    random = np.random.default_rng(0)
    info = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]

    def integers(name: str, rows: int) -> TensorProto:
        found = random.integers(int(info.min), int(info.max) + 1, (rows, 5)).astype(dtype)
        return numpy_helper.from_array(found.T if transposed else found, name)

    blocks = -(-terms // block)
    scales = random.uniform(0.01, 0.1, (blocks, 5)).astype(np.float32)
    stored = [
        integers("w", terms),
        numpy_helper.from_array(scales.T if transposed else scales, "s"),
    ]
    operands = ["w", "s"]
    if zeros:
        stored.append(integers("z", blocks))
        operands.append("z")
    nodes = [
        helper.make_node(
            "DequantizeLinear", operands, ["d"], axis=int(transposed), block_size=block
        )
    ]
    if transposed:
        nodes.append(helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]))
    nodes += [
        helper.make_node("MatMul", [f"x{i}", "t" if transposed else "d"], [f"y{i}"])
        for i in range(reads)
    ]
    inputs = [
        helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, ["n", terms])
        for i in range(reads)
    ]
    outputs = [
        helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["n", 5]) for i in range(reads)
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("dtype", "zeros", "transposed"), list(product(DTYPES, (False, True), (False, True))), ids=str
)
def test_packed_weights(dtype: np.dtype, zeros: bool, transposed: bool) -> None:
    before = model_of(dtype, zeros=zeros, transposed=transposed)
    after = optimize(before, patterns=ALONE, strict=True)
    assert types(after) == ["MatMulNBits"]
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    (expected,), (found,) = run(before, {"x0": x}), run(after, {"x0": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    stored = sum(tensor.ByteSize() for tensor in after.graph.initializer)
    assert stored < 1.25 * sum(tensor.ByteSize() for tensor in before.graph.initializer)


def test_weights_that_are_not_packed() -> None:
    int4 = DTYPES[0]
    for model in (
        model_of(int4, block=8),
        model_of(int4, block=48),
        model_of(int4, terms=72),
        model_of(int4, reads=2),
    ):
        assert "MatMulNBits" not in types(optimize(model, patterns=ALONE))
    other = model_of(int4)
    other.graph.node[0].attribute.append(
        helper.make_attribute("output_dtype", element_type(np.dtype(np.float32)))
    )
    assert "MatMulNBits" not in types(optimize(other, patterns=ALONE))


def test_bytes_of_rows() -> None:
    rows = np.array([[1, 2, 3], [15, 0, 8]], np.uint8)
    assert packed(rows, 4).tolist() == [[0x21, 0x03], [0x0F, 0x08]]
    assert packed(rows, 8).tolist() == rows.tolist()
