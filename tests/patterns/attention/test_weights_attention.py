"""Attention whose weights are read, as torch's MultiheadAttention with ``need_weights``."""

import numpy as np
import onnx
import pytest

from tests.patterns.attention.comparison import session
from tests.support import parse, types
from xoptim import optimize

MEAN = "z = ReduceMean <keepdims = 0> (w, one)"
UNREAD = "z = ReduceMean <keepdims = 0> (m, one)"


def module(rest: str, mask: str = "n = Add(s, m)") -> onnx.ModelProto:
    """Two heads of queries, keys and values whose length comes first, batch and heads merged."""
    return parse(
        "agraph (float[3,b,8] q, float[5,b,8] k, float[5,b,8] v, float[1,3,5] m) "
        "=> (float[3,b,8] y, float z) <int64[3] heads = {0, -1, 4}, int64[3] rows = {0, -1, 8}, "
        "int64[4] split = {-1, 2, 3, 5}, float half = {0.5}, int64[1] one = {1}> { "
        "a = Reshape(q, heads) c = Transpose <perm = [1, 0, 2]> (a) d = Mul(c, half) "
        "e = Reshape(k, heads) f = Transpose <perm = [1, 2, 0]> (e) g = Reshape(v, heads) "
        f"h = Transpose <perm = [1, 0, 2]> (g) s = MatMul(d, f) {mask} "
        f"p = Softmax <axis = -1> (n) w = Reshape(p, split) {rest} "
        "o = MatMul(p, h) t = Transpose <perm = [1, 0, 2]> (o) y = Reshape(t, rows) }",
        23,
    )


@pytest.mark.parametrize("mask", ["n = Add(s, m)", "n = Identity(s)"])
def test_weights_are_a_result_of_the_operator(mask: str) -> None:
    """Heads are merged by the operator, which scales the queries."""
    model = module(MEAN, mask)
    result = optimize(model)
    node = next(node for node in result.graph.node if node.op_type == "Attention")
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert attributes == pytest.approx(
        {"q_num_heads": 2, "kv_num_heads": 2, "scale": 0.5, "qk_matmul_output_mode": 3}
    )
    assert [bool(name) for name in node.output] == [True, False, False, True]
    assert not {"Softmax", "MatMul", "Reshape"} & set(types(result))
    rng = np.random.default_rng(0)
    for number in (0, np.finfo(np.float32).min, -np.inf):
        feeds = {
            value.name: rng.standard_normal(
                [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim], dtype=np.float32
            )
            for value in model.graph.input
        }
        feeds["m"][0, 1] = number
        expected, found = (session(each).run(None, feeds) for each in (model, result))
        for array, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


def test_weights_that_nothing_reads_are_no_result() -> None:
    result = optimize(module(UNREAD))
    node = next(node for node in result.graph.node if node.op_type == "Attention")
    assert len(node.output) == 1


def test_scores_before_the_softmax_keep_the_factor_of_the_queries() -> None:
    model = parse(
        "agraph (float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,4] v) "
        "=> (float[b,2,3,4] y, float[b,2,3,5] s) <float two = {2}> { x = Mul(q, two) "
        "y, , , s = Attention <qk_matmul_output_mode = 0> (x, k, v) }",
        23,
    )
    assert types(optimize(model)) == ["Mul", "Attention"]
