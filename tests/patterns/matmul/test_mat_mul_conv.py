"""The layout for NPUs: convolutions from layer to layer, without Transposes between them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, types
from xoptim import optimize, verify

_BERT = Path(__file__).parents[3] / "examples" / "models" / "tiny_bert.onnx"


def _with_weights(text: str, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    model = parse(text)
    for name, shape in shapes.items():
        array = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def test_layers_keep_the_layout() -> None:
    model = _with_weights(
        "agraph (float[n,s,8] x) => (float[n,s,8] y) { n = LayerNormalization(x, k, c) "
        "a = MatMul(n, v) b = Add(a, o) r = Relu(b) d = MatMul(r, w) y = Add(x, d) }",
        k=(8,),
        c=(8,),
        v=(8, 16),
        o=(16,),
        w=(16, 8),
    )
    laid_out = optimize(model, patterns="default+npu", strict=True)
    assert types(laid_out).count("Conv") == 2
    assert types(laid_out).count("Transpose") == 2, "at the input and at the output"
    assert not {"MatMul", "LayerNormalization"} & set(types(laid_out))
    report = verify(model, laid_out)
    assert report.ok, report.reason


def test_it_is_opt_in() -> None:
    model = _with_weights(
        "agraph (float[n,s,8] x) => (float[n,s,4] y) { y = MatMul(x, w) }", w=(8, 4)
    )
    assert types(optimize(model, patterns="default+onnxruntime")) == ["MatMul"]


@pytest.mark.slow
def test_a_transformer() -> None:
    model = onnx.load(_BERT)
    before, after = (
        types(optimize(model, patterns=selection)) for selection in ("default", "default+npu")
    )
    assert (before.count("MatMul"), after.count("MatMul"), after.count("Conv")) == (16, 4, 12)
    assert before.count("Transpose") == after.count("Transpose") == 8
