from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.support import load, node_of, text_of
from xoptim.facts.dims import named
from xoptim.facts.shapes import Info
from xoptim.graph import constants
from xoptim.graph.constants import constant_array, is_constant, store
from xoptim.operators.inference.values import known_value

TEXT = """agraph (bool r, float[n,4] x, float[2] o) => (y)
<float[2] w = {1, 2}, float[2] o = {3, 4}, int64[1] big = {1099511627776}> {
  k = Constant <value = float[2] {5, 6}> ()
  a = Add(w, k)
  b = Mul(a, a)
  c = Add(b, o)
  s = Shape(x)
  one = Constant <value_int = 1> ()
  four = Gather(s, one)
  random = RandomNormalLike(w)
  d = Add(random, w)
  halves = Constant <value_ints = [1, 1]> ()
  e, f = Split <axis = 0> (b, halves)
  huge = ConstantOfShape(big)
  huger = Neg(huge)
  g = Einsum <equation = "i,i->"> (a, b)
  h = custom.Foo(w)
  i = If (r) <then_branch = th () => (float[2] q) { z = Neg(a) q = Abs(z) },
    else_branch = el () => (float[2] q) { q = Exp(w) }>
  y = Neg(x)
}"""


@pytest.fixture
def graph() -> Any:
    return load(TEXT, domains={"custom": 1}).graph


def test_which_results_are_constant(graph: Any) -> None:
    constant = [name for node in graph.nodes for name in node.output if is_constant(graph, name)]
    for name in ("k", "a", "b", "four", "one", "e", "f", "halves", "huge", "g"):
        assert name in constant, name
    for name in ("x", "o", "c", "s", "random", "d", "h", "i", "y", "nothing"):
        assert not is_constant(graph, name), name
    assert is_constant(graph, "w")


def test_values(graph: Any) -> None:
    expected: dict[str, Any] = {
        "w": [1, 2], "k": [5, 6], "a": [6, 8], "b": [36, 64], "four": 4, "e": [36], "f": [64],
        "g": 6 * 36 + 8 * 64,
    }  # fmt: skip
    for name, value in expected.items():
        array = constant_array(graph, name)
        assert array is not None, name
        assert array.tolist() == value
        assert array.dtype == (np.int64 if name == "four" else np.float32)
    for name in ("x", "o", "c", "s", "random", "d", "i", "y", "nothing"):
        assert constant_array(graph, name) is None, name


def test_values_are_computed_once(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = constant_array(graph, "g")
    monkeypatch.setattr(constants, "evaluate", None)
    assert constant_array(graph, "g") is first


def test_large_values_are_not_computed(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "evaluate", None)
    assert graph.info_of("huge").static_shape == (1 << 40,)
    assert constant_array(graph, "huge") is None
    assert constant_array(graph, "huger") is None


def test_what_cannot_be_computed_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load(
        "agraph (float[2] x) => (float[1] y) <float[2] w = {1, 2}> { y = Gather(w, w) }"
    ).graph
    assert constant_array(graph, "y") is None
    monkeypatch.setattr(constants, "evaluate", None)
    assert constant_array(graph, "y") is None


def test_constants_of_the_enclosing_graph(graph: Any) -> None:
    body = node_of(graph, "If").bodies["then_branch"]
    array = constant_array(body, "a")
    assert array is not None
    assert array.tolist() == [6, 8]
    assert is_constant(body, "w")


def test_a_ladder_of_constants_takes_linear_time() -> None:
    steps = " ".join(f"a{i + 1} = Add(a{i}, b{i}) b{i + 1} = Sub(a{i}, b{i})" for i in range(60))
    graph = load(
        f"agraph () => (float[1] a60) <float[1] a0 = {{1}}, float[1] b0 = {{2}}> {{ {steps} }}"
    ).graph
    assert is_constant(graph, "a60")
    array = constant_array(graph, "a60")
    assert array is not None
    assert array.tolist() == [2.0**30]


def test_known_values() -> None:
    n = named("n")
    assert known_value(Info(TensorProto.INT64, (2,), (3, n))) is None
    assert known_value(Info(TensorProto.INT64, None, (3,))) is None
    assert known_value(Info(TensorProto.INT64, (2,))) is None
    for dtype, numpy in (
        (TensorProto.INT64, np.dtype(np.int64)),
        (TensorProto.INT32, np.dtype(np.int32)),
    ):
        vector = known_value(Info(dtype, (2,), (3, 4)))
        assert vector is not None
        assert (vector.dtype, vector.tolist()) == (numpy, [3, 4])
        scalar = known_value(Info(dtype, (), (3,)))
        assert scalar is not None
        assert (scalar.dtype, scalar.shape, int(scalar)) == (numpy, (), 3)
        empty = known_value(Info(dtype, (0,), ()))
        assert empty is not None
        assert (empty.dtype, empty.shape) == (numpy, (0,))


def test_storing() -> None:
    model = load("agraph (float[2] w) => (float[2] y) { y = Neg(w) }")
    assert store(model.graph, "w", np.ones(2, np.float32)) == "w_1"
    assert store(model.graph, "", np.zeros(1, np.int64)) == "r"
    assert model.graph.info_of("w_1").shape == (2,)
    assert b"w_1" in text_of(model)
