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


def test_keys_of_as_many_batches_as_positions_are_not_taken_for_batch_first() -> None:
    """com.microsoft.MultiHeadAttention reads keys (batch, length, features) only."""
    move = "Transpose <perm = [0, 2, 1, 3]>"
    model = parse(
        "agraph (float[5,5,4] q, float[5,5,4] k, float[5,5,4] v) => (float[5,5,4] y) "
        "<int64[4] n = {0, 0, 1, 4}, int64[4] l = {5, 1, 4, 5}, int64[3] r = {0, 0, 4}> { "
        f"a = Reshape(q, n) c = {move} (a) d = Transpose <perm = [1, 2, 0]> (k) e = Reshape(d, l) "
        f"f = Reshape(v, n) h = {move} (f) p = MatMul(c, e) w = Softmax <axis = -1> (p) "
        f"z = MatMul(w, h) t = {move} (z) y = Reshape(t, r) }}"
    )
    result = optimize(model, patterns="MultiHeadAttention", verify=False)
    assert "MultiHeadAttention" not in types(result)


def test_heads_that_are_given_twice() -> None:
    """Attention of four axes may have the numbers of heads as attributes, without effect."""
    move = "Transpose <perm = [0, 2, 1, 3]>"
    model = parse(
        "agraph (float[2,3,2,4] q, float[2,5,2,4] k, float[2,5,2,4] v) => (float[2,3,2,4] y) { "
        f"a = {move} (q) b = {move} (k) c = {move} (v) "
        f"o = Attention <q_num_heads = 2, kv_num_heads = 2> (a, b, c) y = {move} (o) }}",
        23,
    )
    result = optimize(model)
    assert "Transpose" not in types(result)
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.standard_normal((2, length, 2, 4), dtype=np.float32)
        for name, length in (("q", 3), ("k", 5), ("v", 5))
    }
    expected, found = (session(each).run(None, feeds)[0] for each in (model, result))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
