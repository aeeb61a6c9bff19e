"""Integers that are moved; and the kernels for integers that onnxruntime forms from pairs are not
lost by any pattern.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.patterns.quantization.networks import as_run
from tests.support import parse, run, types
from xoptim import optimize

ALONE = "DequantizeLinearQuantizeLinear"
MOVED = (
    "agraph (uint8[2,3,4] x) => (uint8 y) <float s = {0.5}, float[1] s1 = {0.5}, "
    "float s2 = {0.25}, float low = {1e-40}, float minus = {-0.5}, uint8 z = {7}, uint8[1] "
    "z1 = {7}, uint8 zero = {0}, float[3] v = {1, 2, 3}, int64[2] k = {6, 4}> "
)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (
            "d = DequantizeLinear(x, s, z) r = Reshape(d, k) y = QuantizeLinear(r, s, z)",
            ["Reshape"],
        ),
        (
            "d = DequantizeLinear(x, s1, z1) r = Reshape(d, k) y = QuantizeLinear(r, s, z)",
            ["Reshape"],
        ),
        (
            "d = DequantizeLinear(x, s) r = Reshape(d, k) y = QuantizeLinear(r, s, zero)",
            ["Reshape"],
        ),
        (
            "d = DequantizeLinear(x, s) c = Concat <axis = -1> (d, d) y = QuantizeLinear(c, s)",
            ["Concat"],
        ),
        (
            "d = DequantizeLinear <axis = -2> (x, v) y = QuantizeLinear <axis = 1> (d, v)",
            ["Identity"],
        ),
        (
            "d = DequantizeLinear(x, minus) r = Reshape(d, k) y = QuantizeLinear(r, minus)",
            ["Reshape"],
        ),
        (
            (
                "d = DequantizeLinear(x, s) p = MaxPool <kernel_shape = [2]> (d) "
                "y = QuantizeLinear(p, s)"
            ),
            None,
        ),
        ("d = DequantizeLinear(x, s) r = Reshape(d, k) y = QuantizeLinear(r, s2)", None),
        ("d = DequantizeLinear(x, s, z) r = Reshape(d, k) y = QuantizeLinear(r, s, zero)", None),
        ("d = DequantizeLinear(x, low) r = Reshape(d, k) y = QuantizeLinear(r, low)", None),
        (
            (
                "d = DequantizeLinear <axis = 1> (x, v) r = Transpose(d) "
                "y = QuantizeLinear <axis = 1> (r, v)"
            ),
            None,
        ),
        ("d = DequantizeLinear <axis = 1> (x, v) y = QuantizeLinear <axis = 0> (d, v)", None),
        ("d = DequantizeLinear(x, s) r = Relu(d) y = QuantizeLinear(r, s)", None),
        ("d = DequantizeLinear(x, s) r = Reshape(d, k) y = QuantizeLinear(r, s) q = Exp(r)", None),
    ],
)
def test_movements_of_integers(body: str, left: list[str] | None) -> None:
    """With equal parameters, of a tensor that is moved as a whole or stays."""
    outputs = (
        "uint8[a,b,c] y"
        if "axis" in body or "MaxPool" in body or "Concat" in body
        else "uint8[a,b] y"
    )
    outputs += ", float q" if "q = " in body else ""
    text = MOVED.replace("uint8 y)", f"{outputs})").replace("float q", "float[a,b] q")
    before = parse(text + "{ " + body + " }")
    after = optimize(before, patterns=ALONE, strict=True)
    assert types(after) == (left if left is not None else types(before))
    if left is not None:
        x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4) * 10
        for expected, found in zip(run(before, {"x": x}), run(after, {"x": x}), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_integers_of_another_type() -> None:
    text = (
        "agraph (int8[2,3] x) => (uint8[3,2] y) <float s = {0.5}> "
        "{ d = DequantizeLinear(x, s) t = Transpose(d) y = QuantizeLinear(t, s) }"
    )
    assert types(optimize(parse(text), patterns=ALONE, strict=True)) == [
        "DequantizeLinear",
        "Transpose",
        "QuantizeLinear",
    ]


def test_small_integers_without_kernels() -> None:
    text = (
        "agraph (int4[2,4] x) => (int4[4,2] y) <float s = {0.5}, int4 z = {1}> "
        "{ d = DequantizeLinear(x, s, z) t = Tile(d, k) y = QuantizeLinear(t, s, z) }"
    )
    before = parse(text, opset=21)
    before.graph.initializer.append(numpy_helper.from_array(np.array([2, 1]), "k"))
    before.graph.output[0].type.tensor_type.ClearField("shape")
    assert types(optimize(before, patterns=ALONE, strict=True, provider="cpu")) == types(before)


PAIR = "{0}q = QuantizeLinear({0}, s, o) {0}d = DequantizeLinear({0}q, s, o) "
WEIGHT = "{0} = DequantizeLinear({0}i, ws, wo) "
NETWORKS = {
    "convolutions that share a tensor": [
        "x",
        "W",
        "U",
        "a = Conv(xd, W) b = Conv(xd, U)",
        "a",
        "b",
        "y = Add(ad, bd)",
        "y",
    ],
    "convolutions that share weights": [
        "x",
        "W",
        "a = Conv(xd, W)",
        "a",
        "V = DequantizeLinear(Wi, ws, wo)",
        "y = Conv(ad, V)",
        "y",
    ],
    "products": ["x", "M", "a = MatMul(xd, M)", "a", "y = Mul(ad, xd)", "y"],
    "a product with a bias": ["x", "M", "m = MatMul(xd, M) y = Add(m, bias)", "y"],
    "a scaled convolution": ["x", "W", "m = Conv(xd, W) y = Mul(m, column)", "y"],
    "joined branches": [
        "x",
        "W",
        "a = Conv(xd, W)",
        "a",
        "c = Concat <axis = 1> (ad, xd)",
        "c",
        "y = MaxPool <kernel_shape = [2, 2]> (cd)",
        "y",
    ],
    "an activation": [
        "x",
        "W",
        "a = Conv(xd, W)",
        "a",
        "b = Sigmoid(ad)",
        "b",
        "y = Mul(ad, bd)",
        "y",
    ],
    "channels last": [
        "x",
        "W",
        (
            "t = Transpose <perm = [0, 3, 1, 2]> (xd) a = Conv(t, W) "
            "b = Transpose <perm = [0, 2, 3, 1]> (a)"
        ),
        "b",
        (
            "u = Transpose <perm = [0, 3, 1, 2]> (bd) c = Conv(u, W) "
            "e = Transpose <perm = [0, 2, 3, 1]> (c)"
        ),
        "e",
        "y = Add(bd, ed)",
        "y",
    ],
}


def network(parts: list[str]) -> onnx.ModelProto:
    """Operators between pairs.

    A lower-case name stands for a pair, an upper-case one for quantized weights.
    """
    body = " ".join(
        part if "=" in part else (WEIGHT if part.isupper() else PAIR).format(part) for part in parts
    )
    model = parse(
        "agraph (float[1,4,4,4] x) => (float[a,b,c,d] yd) "
        "<float s = {0.05}, uint8 o = {128}, float ws = {0.02}, int8 wo = {0}, "
        f"float[4] bias = {{1, 2, 3, 4}}, float[4,1,1] column = {{1, 2, 3, 4}}> {{ {body} }}"
    )
    random = np.random.default_rng(0)
    for name, shape in (("Wi", (4, 4, 1, 1)), ("Ui", (4, 4, 1, 1)), ("Mi", (4, 4))):
        model.graph.initializer.append(
            numpy_helper.from_array(random.integers(-99, 99, shape).astype(np.int8), name)
        )
    return model


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("selection", ["default", "default+onnxruntime"])
def test_kernels_for_integers_are_formed_as_often(
    name: str, selection: str, tmp_path: Path
) -> None:
    before = network(NETWORKS[name])
    after = optimize(before, patterns=selection, strict=True)
    given, found = as_run(before, tmp_path), as_run(after, tmp_path)
    # A Concat of integers needs no kernel of its own; of Gemm and MatMul there are kernels for
    # integers with different names.
    lost = {
        k: (given[k], found[k])
        for k in ("QLinearConv", "QLinearAdd", "QLinearMul", "QLinearSigmoid")
        if found[k] < given[k]
    }
    assert lost == {}
    products = ("QLinearMatMul", "QGemm", "MatMulIntegerToFloat")
    assert sum(found[k] for k in products) >= sum(given[k] for k in products)
    assert (
        found["DequantizeLinear"] + found["QuantizeLinear"]
        <= given["DequantizeLinear"] + given["QuantizeLinear"]
    )
    weights = [tensor for tensor in after.graph.initializer if len(tensor.dims) in (2, 4)]
    assert all(tensor.data_type == onnx.TensorProto.INT8 for tensor in weights)
