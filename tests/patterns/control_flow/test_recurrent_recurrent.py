"""Recurrent operators that continue each other."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_SHAPES = {"w": (1, 8, 3), "r": (1, 8, 2), "k": (1, 16), "w2": (1, 8, 3), "back": (2, 3)}
_INPUTS = "float[1,2,3] x, float[2,2,3] u, float[1,2,3] v, float[1,2,2] h, float[1,2,2] c"
_CHAIN = (
    "a, h1, c1 = LSTM <hidden_size = 2> (x, w, r, k, , h, c) "
    "b, h2, c2 = LSTM <hidden_size = 2> (u, w, r, k, , h1, c1) "
    "d, h3, c3 = LSTM <hidden_size = 2> (v, w, r, k, , h2, c2)"
)


def after_pattern(nodes: str, outputs: str) -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    constants = "int32[2] lengths = {1, 1}, int64[1] one = {1}"
    model = parse(f"agraph ({_INPUTS}) => ({outputs}) <{constants}> {{ {nodes} }}")
    rng = np.random.default_rng(0)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in _SHAPES.items()
    )
    after = optimize(model, patterns="RecurrentRecurrent", strict=True)
    feeds = {
        value.name: rng.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
    return after


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("float[1,2,2] h3, float[1,2,2] c3", ["Concat", "LSTM"]),
        ("float[2,1,2,2] b, float[1,2,2] c3", ["Concat", "LSTM", "Split"]),
        ("float[1,1,2,2] a, float[2,1,2,2] b, float[1,1,2,2] d", ["Concat", "LSTM", "Split"]),
    ],
)
def test_a_chain_becomes_one_operator(outputs: str, expected: list[str]) -> None:
    assert types(after_pattern(_CHAIN, outputs)) == expected


@pytest.mark.parametrize(
    ("old", "new", "outputs", "count"),
    [
        ("(v, w, r", "(v, w2, r", "float[1,2,2] c3", 2),
        (", h2, c2)", ", h2, c1)", "float[1,2,2] c3", 3),
        (", h2, c2)", ", c2, h2)", "float[1,2,2] c3", 2),
        ("(v, w, r, k, , h2", "(v, w, r, k, lengths, h2", "float[1,2,2] c3", 2),
        ("= 2> (v", "= 2, clip = 1.0> (v", "float[1,2,2] c3", 2),
        ("x, w", "x, w", "float[1,2,2] c3, float[1,2,2] h1", 3),
        ("d, h3", "t = MatMul(h1, back) d, h3", "float[1,2,2] c3, float[1,2,3] t", 3),
    ],
)
def test_other_operators_stay(old: str, new: str, outputs: str, count: int) -> None:
    assert old in _CHAIN
    after = after_pattern(_CHAIN.replace(old, new), outputs)
    assert types(after).count("LSTM") == count


def test_an_input_that_the_first_operator_computes_stays() -> None:
    nodes = (
        "a, h1, c1 = LSTM <hidden_size = 2> (x, w, r) s = Squeeze(a, one) t = MatMul(s, back) "
        "d, h2, c2 = LSTM <hidden_size = 2> (t, w, r, , , h1, c1)"
    )
    assert types(after_pattern(nodes, "float[1,2,2] h2")).count("LSTM") == 2


def test_reversed_operators_stay() -> None:
    nodes = _CHAIN.replace("hidden_size = 2", 'hidden_size = 2, direction = "reverse"')
    assert types(after_pattern(nodes, "float[1,2,2] h3")).count("LSTM") == 3


def test_a_state_that_is_omitted_twice_begins_at_zero() -> None:
    model = parse(
        "agraph (float[1,2,3] x, float[2,2,3] u, float[1,8,3] w, float[1,8,2] r) "
        "=> (float[1,1,2,2] a, float[2,1,2,2] y) { a, h = LSTM <hidden_size = 2> (x, w, r) "
        "y = LSTM <hidden_size = 2> (u, w, r, , , h) }"
    )
    model.graph.node[0].output.append("")
    assert types(optimize(model, patterns="RecurrentRecurrent", strict=True)) == ["LSTM", "LSTM"]
