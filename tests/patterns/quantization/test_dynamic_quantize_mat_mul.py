"""Products that onnxruntime's dynamic quantization writes.

The integers of several products are computed once.
"""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run, types
from xoptim import optimize

PRODUCT = (
    "m{0} = MatMulInteger(i, W{0}, u, z) c{0} = Cast <to = 1> (m{0}) p{0} = Mul(s, "
    "t{0}) y{0} = Mul(c{0}, p{0}) "
)


def model_of(products: int, more: str = "") -> onnx.ModelProto:
    """Products of one tensor with several weights."""
    outputs = ", ".join(f"float[n,3] y{i}" for i in range(products))
    scales = ", ".join(f"float[3] t{i} = {{0.1, 0.2, 0.{i + 3}}}" for i in range(products))
    body = "i, s, u = DynamicQuantizeLinear(x) " + " ".join(
        PRODUCT.format(i) for i in range(products)
    )
    model = parse(
        f"agraph (float[n,4] x) => ({outputs}{more and ', uint8 u'}) <{scales}, "
        f"int8 z = {{0}}> {{ {body} }}"
    )
    for i in range(products):
        weights = np.random.default_rng(i).integers(-128, 128, (4, 3)).astype(np.int8)
        model.graph.initializer.append(numpy_helper.from_array(weights, f"W{i}"))
    return model


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (model_of(1), ["DynamicQuantizeMatMul"]),
        (model_of(2), ["DynamicQuantizeLinear", "MatMulIntegerToFloat", "MatMulIntegerToFloat"]),
        (model_of(1, "u"), ["DynamicQuantizeLinear", "MatMulIntegerToFloat"]),
    ],
    ids=["one", "two", "a zero point that is an output"],
)
def test_products(model: onnx.ModelProto, left: list[str]) -> None:
    after = optimize(model, patterns="default+onnxruntime", strict=True, provider="cpu")
    assert types(after) == left
    x = np.random.default_rng(9).standard_normal((5, 4)).astype(np.float32)
    for expected, found in zip(run(model, {"x": x}), run(after, {"x": x}), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
