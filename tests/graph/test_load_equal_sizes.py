"""Sizes of inputs that can only be equal."""

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.support import load, parse
from xoptim import optimize
from xoptim.facts.dims import named
from xoptim.graph.load import load_model

HEAD = "agraph (float[b,n,k] x, float[b,m,l] y, float[n] z) => (r)"


def shapes(text: str) -> dict[str, str]:
    graph = load(text).graph
    return {name: ", ".join(map(str, graph.info_of(name).shape or ())) for name in graph.inputs}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("r = MatMul(x, y)", {"y": "b, k, l"}),
        ("t = Transpose <perm = [0, 2, 1]> (y) r = MatMul(x, t)", {"y": "b, m, k"}),
        ("c = Concat <axis = 1> (y, y) t = MatMul(x, c) r = Identity(t)", {"x": "b, n, 2*m"}),
        ("c = Concat <axis = 1> (y, x) t = Transpose <perm = [0, 2, 1]> (c) r = MatMul(t, c)", {}),
        (
            (
                "c = Concat <axis = 1> (x, y) d = Concat <axis = 1> (x, x) "
                "t = Transpose <perm = [0, 2, 1]> (c) r = MatMul(t, d)"
            ),
            {"y": "b, n, l"},
        ),
        (
            (
                "a = ReduceSum <keepdims = 0> (x, w) b = ReduceSum <keepdims = 0> (y, w) "
                "r = Gemm <transA = 1> (a, b)"
            ),
            {"y": "b, n, l"},
        ),
        ("a = MatMul(z, x) r = MatMul(a, y)", {"y": "b, k, l"}),
        ("e = MatMul(x, f) r = Neg(e)", {"x": "b, n, 4"}),
    ],
)
def test_products(body: str, expected: dict[str, str]) -> None:
    given = {"x": "b, n, k", "y": "b, m, l", "z": "n"}
    numbers = "<int64[1] w = {0}, float[4,2] f = {1, 2, 3, 4, 5, 6, 7, 8}>"
    assert shapes(f"{HEAD} {numbers} {{ {body} }}") == given | expected


def test_what_is_not_computed_requires_nothing() -> None:
    unused = "agraph (float[n,k] x, float[m,l] y) => (float r) { p = MatMul(x, y) r = Neg(x) }"
    assert shapes(unused) == {"x": "n, k", "y": "m, l"}
    branch = """agraph (bool c, float[n,k] x, float[m,l] y) => (float r) {
      r = If (c) <then_branch = t () => (p) { p = MatMul(x, y) },
        else_branch = e () => (q) { q = Identity(x) }> }"""
    assert shapes(branch) == {"c": "", "x": "n, k", "y": "m, l"}


@pytest.mark.parametrize("rows", [0, 3])
def test_the_runtime_refuses_products_of_other_sizes(rows: int) -> None:
    model = parse("agraph (float[n,k] x, float[m,l] y) => (float[n,l] r) { r = MatMul(x, y) }")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    with pytest.raises(Exception, match="dimension"):
        session.run(None, {"x": np.ones((rows, 2), np.float32), "y": np.ones((1, 4), np.float32)})


def test_what_is_declared_stays() -> None:
    """Lengths of keys and of values have two names; a Reshape reads one of them."""
    model = parse(
        """agraph (float[b,n,4] q, float[b,k,4] x, float[b,v,4] y) => (float[b,n,4] r, int64[3] s) {
      t = Transpose <perm = [0, 2, 1]> (x) a = MatMul(q, t) w = Softmax <axis = -1> (a)
        r = MatMul(w, y) s = Shape(y) }"""
    )
    done = optimize(model)
    assert [value.SerializeToString() for value in done.graph.input] == [
        v.SerializeToString() for v in model.graph.input
    ]
    assert isinstance(done, onnx.ModelProto)


def test_formulas_of_inputs() -> None:
    head = "agraph (float[past,4] x, float[seq,4] y, float[total,4] z) => (float r)"
    model = parse(f"{head} {{ c = Concat <axis = 0> (x, y) r = Add(c, z) }}")
    model.graph.input[2].type.tensor_type.shape.dim[0].dim_param = "past + seq"
    graph = load_model(model).graph
    assert graph.info_of("z").shape == graph.info_of("c").shape
    model.graph.input[2].type.tensor_type.shape.dim[0].dim_param = "past + other"
    graph = load_model(model).graph
    assert graph.info_of("z").shape == (named("past + other"), 4)
