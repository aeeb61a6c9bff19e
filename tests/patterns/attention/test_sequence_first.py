"""Attention of tensors whose length comes before their batch, as torch's modules work inside."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.patterns.attention.comparison import session
from tests.support import parse, types
from xoptim import optimize

PROJECTED = """
    p = MatMul (t, w)
    q0, k0, v0 = Split <axis = 2, num_outputs = 3> (p)
"""
HEADS = """
    q1 = Reshape (q0, heads)
    k1 = Reshape (k0, heads)
    v1 = Reshape (v0, heads)
    q = Transpose <perm = [1, 2, 0, 3]> (q1)
    k = Transpose <perm = [1, 2, 3, 0]> (k1)
    v = Transpose <perm = [1, 2, 0, 3]> (v1)
    qs = Mul (q, half)
    s = MatMul (qs, k)
    a = Softmax <axis = -1> (s)
    c = MatMul (a, v)
    d = Transpose <perm = [2, 0, 1, 3]> (c)
"""
MERGED_HEADS = """
    q1 = Reshape (q0, merged)
    k1 = Reshape (k0, merged)
    v1 = Reshape (v0, merged)
    q = Transpose <perm = [1, 0, 2]> (q1)
    k = Transpose <perm = [1, 2, 0]> (k1)
    v = Transpose <perm = [1, 0, 2]> (v1)
    qs = Mul (q, half)
    s = MatMul (qs, k)
    a = Softmax <axis = -1> (s)
    c = MatMul (a, v)
    d = Transpose <perm = [1, 0, 2]> (c)
"""
RESULT = """
    e = Reshape (d, rows)
    f = Gemm <transB = 1> (e, o)
    sizes = Shape (t)
    g = Reshape (f, sizes)
"""
WEIGHTS = """
    <float half = {0.5}, int64[4] heads = {0, 0, 2, 4}, int64[3] merged = {0, -1, 4},
     int64[2] rows = {-1, 8}>
"""


def module(text: str) -> onnx.ModelProto:
    """A model with the weights of a projection of width 8, and of the result."""
    model = parse(text, 23)
    rng = np.random.default_rng(0)
    for name, shape in (("w", (8, 24)), ("o", (8, 8))):
        values = rng.standard_normal(shape, dtype=np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def assert_equal(model: onnx.ModelProto, result: onnx.ModelProto) -> None:
    """Compare both for some batches and lengths."""
    rng = np.random.default_rng(0)
    for first, second in ((1, 1), (2, 5), (5, 2)):
        x = rng.standard_normal((first, second, 8), dtype=np.float32)
        expected, found = (session(each).run(None, {"x": x})[0] for each in (model, result))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attention", [HEADS, MERGED_HEADS], ids=["heads", "merged heads"])
def test_batch_first_outside(attention: str) -> None:
    """The Transposes cancel."""
    model = module(
        f"agraph (float[b,n,8] x) => (float[b,n,8] y) {WEIGHTS} {{"
        f" t = Transpose <perm = [1, 0, 2]> (x) {PROJECTED} {attention} {RESULT}"
        " y = Transpose <perm = [1, 0, 2]> (g) }"
    )
    result = optimize(model)
    assert types(result) == ["MatMul", "Split", "Attention", "MatMul"]
    assert_equal(model, result)


@pytest.mark.parametrize("attention", [HEADS, MERGED_HEADS], ids=["heads", "merged heads"])
def test_sequence_first_outside(attention: str) -> None:
    """One Transpose before the projection, one after the attention."""
    model = module(
        f"agraph (float[n,b,8] x) => (float[n,b,8] y) {WEIGHTS} {{"
        f" t = Identity (x) {PROJECTED} {attention} {RESULT} y = Identity (g) }}"
    )
    result = optimize(model)
    assert types(result) == ["Transpose", "MatMul", "Split", "Attention", "Transpose", "MatMul"]
    assert_equal(model, result)
