"""Weights of 8 or 4 bits, with everything else computed in 16."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from tests.precision.models import network, words
from tests.support import parse, run
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.float16_scales import with_float16_scales
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized

FEEDS = [words(seed=seed) for seed in range(4)]
INTEGERS = {"int8": TensorProto.INT8, "int4": TensorProto.UINT4}


def quantized(scheme: str, target: str = "", **options: Any) -> Quantized:
    chosen, how = OptimizationOptions(target=target), Plan()
    given = {"scheme": scheme, "compute": "float16", "feeds": FEEDS, **options}
    return quantize(
        optimize_verified(network(), chosen, how), chosen, how, PrecisionOptions(**given)
    )


@pytest.mark.parametrize(("scheme", "tolerance", "size"), [("int8", 0.05, 0.4), ("int4", 0.5, 0.3)])
def test_weights_are_dequantized_to_16_bits(scheme: str, tolerance: float, size: float) -> None:
    found = quantized(scheme, tolerance=tolerance)
    assert not found.fault
    assert [report.status for report in found.comparisons] == ["equal"] * 2
    assert "operators in float16" in found.summary()
    model = found.verified.proto
    stored = {each.name: each for each in model.graph.initializer}
    weights = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    assert len(weights) == 5
    for node in weights:
        assert stored[node.input[0]].data_type == INTEGERS[scheme]
        assert stored[node.input[1]].data_type == TensorProto.FLOAT16
        readers = [each for each in model.graph.node if node.output[0] in each.input]
        assert {each.op_type for each in readers} <= {"MatMul", "Gemm"}
    assert model.ByteSize() < size * network().ByteSize()


@pytest.mark.parametrize("scheme", ["int8", "int4"])
def test_the_error_is_relative_to_float32(scheme: str) -> None:
    found = quantized(scheme, tolerance=0.5, io_types="float16")
    model = found.verified.proto
    assert model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    expected, actual = (run(each, FEEDS[0])[0].astype(np.float32) for each in (network(), model))
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    assert 0 < error <= found.error * 1.1 <= 0.5


@pytest.mark.parametrize(("bits", "size"), [(3, 64), (8, 16)])
def test_other_blocks_are_dequantized_to_16_bits(bits: int, size: int) -> None:
    found = quantized("int4", tolerance=0.5, bits=bits, block_size=size)
    assert not found.fault
    assert found.applied
    assert found.verified.proto.ByteSize() < 0.5 * network().ByteSize()


def test_a_gpu_reads_weights_of_4_bits_by_one_operator() -> None:
    found = quantized("int4", target="webgpu", tolerance=0.5)
    assert not found.fault
    model = found.verified.proto
    nodes = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    assert len(nodes) == 5
    stored = {each.name: each.data_type for each in model.graph.initializer}
    assert {stored[node.input[2]] for node in nodes} == {TensorProto.FLOAT16}


def test_nothing_is_quantized_where_weights_err_too_much() -> None:
    found = quantized("int4", tolerance=1e-6)
    assert found.reason
    assert not found.fault
    assert TensorProto.FLOAT16 not in {
        each.data_type for each in found.verified.proto.graph.initializer
    }


def test_scales_that_16_bits_do_not_hold_stay() -> None:
    model = parse(
        "agraph (float[2] x) => (float[2] y, float[2] z) <int8[2] w = {1, 2}, float s = {0.3333}, "
        "float t = {1e-7}> { a = DequantizeLinear(w, s) b = DequantizeLinear(w, t) "
        "y = Add(x, a) z = Add(x, b) }",
        opset=21,
    )
    found = {each.name: each for each in with_float16_scales(model).graph.initializer}
    assert numpy_helper.to_array(found["s"]) == np.float32(np.float16(0.3333))
    assert numpy_helper.to_array(found["t"]) == np.float32(1e-7)
    assert numpy_helper.to_array(
        next(each for each in model.graph.initializer if each.name == "s")
    ) == np.float32(0.3333)


def test_contradictions() -> None:
    with pytest.raises(ValueError, match=r"static .*int8"):
        PrecisionOptions(scheme="int8", static=True, compute="float16")
    with pytest.raises(ValueError, match="not for bfloat16"):
        PrecisionOptions(scheme="bfloat16", compute="float16")
