"""Attention whose heads of keys and values serve several heads of queries, without operators of
attention.
"""

import numpy as np
import onnx
import pytest

from tests.patterns.attention.comparison import session
from tests.support import parse, types
from xoptim import optimize

GATHER = "kr = Gather <axis = 1> (kc, i) vr = Gather <axis = 1> (vc, i)"
EXPAND = (
    "ks = Shape(kc) kn = Slice(ks, two, four) e = Concat <axis = 0> (one, g, r, kn) "
    "h = Concat <axis = 0> (one, n, kn) ku = Unsqueeze(kc, two) ke = Expand(ku, e) "
    "kr = Reshape(ke, h) vu = Unsqueeze(vc, two) ve = Expand(vu, e) vr = Reshape(ve, h)"
)
CACHE = "kc = Concat <axis = 2> (pk, k) vc = Concat <axis = 2> (pv, v)"
SCALE = "Mul(s, scale)"


def attention(
    repetition: str = GATHER,
    scale: str = SCALE,
    cache: str = CACHE,
    queries: str = "s",
    keys: str = "t = Transpose <perm = [0, 1, 3, 2]> (kr)",
) -> onnx.ModelProto:
    """Four heads of queries and two of keys, after earlier keys."""
    return parse(
        f"agraph (float[1,4,{queries},8] q, float[1,2,{queries},8] k, float[1,2,{queries},8] v, "
        f"float[1,2,p,8] pk, float[1,2,p,8] pv) => (float[1,4,{queries},8] y) "
        "<float scale = {0.5}, float third = {3}, float[1,4,1,1] wider = {1, 2, 3, 4}, "
        "int64[4] i = {0, 0, 1, 1}, "
        "int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] g = {2}, "
        "int64[1] r = {2}, int64[1] n = {4}> "
        f"{{ {cache} {repetition} {keys} s = MatMul(q, t) "
        f"d = {scale} w = Softmax <axis = -1> (d) y = MatMul(w, vr) }}",
        20,
    )


def assert_equal(model: onnx.ModelProto, result: onnx.ModelProto, queries: int = 3) -> None:
    rng = np.random.default_rng(0)
    for past in (0, 1, 6):
        feeds = {
            value.name: rng.standard_normal(
                [dim.dim_value or {"s": queries, "p": past}[dim.dim_param] for dim in shape.dim],
                dtype=np.float32,
            )
            for value in model.graph.input
            for shape in (value.type.tensor_type.shape,)
        }
        expected, y = (session(each).run(None, feeds)[0] for each in (model, result))
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [SCALE, "Div(s, scale)"])
@pytest.mark.parametrize("repetition", [GATHER, EXPAND])
def test_keys_and_values_are_not_repeated(repetition: str, scale: str) -> None:
    model = attention(repetition, scale)
    result = optimize(model, assume=["s >= 1"])
    assert not {"Gather", "Expand"} & set(types(result))
    scores = types(result).index("MatMul")
    assert types(result)[scores : scores + 3] == ["MatMul", scale[:3], "Reshape"]
    assert_equal(model, result)


@pytest.mark.parametrize(
    "keys",
    [
        "ks = Transpose <perm = [0, 1, 3, 2]> (kr) t = Mul(scale, ks)",
        "ks = Div(kr, scale) t = Transpose <perm = [0, 1, 3, 2]> (ks)",
        "ks = Mul(kr, scale) kt = Transpose <perm = [0, 1, 3, 2]> (ks) t = Div(kt, third)",
    ],
)
def test_keys_with_a_factor_are_not_repeated(keys: str) -> None:
    model = attention(keys=keys)
    result = optimize(model, patterns="RepeatedHeads", assume=["s >= 1"])
    assert "Gather" not in types(result)
    scores = types(result).index("MatMul")
    assert set(types(result)[scores + 1 : scores + 3]) <= {"Mul", "Div"}
    assert_equal(model, result)


@pytest.mark.parametrize("keys", ["t = Div(scale, kt)", "t = Mul(kt, kt)", "t = Mul(kt, wider)"])
def test_keys_after_other_operators_are_repeated(keys: str) -> None:
    model = attention(keys=f"kt = Transpose <perm = [0, 1, 3, 2]> (kr) {keys}")
    result = optimize(model, patterns="RepeatedHeads", assume=["s >= 1"])
    assert types(result).count("Gather") == 1  # of the values, not of the keys


@pytest.mark.parametrize("scale", ["Add(s, scale)", "Div(scale, s)"])
def test_only_factors_stay_next_to_the_scores(scale: str) -> None:
    model = attention(scale=scale, queries="3")
    result = optimize(model)
    scores = types(result).index("MatMul")
    assert types(result)[scores : scores + 2] == ["MatMul", "Reshape"]
    assert_equal(model, result)


def test_queries_of_a_model_with_a_cache_are_few() -> None:
    """Without a cache, there are as many queries as keys, and may be many."""
    no_cache = "kc = Identity(k) vc = Identity(v)"
    assert "Gather" in types(optimize(attention(cache=no_cache), assume=["s >= 1"]))
    assert "Gather" not in types(optimize(attention(cache=no_cache, queries="512")))
    assert "Gather" in types(optimize(attention(cache=no_cache, queries="513")))


def test_heads_that_others_read_stay() -> None:
    model = attention(queries="3")
    model.graph.output.append(
        onnx.helper.make_tensor_value_info("kr", onnx.TensorProto.FLOAT, (1, 4, None, 8))
    )
    assert types(optimize(model)).count("Gather") == 1


@pytest.mark.parametrize(
    ("dtype", "number"), [("int32", "3"), ("float", "0"), ("float", "1e30"), ("float16", "24576")]
)
def test_divisors_that_may_not_follow_the_product_stay(dtype: str, number: str) -> None:
    """Integers are rounded, 0 makes infinities, and products of large numbers overflow.

    The text form writes float16 as bits: 24576 stands for 512.
    """
    model = parse(
        f"agraph ({dtype}[b,6,1,4] q, {dtype}[b,2,5,4] k) => ({dtype}[b,6,1,5] y) "
        f"<int64[6] i = {{0, 0, 0, 1, 1, 1}}, {dtype} n = {{{number}}}> "
        "{ r = Gather <axis = 1> (k, i) d = Div(r, n) p = Transpose <perm = [0, 1, 3, 2]> (d) "
        "y = MatMul(q, p) }",
        18,
    )
    assert "Gather" in types(optimize(model, patterns="RepeatedHeads"))
