"""Nodes of local functions whose attributes take their values from the caller."""

import numpy as np
import onnx
import pytest

from tests.support import run
from xoptim import optimize

_WEIGHTS = (
    "v = Constant <value = float[2,2] {1, 2, 3, 4}> () "
    "w = Constant <value = float[2,2] {5, 6, 7, 8}> () "
)


def model(body: str, call: str) -> onnx.ModelProto:
    """A model that calls the function ``f`` with an attribute ``p`` that nodes of ``body`` read."""
    imports = 'opset_import: ["" : 18, "local" : 1]'
    return onnx.parser.parse_model(
        f"<ir_version: 10, {imports}> agraph (float[2,2] x) => (float[k,m] y) "
        f'{{ y = local.f <p = {call}> (x) }} <domain: "local", {imports}> '
        f"f <p> (x) => (y) {{ {_WEIGHTS} {body} }}"
    )


@pytest.mark.parametrize(
    ("pattern", "body", "call"),
    [
        (
            "MatMulConcat",
            "a = Gemm <transB : int = @p> (x, v) b = Gemm <transB : int = @p> (x, w) "
            "y = Concat <axis = 1> (a, b)",
            "0",
        ),
        (
            "MatMulSplit",
            "k = Constant <value_ints = [1, 1]> () a = Gemm <transB : int = @p> (x, v) "
            "y, z = Split <axis = 1> (a, k)",
            "0",
        ),
        ("TransposeRegion", "a = Transpose <perm : ints = @p> (x) y = MatMul(a, v)", "[0, 1]"),
        (
            "RegressorMul",
            "c = Constant <value_float = 2.0> () "
            "a = ai.onnx.ml.LinearRegressor <coefficients : floats = @p> (x) y = Mul(a, c)",
            "[1.0, 2.0]",
        ),
    ],
)
def test_an_attribute_that_the_caller_gives_is_not_read(pattern: str, body: str, call: str) -> None:
    called = model(body, call)
    if "ai.onnx.ml" in body:
        for imports in (called.opset_import, called.functions[0].opset_import):
            imports.append(onnx.helper.make_opsetid("ai.onnx.ml", 1))
    after = optimize(called, patterns=pattern, strict=True)
    feeds = {"x": np.arange(4, dtype=np.float32).reshape(2, 2)}
    np.testing.assert_array_equal(run(after, feeds)[0], run(called, feeds)[0])
