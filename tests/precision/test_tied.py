"""Weights that a table and a product share: rounded, they are stored once."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import xoptim
from tests.precision.models import network, words
from tests.precision.test_lowering import lowered


def tied(form: str) -> onnx.ModelProto:
    """A network whose last product has the table of words as its weights, directly or through a Transpose."""
    model = network(layers=1)
    last = model.graph.node.pop()
    model.graph.ClearField("output")
    model.graph.output.append(onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 300]))
    if form == "Gemm":
        model.graph.node.append(onnx.helper.make_node("Gemm", [last.input[0], "table"], ["scores"], transB=1))
    else:
        model.graph.node.append(onnx.helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]))
        model.graph.node.append(onnx.helper.make_node("MatMul", [last.input[0], "turned"], ["scores"]))
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in ("last", "end")]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model


def tables(model: onnx.ModelProto) -> list[tuple[int, list[int]]]:
    """Types and shapes of the constants that are as large as the table."""
    large = [tensor for tensor in model.graph.initializer if np.prod(tensor.dims) >= 300 * 32]
    return [(tensor.data_type, [*tensor.dims]) for tensor in large]


@pytest.mark.parametrize("form", ["Gemm", "MatMul"])
@pytest.mark.parametrize(
    ("scheme", "patterns", "expected", "part"),
    [
        ("int8", "default", [(onnx.TensorProto.INT8, [300, 64])], 0.33),
        ("float16", "default", [(onnx.TensorProto.FLOAT16, [300, 64])], 0.54),
        ("bfloat16", "default", [(onnx.TensorProto.BFLOAT16, [300, 64])], 0.54),
        ("int8", "default+onnxruntime-FusedGemm", [(onnx.TensorProto.INT8, [300, 64])], 0.33),
        ("int4", "default+onnxruntime-FusedGemm", [(onnx.TensorProto.UINT8, [300, 32])], 0.22),
    ],
)
def test_a_table_is_stored_once(
    form: str, scheme: str, patterns: str, expected: list[tuple[int, list[int]]], part: float, tmp_path: Path
) -> None:
    model = tied(form)
    found = lowered(model, patterns, scheme=scheme, tolerance=0.9)
    assert not found.fault
    assert {each.result for each in found.products} == {*found.rounded}
    assert tables(found.proof.proto) == expected
    sizes = []
    for name, each in (("float", model), ("small", found.proof.proto), ("again", xoptim.optimize(found.proof.proto))):
        onnx.save(each, tmp_path / name)
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[1] < part * sizes[0]
    assert sizes[2] < sizes[0]


@pytest.mark.parametrize("scheme", ["int8", "int4", "float16"])
@pytest.mark.parametrize("tolerance", [0.9, 0.1, 0.03, 0.01, 0.003, 1e-4])
def test_no_choice_is_larger_than_the_floats(scheme: str, tolerance: float) -> None:
    for patterns in ("default", "default+onnxruntime"):
        model = tied("MatMul")
        found = lowered(model, patterns, scheme=scheme, tolerance=tolerance)
        assert not found.fault
        assert found.proof.proto.ByteSize() < 1.05 * model.ByteSize()
        ends = {found.rounded.get(each.result, "") for each in found.products if each.weights == "table"}
        assert ("" in ends) == (ends == {""})


def test_weights_that_something_else_reads_stay() -> None:
    model = tied("Gemm")
    model.graph.node.append(onnx.helper.make_node("ReduceSum", ["table"], ["sum"], keepdims=0))
    model.graph.node.append(onnx.helper.make_node("Mul", ["scores", "sum"], ["scaled"]))
    model.graph.node.append(onnx.helper.make_node("Add", ["h0", "table"], ["kept"]))
    for name in ("scaled", "kept"):
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    found = lowered(model, tolerance=0.9, feeds=[words(count=300)])
    assert [each.weights for each in found.products if each.op_type != "Gather"] == ["w0"] * 2
    assert "h0" not in found.rounded
