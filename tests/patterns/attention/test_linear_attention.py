"""Decode steps of the delta rule become LinearAttention."""

from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

STEP: Final = (
    "agraph (float[b,1,2,3] q, float[b,1,2,3] k, float[b,4,5] v, float[b,4,3,5] p, float[b,4] g, "
    "float[b,4,1] z) => (float[b,4,5] y, float[b,4,3,5] s) <int64[1] a = {-2}, int64[1] l = {3}, "
    "int64[2] c = {2, 3}, int64[5] r = {1, 1, 1, 2, 1}, int64[4] t = {-1, 4, 3, 1}> { "
    "ql = Unsqueeze(q, l) qe = Expand(ql, r) qc = Reshape(qe, t) "
    "kl = Unsqueeze(k, l) ke = Expand(kl, r) kc = Reshape(ke, t) "
    "x = Exp(g) w = Unsqueeze(x, c) n = Mul(p, w) o = Mul(n, kc) "
    "m = ReduceSum <keepdims = 0> (o, a) d = Sub(v, m) e = Mul(d, z) f = Unsqueeze(e, a) "
    "h = Mul(kc, f) s = Add(n, h) i = Mul(s, qc) y = ReduceSum <keepdims = 0> (i, a) }"
)
"""Two heads of queries and keys, repeated for four states of 3 by 5."""
NUMBERS: Final = [np.nan, np.inf, -np.inf, 1e30, -1e30, 200.0, -200.0, 1e-40, 0.0]


def replaced(replacements: dict[str, str]) -> onnx.ModelProto:
    """The step with other texts."""
    text = STEP
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def operator_of(model: onnx.ModelProto) -> dict[str, Any]:
    """The attributes of the only LinearAttention of the optimized model; numbers are compared."""
    after = optimize(model, patterns="LinearAttention", strict=True)
    assert_same(model, after, feeds_of(model))
    (node,) = (node for node in after.graph.node if node.op_type == "LinearAttention")
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Numbers for two sequences."""
    rng = np.random.default_rng(0)
    shapes = {
        each.name: [size.dim_value or 2 for size in each.type.tensor_type.shape.dim]
        for each in model.graph.input
    }
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def assert_same(
    before: onnx.ModelProto, after: onnx.ModelProto, feeds: dict[str, np.ndarray]
) -> None:
    for expected, actual in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_repeated_heads_are_not_repeated() -> None:
    written = operator_of(parse(STEP))
    assert (written["q_num_heads"], written["kv_num_heads"]) == (2, 4)
    assert (written["update_rule"], written["scale"]) == (b"gated_delta", 1.0)


def test_other_repeats_stay() -> None:
    """Heads that follow each other in turn, and queries that are repeated more often than keys."""
    turns = {"l = {3}": "l = {2}", "{1, 1, 1, 2, 1}": "{1, 1, 2, 1, 1}"}
    assert operator_of(replaced(turns))["q_num_heads"] == 4
    single = {
        "float[b,1,2,3] q": "float[b,1,1,3] q",
        "Expand(ql, r)": "Expand(ql, u)",
        "int64[1] a": "int64[5] u = {1, 1, 1, 4, 1}, int64[1] a",
    }
    assert operator_of(replaced(single))["q_num_heads"] == 4


@pytest.mark.parametrize("operand", "qkvpgz")
def test_values(operand: str) -> None:
    """NaN, infinities and huge numbers spread as in the step."""
    before = parse(STEP)
    after = optimize(before, patterns="LinearAttention", strict=True)
    for number in NUMBERS:
        feeds = feeds_of(before)
        feeds[operand].flat[1] = number
        assert_same(before, after, feeds)
        feeds[operand][0] = number
        assert_same(before, after, feeds)


def test_the_state_is_multiplied_before() -> None:
    """By a factor that is not an exponential, or differs between sequences that share a state."""
    for text in ({"Exp(g)": "Sigmoid(g)"}, {"float[b,4,3,5] p": "float[1,4,3,5] p"}):
        assert operator_of(replaced(text))["update_rule"] == b"delta"


def test_the_read_values_keep_their_axis() -> None:
    replacements = {
        "<keepdims = 0> (o, a)": "(o, a)",
        "float[b,4,5] v": "float[b,4,1,5] v",
        "float[b,4,1] z": "float[b,4,1,1] z",
        "f = Unsqueeze(e, a) h = Mul(kc, f)": "h = Mul(kc, e)",
    }
    assert operator_of(replaced(replacements))["kv_num_heads"] == 4


@pytest.mark.parametrize(
    "replacements",
    [
        {"h = Mul(kc, f)": "h = Mul(qc, f)"},
        {  # queries that are the values
            "<keepdims = 0> (o, a)": "(o, a)",
            "float[b,4,5] v": "float[b,4,1,5] v",
            "float[b,4,1] z": "float[b,4,1,1] z",
            "f = Unsqueeze(e, a) h = Mul(kc, f)": "h = Mul(kc, e)",
            "i = Mul(s, qc)": "i = Mul(s, v)",
        },
        {"float[b,4,1] z": "float[b,1,1] z"},
        {"float[b,4,5] v": "float[1,4,5] v"},
        {"float[b,4,3,5] s)": "s, o)"},
        {"float[b,4,3,5] s)": "s, d)"},
        {"float[b,": "double[b,"},
        {"float[b,4,5] v": "float[b,4,n] v", "float[b,4,3,5]": "float[b,4,3,n]"},
    ],
)
def test_near_misses(replacements: dict[str, str]) -> None:
    after = optimize(replaced(replacements), patterns="LinearAttention", strict=True)
    assert "LinearAttention" not in types(after)
