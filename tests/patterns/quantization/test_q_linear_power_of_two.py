"""Integer operators give the integers of the original where all scales are powers of two."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.patterns.quantization.test_q_linear import ALL, model_of
from tests.support import parse, run, types
from xoptim import optimize

_SCALES = (1.0, 0.125, 2.0**-7)
_PATTERN = "QLinearPowerOfTwo"


@pytest.mark.parametrize("dtype", [np.uint8, np.int8], ids=["uint8", "int8"])
@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_all_pairs_of_integers(op_type: str, dtype: type[np.integer]) -> None:
    integers = (ALL + int(np.iinfo(dtype).min)).astype(dtype)
    feeds = {"x": integers.reshape(256, 1), "y": integers.reshape(1, 256)}
    written = 0
    for scales in itertools.product(_SCALES, _SCALES, _SCALES):
        before = model_of(f"c = {op_type}(a, b)", scales, np.dtype(dtype).name, (3, 7, 2))
        after = optimize(before, patterns=_PATTERN, strict=True, provider="cpu")
        written += types(after) == [f"QLinear{op_type}"]
        np.testing.assert_array_equal(run(after, feeds)[0], run(before, feeds)[0])
    assert written > 10


@pytest.mark.parametrize(
    ("scales", "zero"),
    [((0.5, 0.25, 0.125), 3), ((0.5, 0.25, 0.1), 4), ((0.5, 2.0**-12, 0.5), 4)],
    ids=["odd zero point", "no power of two", "far apart"],
)
def test_other_sums_are_kept(scales: tuple[float, ...], zero: int) -> None:
    model = model_of("c = Add(a, b)", scales, "uint8", (3, 7, zero))
    assert "Add" in types(optimize(model, patterns=_PATTERN, strict=True, provider="cpu"))


def _convolution(channels: int, scale: float = 0.125) -> onnx.ModelProto:
    model = parse(
        f"agraph (uint8[n,{channels},4,4] x) => (uint8[n,2,2,2] y) <float s = {{{scale}}}, "
        "float[2] t = {0.25, 0.125}, uint8 u = {7}, int8[2] v = {0, 0}, float[2] k = {0.03125, "
        "0.015625}, int32[2] b = {1000, -501}, float r = {2}, uint8 q = {131}> { "
        "a = DequantizeLinear(x, s, u) w = DequantizeLinear <axis = 0> (W, t, v) "
        "e = DequantizeLinear <axis = 0> (b, k) c = Conv(a, w, e) y = QuantizeLinear(c, r, q) }"
    )
    weights = np.random.default_rng(0).integers(-63, 64, (2, channels, 3, 3)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    return model


def test_convolutions_are_equal() -> None:
    before = _convolution(4)
    after = optimize(before, patterns=_PATTERN, strict=True, provider="cpu")
    assert types(after) == ["QLinearConv"]
    x = np.random.default_rng(1).integers(0, 256, (200, 4, 4, 4)).astype(np.uint8)
    (expected,), (result,) = run(before, {"x": x}), run(after, {"x": x})
    np.testing.assert_array_equal(result, expected)
    assert len(np.unique(expected)) > 100


def test_matmuls_are_equal() -> None:
    before = parse(
        "agraph (uint8[n,16] x) => (uint8[n,5] y) <float s = {0.125}, uint8 u = {9}, float t = "
        "{0.5}, float r = {4}, uint8 q = {129}> { a = DequantizeLinear(x, s, u) "
        "w = DequantizeLinear(W, t) c = MatMul(a, w) y = QuantizeLinear(c, r, q) }"
    )
    weights = np.random.default_rng(0).integers(-63, 64, (16, 5)).astype(np.int8)
    before.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    after = optimize(before, patterns=_PATTERN, strict=True, provider="cpu")
    assert types(after) == ["QLinearMatMul"]
    x = np.random.default_rng(1).integers(0, 256, (2000, 16)).astype(np.uint8)
    np.testing.assert_array_equal(run(after, {"x": x})[0], run(before, {"x": x})[0])


@pytest.mark.parametrize("model", [_convolution(300), _convolution(4, 0.13)])
def test_other_convolutions_are_kept(model: onnx.ModelProto) -> None:
    """Sums beyond 24 bits, and a scale that is no power of two."""
    assert "Conv" in types(optimize(model, patterns=_PATTERN, strict=True, provider="cpu"))
