"""Experts as exporters write them: each reads its weights once."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import xoptim
from tests.support import parse, run

EXPERTS, WIDTH, HIDDEN = 8, 160, 224
"""More than the numbers that pay, with one token."""
_BLOCK = """
agraph (float[t,160] x) => (float[t,160] y) <
  int64[1] two = {2}, int64 eight = {8}, int64[1] minus = {-1}, int64[1] one = {1},
  int64[3] repeat = {1, 2, 1}, int64[2] rows = {-1, 160}, int64[3] split = {-1, 2, 160}
> {
  scores = MatMul(x, router)
  p, i = TopK(scores, two)
  weights = Softmax(p)
  u = Unsqueeze(x, one)
  e = Expand(u, repeat)
  r = Reshape(e, rows)
  j = Reshape(i, minus)
  ids = Unsqueeze(j, minus)
  g1 = GatherND(w1, ids)
  column = Unsqueeze(r, minus)
  m1 = MatMul(g1, column)
  q1 = Squeeze(m1, minus)
  a, b = Split <axis = 1, num_outputs = 2> (q1)
  s = Sigmoid(a)
  silu = Mul(a, s)
  h = Mul(silu, b)
  g2 = GatherND(w2, ids)
  column2 = Unsqueeze(h, minus)
  m2 = MatMul(g2, column2)
  q2 = Squeeze(m2, minus)
  flat = Reshape(weights, minus)
  factor = Unsqueeze(flat, minus)
  weighted = Mul(q2, factor)
  chosen = Reshape(weighted, split)
  y = ReduceSum <keepdims = 0> (chosen, one)
}
"""


def block(scale: float = 1.0, text: str = _BLOCK) -> onnx.ModelProto:
    """A block of eight experts with SwiGLU, of which each token takes two."""
    rng = np.random.default_rng(0)
    shapes = {
        "router": (WIDTH, EXPERTS),
        "w1": (EXPERTS, 2 * HIDDEN, WIDTH),
        "w2": (EXPERTS, WIDTH, HIDDEN),
    }
    model = parse(text, opset=20)
    for name, shape in shapes.items():
        numbers = rng.normal(size=shape) / np.sqrt(shape[-1])
        array = (scale * numbers if name == "router" else numbers).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def scans(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Scan" for node in xoptim.optimize(model).graph.node)


def check_equal(
    result: onnx.ModelProto, model: onnx.ModelProto, feeds: dict[str, np.ndarray]
) -> None:
    actual, expected = run(result, feeds)[0], run(model, feeds)[0]
    np.testing.assert_allclose(actual, expected, 1e-4, 1e-5)


def values(tokens: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(tokens, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("tokens", [0, 1, 2, 33])
def test_equal_to_copies_of_the_weights(tokens: int) -> None:
    model = block()
    result = xoptim.optimize(model)
    assert [node.op_type for node in result.graph.node].count("Scan") == 1
    assert not {"GatherND", "ReduceSum"} & {node.op_type for node in result.graph.node}
    feeds = {"x": values(tokens)}
    check_equal(result, model, feeds)


def test_equal_where_experts_are_tied() -> None:
    """A router of zeros: TopK takes the first experts."""
    model = block(scale=0)
    feeds = {"x": values(5)}
    check_equal(xoptim.optimize(model), model, feeds)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e30, 0])
def test_a_row_of_special_numbers_stays_in_its_row(number: float) -> None:
    model, x = block(), values(4)
    x[1] = number
    result, expected = (run(each, {"x": x})[0] for each in (xoptim.optimize(model), model))
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    rows = [0, 2, 3]
    np.testing.assert_allclose(result[rows], expected[rows], 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(float[t,160] y)", "(float[t,160] y, float[m,448] q1)"),  # copies are read elsewhere
        ("p, i = TopK(scores, two)", "p, k = TopK(scores, two) d = Mul(k, k) i = Mod(d, eight)"),
        (
            "y = ReduceSum <keepdims = 0> (chosen, one)",
            "z = Softmax <axis = 0> (q1) "
            "n = ReduceMax <keepdims = 0> (z) w = ReduceSum <keepdims = 0> (chosen, one) "
            "y = Add(w, n)",
        ),  # the rows are mixed
    ],
)
def test_other_blocks_stay(old: str, new: str) -> None:
    assert old in _BLOCK
    assert scans(block()) == 1
    assert scans(block(text=_BLOCK.replace(old, new))) == 0


def test_small_experts_are_copied() -> None:
    small = _BLOCK.replace("160", "16")
    model = parse(small, opset=20)
    rng = np.random.default_rng(0)
    for name, shape in {"router": (16, 8), "w1": (8, 32, 16), "w2": (8, 16, 16)}.items():
        array = rng.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    assert scans(model) == 0
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 4096
    assert scans(model) == 1


def test_not_for_other_providers() -> None:
    result = xoptim.optimize(block(), provider="cuda", verify=False)
    assert not [node for node in result.graph.node if node.op_type == "Scan"]
