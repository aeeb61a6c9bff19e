"""Operators on integers: which of them give the integers of the original, and by how much the
others differ.
"""

from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run, types
from xoptim import optimize

ALL = np.arange(256)
PARAMETERS = [(0.1, 0.2, 0.3), (0.05, 0.031, 0.00390625), (0.5, 0.25, 0.125), (0.017, 0.9, 0.1)]


def model_of(
    body: str, scales: tuple[float, ...], dtype: str, zeros: tuple[int, ...]
) -> onnx.ModelProto:
    """Two tensors a and b of all pairs of integers, dequantized; and c, quantized."""
    numbers = ", ".join(f"float s{i} = {{{scale!r}}}" for i, scale in enumerate(scales))
    points = ", ".join(f"{dtype} z{i} = {{{zero}}}" for i, zero in enumerate(zeros))
    return parse(
        f"agraph ({dtype}[256,1] x, {dtype}[1,256] y) => ({dtype}[p,q] z) <{numbers}, {points}> {{ "
        f"a = DequantizeLinear(x, s0, z0) b = DequantizeLinear(y, s1, z1) {body} "
        "z = QuantizeLinear(c, s2, z2) }"
    )


@pytest.mark.parametrize(
    "body",
    [
        "c = Sigmoid(a)",
        "c = LeakyRelu <alpha = 0.3> (a)",
        "t = Transpose(b) c = Concat <axis = 1> (a, t)",
    ],
)
@pytest.mark.parametrize("scales", PARAMETERS, ids=str)
def test_elements_are_equal(body: str, scales: tuple[float, ...]) -> None:
    for zeros in ((0, 128, 255), (128, 3, 0), (77, 200, 131)):
        before = model_of(body, scales, "uint8", zeros)
        after = optimize(before, patterns="default+QLinearElement", strict=True, provider="cpu")
        assert any(name.startswith("QLinear") for name in types(after))
        feeds = {
            "x": ALL.astype(np.uint8).reshape(256, 1),
            "y": ALL.astype(np.uint8).reshape(1, 256),
        }
        for expected, found in zip(run(before, feeds), run(after, feeds), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8], ids=["uint8", "int8"])
@pytest.mark.parametrize("op_type", ["Add", "Mul"])
@pytest.mark.parametrize("scales", PARAMETERS, ids=str)
def test_others_differ_by_one_between_two_integers(
    op_type: str, scales: tuple[float, ...], dtype: type[np.integer]
) -> None:
    """Computed with fractions: where a result differs, it lies next to the middle between two
    integers.
    """
    low = int(np.iinfo(dtype).min)
    zeros = (low + 128, low + 3, low + 77)
    before = model_of(f"c = {op_type}(a, b)", scales, np.dtype(dtype).name, zeros)
    after = optimize(before, patterns="QLinear", strict=True, provider="cpu")
    assert types(after) == [f"QLinear{op_type}"]
    integers = (ALL + low).astype(dtype)
    feeds = {"x": integers.reshape(256, 1), "y": integers.reshape(1, 256)}
    (expected,), (found,) = run(before, feeds), run(after, feeds)
    gaps = found.astype(int) - expected.astype(int)
    assert np.abs(gaps).max() <= 1
    exact = [Fraction(float(np.float32(scale))) for scale in scales]
    for row, column in np.argwhere(gaps):
        a, b = (
            exact[0] * (int(integers[row]) - zeros[0]),
            exact[1] * (int(integers[column]) - zeros[1]),
        )
        steps = (a + b if op_type == "Add" else a * b) / exact[2]
        assert abs(steps - (steps.__floor__() + Fraction(1, 2))) < Fraction(1, 4096)


def convolution(
    bias_scale: float = 0.002, terms: int = 4, attribute: str = "", zero: str = "0, 0"
) -> onnx.ModelProto:
    """A convolution with two channels, and its bias."""
    model = parse(
        f"agraph (uint8[n,{terms},4] x) "
        "=> (uint8[n,2,4] y) <float s = {0.1}, float[2] t = {0.02, 0.04}, uint8 u = {7}, "
        f"int8[2] v = {{{zero}}}, float[2] k = {{{bias_scale}, 0.004}}, int32[2] "
        "b = {1000, -500}, float r = {0.9}> { a = DequantizeLinear(x, s, u) "
        "w = DequantizeLinear <axis = 0> (W, t, v) e = DequantizeLinear <axis = 0> (b, k) "
        f"c = Conv {attribute} (a, w, e) y = QuantizeLinear(c, r, u) }}"
    )
    weights = np.random.default_rng(0).integers(-63, 64, (2, terms, 1)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    return model


def test_weights_and_bias() -> None:
    before = convolution()
    after = optimize(before, patterns="QLinear", strict=True, provider="cpu")
    assert types(after) == ["QLinearConv"]
    x = np.random.default_rng(1).integers(0, 256, (3, 4, 4)).astype(np.uint8)
    (expected,), (found,) = run(before, {"x": x}), run(after, {"x": x})
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    assert len(np.unique(expected)) > 9, "not all integers are at the ends"


@pytest.mark.parametrize(
    "model",
    [convolution(0.0021), convolution(terms=1 << 15), convolution(zero="1, 0")],
    ids=["another scale of the bias", "sums beyond 32 bits", "several zero points"],
)
def test_weights_and_bias_that_do_not_fit(model: onnx.ModelProto) -> None:
    assert "QLinearConv" not in types(
        optimize(model, patterns="QLinear", strict=True, provider="cpu")
    )


def test_operators_without_a_counterpart() -> None:
    for body in ("c = Sub(a, b)", "c = Sigmoid(a) d = Neg(c)", "e = Exp(a) c = Add(e, b)"):
        before = model_of(body, PARAMETERS[0], "uint8", (1, 2, 3))
        if "d =" in body:
            before.graph.output.append(
                onnx.helper.make_tensor_value_info("d", onnx.TensorProto.FLOAT, None)
            )
        found = types(
            optimize(before, patterns="QLinear+QLinearElement", strict=True, provider="cpu")
        )
        assert not any(name.startswith("QLinear") for name in found)
