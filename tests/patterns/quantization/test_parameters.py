import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import run
from xoptim.facts.dtypes import element_type
from xoptim.patterns.quantization._parameters import Parameters, keep_integers

INTEGERS = [np.dtype(name) for name in ("uint8", "int8", "uint16", "int16")]
FLOATS = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
SCALES = (0.1, 1 / 3, 1.0, -0.7, 3e-3, 77.7, 6.2e-5, 2e-38, 1e37)


def kept_by_rounding(scale: np.ndarray, dtype: np.dtype) -> bool:
    """Whether each difference of two integers is the same after it was multiplied and divided in
    the type of the scale.
    """
    limits = np.iinfo(dtype)
    steps = np.arange(int(limits.min) - int(limits.max), int(limits.max) - int(limits.min) + 1)
    wide = (steps.astype(scale.dtype) * scale).astype(scale.dtype)
    return bool((np.rint((wide / scale).astype(np.float64)) == steps).all())


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("floats", FLOATS, ids=str)
@np.errstate(all="ignore")
def test_kept_integers_are_the_same_in_every_case(dtype: np.dtype, floats: np.dtype) -> None:
    found = 0
    for number in SCALES:
        scale = np.array([number]).astype(floats)
        if keep_integers(scale, element_type(dtype)):
            found += 1
            assert kept_by_rounding(scale, dtype)
    is_coarse = floats.itemsize == 2 and (dtype.itemsize == 2 or floats != np.float16)
    assert bool(found) is not is_coarse


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("number", SCALES)
def test_onnxruntime_keeps_them_too(dtype: np.dtype, number: float) -> None:
    scale = np.array([number], np.float32)
    assert keep_integers(scale, element_type(dtype)) == (abs(number) < 1e37)
    if not keep_integers(scale, element_type(dtype)):
        return
    limits = np.iinfo(dtype)
    for zero in (limits.min, limits.max, limits.max // 2):
        stored = [
            numpy_helper.from_array(scale.reshape(()), "s"),
            numpy_helper.from_array(np.array(zero, dtype), "z"),
        ]
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
            helper.make_node("QuantizeLinear", ["d", "s", "z"], ["y"]),
        ]
        values = [helper.make_tensor_value_info(name, element_type(dtype), None) for name in "xy"]
        graph = helper.make_graph(nodes, "g", values[:1], values[1:], stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        x = np.arange(int(limits.min), int(limits.max) + 1).astype(dtype)
        np.testing.assert_array_equal(run(model, {"x": x})[0], x)


@pytest.mark.parametrize("steps", [1, 2, 123, 1023])
@pytest.mark.parametrize("dtype", INTEGERS[:2], ids=str)
def test_subnormal_scales_in_float16_keep_integers(dtype: np.dtype, steps: int) -> None:
    """Kernels compute in float32, where such a scale is an ordinary number."""
    scale = np.array(steps, np.uint16).view(np.float16)
    assert keep_integers(scale.reshape(1), element_type(dtype))
    stored = [
        numpy_helper.from_array(scale, "s"),
        numpy_helper.from_array(np.array(3, dtype), "z"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
        helper.make_node("QuantizeLinear", ["d", "s", "z"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, element_type(dtype), None) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    limits = np.iinfo(dtype)
    x = np.arange(int(limits.min), int(limits.max) + 1).astype(dtype)
    np.testing.assert_array_equal(run(model, {"x": x})[0], x)


@pytest.mark.parametrize("number", [0.0, np.inf, np.nan, 1e-40, -1e-44])
def test_scales_that_lose_integers(number: float) -> None:
    assert not keep_integers(np.array([0.1, number], np.float32), TensorProto.INT8)


def test_types_that_are_not_quantized_to() -> None:
    scale = np.array([0.5], np.float32)
    assert keep_integers(scale, TensorProto.INT4)
    assert not keep_integers(scale, TensorProto.INT32)
    assert not keep_integers(scale, TensorProto.FLOAT8E4M3FN)
    assert not keep_integers(scale, 0)
    assert not keep_integers(scale[:0], TensorProto.INT8)


def test_equal_parameters() -> None:
    one = Parameters(np.array([0.5], np.float32), np.array([0]), None)
    assert one.equals(Parameters(np.array([0.5], np.float32), np.array([0]), None))
    assert not one.equals(Parameters(np.array([0.5], np.float16), np.array([0]), None))
    assert not one.equals(Parameters(np.array([0.5], np.float32), np.array([1]), None))
    assert not one.equals(Parameters(np.array([0.25], np.float32), np.array([0]), None))
    assert not one.equals(Parameters(np.array([0.5], np.float32), np.array([0]), 1))
