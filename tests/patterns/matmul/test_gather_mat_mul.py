"""A table of an embedding that gives the scores of its rows too: stored once, transposed by no
node.
"""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run, types
from xoptim import optimize

SIZE, WIDTH = 1024, 64
FORMS = ["y = MatMul(x, v)", "t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t)"]
FLAT = ["Reshape", "Gemm", "Shape", "Concat", "Reshape"]


def tied(nodes: str, inputs: str = "float[b,s,64] x", **changed: Any) -> onnx.ModelProto:
    """A model with a table, and its transpose ``v`` where nodes read it.

    Some elements of that may be changed.
    """
    table = (
        np.random.default_rng(0)
        .standard_normal((SIZE, WIDTH))
        .astype(changed.get("dtype", np.float32))
    )
    twin = np.ascontiguousarray(table.T)
    twin[-1, -1] += changed.get("more", 0)
    model = parse(
        f"agraph (int64[b,s] i, {inputs}) => (e, y) {{ e = Gather <axis = 0> (w, i) {nodes} }}"
    )
    stored = {"w": table, "v": twin, "last": np.array(-1)}
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(stored[name], name) for name in stored if name in read
    )
    return model


def optimized(model: onnx.ModelProto, patterns: str = "default") -> onnx.ModelProto:
    """The model after the patterns; equal on a value."""
    after = optimize(model, patterns=patterns, strict=True)
    rank = len(model.graph.input[1].type.tensor_type.shape.dim)
    x = np.random.default_rng(1).standard_normal((2, 3, WIDTH)[3 - rank :])
    given = {"i": np.arange(6).reshape(2, 3), "x": x.astype(np.float32)}
    for expected, got in zip(run(model, given), run(after, given), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    return after


def matrices(model: onnx.ModelProto) -> list[str]:
    return [tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 2]


@pytest.mark.parametrize("nodes", FORMS)
def test_it_is_stored_once(nodes: str) -> None:
    after = optimized(tied(nodes))
    assert types(after) == ["Gather", *FLAT]
    assert matrices(after) == ["w"]


def test_rows_of_one_axis_need_no_reshape() -> None:
    after = optimized(tied("y = MatMul(x, v)", "float[s,64] x"))
    assert types(after) == ["Gather", "Gemm"]
    assert matrices(after) == ["w"]


@pytest.mark.parametrize("stored", [True, False])
def test_the_last_position_is_taken_before_the_product(stored: bool) -> None:
    scores = "m = MatMul(x, v)" if stored else "t = Transpose <perm = [1, 0]> (w) m = MatMul(x, t)"
    after = optimized(tied(f"{scores} y = Gather <axis = 1> (m, last)"))
    assert types(after) == ["Gather", "Gather", "Gemm"]
    assert matrices(after) == ["w"]


def test_operators_of_onnxruntime_take_one_node() -> None:
    after = optimized(tied(FORMS[1]), "default+onnxruntime")
    assert types(after) == ["Gather", "FusedMatMul"]


@pytest.mark.parametrize(
    "model",
    [
        tied("y = MatMul(x, v)", more=1),
        tied(
            "m = MatMul(x, v) k = Gather <axis = 1> (v, i) s = ReduceSum <keepdims = 0> (k) "
            "y = Add(m, s)"
        ),
        tied("y = MatMul(x, v)", "float[64] x"),
    ],
    ids=["another number", "read elsewhere", "vector"],
)
def test_other_products_stay(model: onnx.ModelProto) -> None:
    after = optimized(model, "GatherMatMul")
    assert "MatMul" in types(after)
    assert set(matrices(after)) == {"w", "v"}
