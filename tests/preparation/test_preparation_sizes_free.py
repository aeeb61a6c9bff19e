"""A fixed leading size made symbolic, where that stays valid."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import ModelError, prepare

HEADS = """agraph (float[1,6] x, int64[1,1] i) => (float[1,6] y) <int64[3] s = {1, 3, 2}, int64[2]
  t = {1, -1}, float[5,6] e = {
    1,2,3,4,5,6, 1,2,3,4,5,6, 1,2,3,4,5,6, 1,2,3,4,5,6, 6,5,4,3,2,1}> {
    a = Reshape(x, s) b = Transpose <perm = [0, 2, 1]> (a) c = Reshape(b, t) g = Gather(e, i)
      h = Reshape(g, t) y = Add(c, h)
}"""


def dims(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }


def test_constant_shapes_are_freed() -> None:
    after = prepare(parse(HEADS), free="batch")
    assert dims(after) == {"x": ["batch", 6], "i": ["batch", 1], "y": ["batch", 6]}
    onnx.checker.check_model(after, full_check=True)
    x, i = (
        np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32),
        np.array([[0], [4], [2]]),
    )
    (found,) = run(after, {"x": x, "i": i})
    for row in range(3):
        (expected,) = run(parse(HEADS), {"x": x[row : row + 1], "i": i[row : row + 1]})
        np.testing.assert_allclose(found[row : row + 1], expected, rtol=1e-6)
    assert dims(parse(HEADS))["x"] == [1, 6]


def test_a_size_larger_than_one() -> None:
    text = (
        "agraph (float[4,6] x) => (float[4,2,3] y) <int64[3] s = {4, 2, 3}> { y = Reshape(x, s) }"
    )
    after = prepare(parse(text), free="n")
    assert dims(after) == {"x": ["n", 6], "y": ["n", 2, 3]}
    assert run(after, {"x": np.ones((5, 6), np.float32)})[0].shape == (5, 2, 3)
    assert types(after) == ["Reshape"]


def test_nodes_in_another_order() -> None:
    text = (
        "agraph (float[4,6] x) => (float[4,2,3] y) <int64[3] s = {4, 2, 3}> "
        "{ y = Reshape(b, s) b = Neg(a) a = Relu(x) }"
    )
    after = prepare(parse(text), free="n")
    assert run(after, {"x": np.ones((5, 6), np.float32)})[0].shape == (5, 2, 3)


def test_what_is_not_part_of_the_batch() -> None:
    text = "agraph (float[2,3] x, float k) => (float[2,3] y) { y = Mul(x, k) }"
    assert dims(prepare(parse(text), free="n"))["y"] == ["n", 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "agraph (float[2,3] x, float[4] z) => (y) { y = Relu(x) }",
            "first dimension, .* x has 2, z has 4",
        ),
        (
            "agraph (float[n,3] x) => (y) { y = Relu(x) }",
            "first dimension, .* none ",
        ),
        ("agraph (float[2,n] x) => (y) { y = Relu(x) }", "already has"),
        (
            "agraph (float[2,3] x) => (y) <float[2,3] w = {1,2,3,4,5,6}> { y = Add(x, w) }",
            "batch of 4: ",
        ),
        (
            "agraph (float[2,3] x) => (y) { y = Softmax <axis = 0> (x) }",
            "'y' mixes",
        ),
        (
            "agraph (float[1,3] x) => (y) { y = ReduceSum <keepdims = 0> (x) }",
            "'y' has no batch",
        ),
        (
            "agraph (float[1,3] x) => (y) <int64[2] s = {3, 1}> { t = Reshape(x, s) y = Relu(t) }",
            r'prepare\(model, free="n"\): ',
        ),
    ],
)
def test_where_it_is_not_valid(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        prepare(parse(text), free="n")
