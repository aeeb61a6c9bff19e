import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run, same_results, types
from xoptim import optimize

NORM = "y = BatchNormalization <epsilon = 0.001> (c, g, e, m, v)"


def model_of(
    behind: str, weights: str = "d = DequantizeLinear(K, s)", bias: str = ""
) -> onnx.ModelProto:
    """A convolution of weights with three output channels."""
    model = parse(
        "agraph (float[n,2,5] x) => (float[n,3,5] y) <float s = {0.02}, float[3] t = {0.1, 0.2, "
        "0.3}, float[2] w = {0.1, 0.2}, int8[3] z = {1, 0, -4}, float[3] b = {1, 2, 3}, int32[3] "
        "i = {10, 20, 30}, float[3,1] f = {2, 3, 0.5}, float[3,1] minus = {2, -3, 1}, float[5] "
        "last = {1, 2, 3, 4, 5}, float[3] g = {1, 0.5, 2}, float[3] e = {0, 1, -1}, float[3] "
        f"m = {{0.5, 0, -1}}, float[3] v = {{1, 4, 0.25}}> {{ {weights} "
        f"c = Conv(x, d{bias}) {behind} }}"
    )
    integers = np.random.default_rng(0).integers(-128, 128, (3, 2, 1)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(integers, "K"))
    return model


@pytest.mark.parametrize("behind", [NORM, "y = Mul(c, f)", "y = Div(c, f)", "y = Mul(s, c)"])
@pytest.mark.parametrize(
    "weights", ["d = DequantizeLinear(K, s)", "d = DequantizeLinear <axis = 0> (K, t, z)"]
)
@pytest.mark.parametrize("bias", ["", ", b"])
def test_factors_become_scales(behind: str, weights: str, bias: str) -> None:
    before = model_of(behind, weights, bias)
    after = optimize(before, patterns="DequantizeLinearConv", strict=True)
    assert types(after) == ["DequantizeLinear", "Conv"]
    kept = next(tensor for tensor in after.graph.initializer if tensor.name == "K")
    assert kept.data_type == onnx.TensorProto.INT8
    same_results(
        before, after, {"x": np.random.default_rng(1).standard_normal((4, 2, 5)).astype(np.float32)}
    )


@pytest.mark.parametrize(
    "model",
    [
        model_of("y = Mul(c, minus)"),
        model_of("y = Mul(c, last)"),
        model_of("y = Mul(c, f)", "d = DequantizeLinear <axis = 1> (K, w)"),
        model_of("y = Mul(c, f)", "d = DequantizeLinear(K, s) r = DequantizeLinear(i, s)", ", r"),
        model_of("p = Mul(c, f) q = ReduceMax(d) y = Sub(p, q)"),
    ],
    ids=[
        "a negative factor",
        "another axis",
        "the scales are not along the output channels",
        "a quantized bias",
        "weights that are read twice",
    ],
)
def test_factors_that_stay(model: onnx.ModelProto) -> None:
    after = optimize(model, patterns="DequantizeLinearConv", strict=True)
    assert "Mul" in types(after)
    x = np.random.default_rng(1).standard_normal((4, 2, 5)).astype(np.float32)
    np.testing.assert_array_equal(run(after, {"x": x})[0], run(model, {"x": x})[0])
