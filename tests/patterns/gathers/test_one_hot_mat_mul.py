"""Embeddings that are looked up by one-hot vectors."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

INDICES = np.array([[0, 6, 3], [-1, -7, 5], [7, -8, 1 << 40], [-(1 << 40), 2, -3]])

_COMPARED = "u = Unsqueeze(i, last) e = Equal(u, row) t = Cast <to = 1> (e)"


def looked_up(nodes: str, columns: int = 3, element: str = "int64") -> onnx.ModelProto:
    """The model after the pattern; equal for indices within and beyond the depth of 7."""
    model = parse(
        f"agraph ({element}[n,3] i) => (float[n,3,{columns}] y) "
        f"<{element} depth = {{7}}, float[2] pair = {{0, 1}}, float[2] other = {{1, 0}}, "
        f"int64[2] whole = {{0, 1}}, {element}[7] row = {{0, 1, 2, 3, 4, 5, 6}}, "
        f"int64[1] last = {{-1}}> {{ {nodes} }}"
    )
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((7, columns)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    after = optimize(model, patterns="OneHotMatMul", strict=True)
    indices = INDICES if element == "int64" else np.clip(INDICES, -100, 100)
    feeds = {"i": indices.astype(element)}
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(result, expected)
    return after


@pytest.mark.parametrize(
    ("nodes", "element"),
    [
        ("h = OneHot(i, depth, pair) y = MatMul(h, w)", "int64"),
        ("h = OneHot(i, depth, pair) y = MatMul(h, w)", "int32"),
        ("h = OneHot <axis = 2> (i, depth, pair) y = MatMul(h, w)", "int64"),
        ("h = OneHot(i, depth, whole) t = Cast <to = 1> (h) y = MatMul(t, w)", "int64"),
        (f"{_COMPARED} y = MatMul(t, w)", "int64"),
        (f"{_COMPARED} y = MatMul(t, w)", "int32"),
    ],
)
def test_rows_are_gathered(nodes: str, element: str) -> None:
    assert types(looked_up(nodes, element=element)) == ["Clip", "Gather"]


def test_a_large_weight_is_stored_once() -> None:
    columns = 20000
    after = looked_up("h = OneHot(i, depth, pair) y = MatMul(h, w)", columns)
    assert types(after) == ["Less", "Add", "Where", "Clip", "Gather"]
    sizes = [np.prod(tensor.dims) for tensor in after.graph.initializer]
    assert max(sizes) == 8 * columns


@pytest.mark.parametrize(
    "nodes",
    [
        "h = OneHot(i, depth, other) y = MatMul(h, w)",
        "h = OneHot(i, depth, pair) u = MatMul(h, w) f = Cast <to = 1> (i) r = ReduceMax(f) "
        "t = Mul(w, r) m = ReduceMax(t) y = Add(u, m)",
    ],
)
def test_others_stay(nodes: str) -> None:
    assert "MatMul" in types(looked_up(nodes))


def test_another_axis_stays() -> None:
    model = parse(
        "agraph (int64[7] i) => (float[3,2] y) <int64 d = {3}, float[2] v = {0, 1}, "
        "float[7,2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5}> { "
        "h = OneHot <axis = 0> (i, d, v) y = MatMul(h, w) }"
    )
    assert types(optimize(model, patterns="OneHotMatMul", strict=True)) == ["OneHot", "MatMul"]


@pytest.mark.parametrize("depth", ["nan", "inf", "1.5"])
def test_a_depth_that_does_not_match_the_weight_stays(depth: str) -> None:
    model = parse(
        f"agraph (int64[n] i) => (float[n,1] y) <float d = {{{depth}}}, float[2] v = {{0, 1}}, "
        "float[2,1] w = {1, 2}> { h = OneHot(i, d, v) y = MatMul(h, w) }"
    )
    assert types(optimize(model, patterns="OneHotMatMul", strict=True)) == ["OneHot", "MatMul"]


def test_an_infinite_weight_stays() -> None:
    """A product of 0 and infinity is NaN."""
    model = parse(
        "agraph (int64[n] i) => (float[n,1] y) <int64 d = {2}, float[2] v = {0, 1}> { "
        "h = OneHot(i, d, v) y = MatMul(h, w) }"
    )
    weight = np.array([[1], [np.inf]], np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    assert types(optimize(model, patterns="OneHotMatMul", strict=True)) == ["OneHot", "MatMul"]
