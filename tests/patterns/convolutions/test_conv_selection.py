"""Selections and permutations of channels next to layers."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

SHAPES = {
    "k": (6, 4, 3, 3),
    "d": (4, 1, 3, 3),
    "c": (6,),
    "row": (6, 1, 1),
    "image": (6, 3, 3),
    "w": (5, 6),
    "wt": (6, 5),
    "b": (6,),
}
_VECTORS = (
    "int64[4] perm = {2, 0, 3, 1}, int64[4] twice = {2, 0, 2, 1}, int64[3] part = {5, 0, -2}, "
    "int64[5] five = {4, 0, 3, 1, 2}, int64[7] seven = {0, 1, 2, 3, 4, 5, 0}, int64[1] zero = {0}, "
    "int64[1] one = {1}, int64[1] last = {-1}, int64[1] low = {-9223372036854775808}, "
    "int64[1] four = {4}, int64[1] two = {2}, int64 scalar = {1}"
)


def selected(nodes: str, source: str = "float[n,4,5,5] x") -> onnx.ModelProto:
    """The model after the patterns; equal on a value."""
    model = parse(f"agraph ({source}) => (y) <{_VECTORS}> {{ {nodes} }}")
    rng = np.random.default_rng(0)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in SHAPES.items()
    )
    after = optimize(model, patterns="SelectionConv+ConvSelection", strict=True)
    shape = (2, 4, 5, 5) if "5,5" in source else (2, 3, 5) if "m" in source else (3, 5)
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    return after


_ROWS, _MATRIX = "float[n,m,5] x", "float[n,5] x"


@pytest.mark.parametrize(
    ("nodes", "source", "expected"),
    [
        ("t = Gather <axis = 1> (x, perm) y = Conv(t, k, c)", "float[n,4,5,5] x", ["Conv"]),
        (
            "t = Slice(x, last, low, one, last) r = Relu(t) s = Sigmoid(r) y = Conv(s, k)",
            "float[n,4,5,5] x",
            ["Relu", "Sigmoid", "Conv"],
        ),
        (
            "p, q, r, s = Split <axis = 1, num_outputs = 4> (x) "
            "t = Concat <axis = 1> (s, q, p, r) y = Conv(t, k)",
            "float[n,4,5,5] x",
            ["Conv"],
        ),
        ("t = Gather <axis = -1> (x, five) y = MatMul(t, w)", _ROWS, ["MatMul"]),
        ("t = Gather <axis = 1> (x, five) y = Gemm <transB = 1> (t, wt, b)", _MATRIX, ["Gemm"]),
        (
            "t = Conv(x, k, c) r = Add(row, t) s = Relu(r) y = Gather <axis = 1> (s, part)",
            "float[n,4,5,5] x",
            ["Conv", "Add", "Relu"],
        ),
        ("t = Conv(x, k) y = Slice(t, last, low, one, last)", "float[n,4,5,5] x", ["Conv"]),
        (
            "t = MatMul(x, w) r = Add(t, b) y = Gather <axis = 2> (r, part)",
            _ROWS,
            ["MatMul", "Add"],
        ),
        (
            "t = Gemm <beta = 0.5> (x, w, b) y = Gather <axis = -1> (t, part)",
            _MATRIX,
            ["Gemm"],
        ),
    ],
)
def test_weights_are_selected(nodes: str, source: str, expected: list[str]) -> None:
    assert types(selected(nodes, source)) == expected


@pytest.mark.parametrize(
    ("nodes", "source"),
    [
        # no permutation, another axis, a position, another reader, groups
        ("t = Gather <axis = 1> (x, twice) y = Conv(t, k)", "float[n,4,5,5] x"),
        ("t = Gather <axis = 2> (x, five) y = Conv(t, k)", "float[n,4,5,5] x"),
        ("t = Gather <axis = 1> (x, perm) p = Conv(t, k) q = ReduceMax(t) y = Add(p, q)",
         "float[n,4,5,5] x"),
        ("t = Gather <axis = 1> (x, perm) y = Conv <group = 4> (t, d)", "float[n,4,5,5] x"),
        ("t = Conv <group = 4> (x, d) y = Gather <axis = 1> (t, perm)", "float[n,4,5,5] x"),
        # more indices than channels, another axis, a bias that differs at each position
        ("t = MatMul(x, w) y = Gather <axis = 2> (t, seven)", _ROWS),
        ("t = MatMul(x, w) y = Gather <axis = 2> (t, scalar)", _ROWS),
        ("t = Conv(x, k) r = Add(t, image) y = Gather <axis = 1> (r, part)", "float[n,4,5,5] x"),
        ("t = Conv(x, k) r = Softmax <axis = 1> (t) y = Gather <axis = 1> (r, part)",
         "float[n,4,5,5] x"),
    ],
)  # fmt: skip
def test_others_stay(nodes: str, source: str) -> None:
    assert "Gather" in types(selected(nodes, source))


def test_a_bias_that_is_also_a_bound() -> None:
    """Clip needs a scalar."""
    after = selected(
        "s = Constant <value = float {0.5}> () t = MatMul(x, w) r = Add(t, s) p = Clip(r, s) "
        "y = Gather <axis = 2> (p, part)",
        _ROWS,
    )
    assert types(after) == ["MatMul", "Add", "Clip"]
