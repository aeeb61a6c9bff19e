import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.patterns.attention.comparison import session
from tests.support import load, parse, types
from xoptim import optimize, verify
from xoptim.match import GraphView
from xoptim.patterns.attention._mask import magnitude_of


def layer(shape: str, attention: str, features: int = 4) -> onnx.ModelProto:
    """Attention after three linear layers; ``m`` is a mask of integers."""
    model = parse(
        f"agraph (float[{shape},{features}] x, int32[1,1,1,3] m) => (float[{shape},{features}] y) "
        "<float one = {1}, float low = {-10000}, int64[4] e = {1, 1, 3, 3}> { a = MatMul(x, qw) "
        "q = Add(a, qb) k = MatMul(x, kw) c = MatMul(x, vw) v = Add(c, vb) d = Cast <to = 1> (m) "
        f"s = Sub(one, d) l = Mul(s, low) o = Expand(l, e) y = {attention} }}",
        23,
    )
    random = np.random.default_rng(0)
    for name in ("qw", "kw", "vw", "qb", "vb"):
        dims = (features,) if name.endswith("b") else (features, features)
        weight = random.standard_normal(dims).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


STANDARD = "Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)"
MASKED = "Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v, o)"
CONTRIB = "com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, , , o)"


@pytest.mark.parametrize("attributes", ["<num_heads = 0>", "<num_heads = -1>", ""])
def test_an_invalid_number_of_heads(attributes: str) -> None:
    before = layer("b,3", f"com.microsoft.MultiHeadAttention {attributes} (q, k, v)")
    after = optimize(before, patterns="PackedAttention", strict=True)
    assert "MultiHeadAttention" in types(after)


@pytest.mark.parametrize(
    ("shape", "attention"),
    [("2,3", STANDARD), ("1,3", MASKED), ("2,3", MASKED), ("b,3", CONTRIB), ("9,3", CONTRIB)],
)
def test_small_layers_are_packed(shape: str, attention: str) -> None:
    before = layer(shape, attention)
    after = optimize(before, patterns="PackedAttention")
    assert types(after).count("Attention") == 1
    assert "MatMul" not in types(after)
    assert verify(before, after).status == "equal"


@pytest.mark.parametrize(
    ("shape", "attention", "features"),
    [
        ("b,3", STANDARD, 4),
        ("3,3", STANDARD, 4),
        ("1,s", STANDARD, 4),
        ("1,129", STANDARD, 4),
        ("1,129", CONTRIB.replace(", , , o", ""), 4),
        ("1,3", STANDARD, 258),
        ("1,3", "Attention <q_num_heads = 2, kv_num_heads = 2, is_causal = 1> (q, k, v)", 4),
        ("1,3", "Attention <q_num_heads = 2, kv_num_heads = 2, scale = 0.0> (q, k, v)", 4),
        ("1,3", "Attention <q_num_heads = 2, kv_num_heads = 2> (k, k, v)", 4),
    ],
)
def test_layers_for_which_it_is_slower_or_different(
    shape: str, attention: str, features: int
) -> None:
    assert "MatMul" in types(
        optimize(layer(shape, attention, features), patterns="PackedAttention")
    )


STEP = "0.99999994"


def masked(mask: str, shape: str = "1,1,3,3", attention: str = MASKED) -> onnx.ModelProto:
    """Attention after one linear layer, with a mask ``o`` that is made from ``m``."""
    model = parse(
        f"agraph (float[2,3,4] x, float[{shape}] m) => (float[2,3,4] y) <float step = {{{STEP}}}, "
        "float low = {-3.4028235e38}, "
        "float zero = {0}, int64[1] last = {-1}, int64[1] third = {2}, int64[2] front = {0, 1}> { "
        f"a = MatMul(x, w) c = Add(a, b) q, k, v = Split <axis = 2, num_outputs = 3> (c) {mask} "
        f"y = {attention} }}",
        23,
    )
    random = np.random.default_rng(0)
    for name, dims in (("w", (4, 12)), ("b", (12,))):
        weight = random.standard_normal(dims).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


MARK = "h = ReduceMax(m, last) i = Mul(h, zero) j = Add(i, step) o = Mul(m, j)"
MARK_OF_FEWER_AXES = (
    "u = Unsqueeze(m, front) h = ReduceMax(u, last) i = Mul(zero, h) j = Add(step, i) o = Mul(j, m)"
)


@pytest.mark.parametrize(
    ("mask", "shape", "count"),
    [
        (MARK, "1,1,3,3", 1),
        (MARK_OF_FEWER_AXES, "3,3", 2),
        ("n = IsNaN(m) p = Where(n, low, zero) o = Mul(step, p)", "1,1,3,3", 3),
    ],
)
def test_masks_with_a_factor_are_read_without_it(mask: str, shape: str, count: int) -> None:
    """A row of infinities or of the lowest number gives what the formula gives."""
    before = masked(mask, shape)
    after = optimize(before, patterns="PackedAttention")
    assert types(after)[-1] == "Attention"
    assert len(types(after)) == count
    random = np.random.default_rng(0)
    rows = random.standard_normal([3, 3]).astype(np.float32)
    for number in (0, np.finfo(np.float32).min, -np.inf, np.nan):
        rows[1] = number
        m = rows.reshape([int(size) for size in shape.split(",")])
        feeds = {"x": random.standard_normal((2, 3, 4)).astype(np.float32), "m": m}
        expected, y = (session(model).run(None, feeds)[0] for model in (before, after))
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "mask",
    [
        "o = Mul(m, zero)",
        "o = Mul(m, step)",
        MARK.replace("m, last", "m, third"),
        MARK.replace("ReduceMax", "ReduceMin"),
        MARK.replace("(i, step)", "(i, i)"),
        MARK.replace("(h, zero)", "(h, step)"),
        MARK.replace("(h, zero)", "(h, h)"),
        MARK.replace("h = ReduceMax(m", "t = Transpose <perm = [0, 1, 3, 2]> (m) h = ReduceMax(t"),
    ],
)
def test_other_factors_stay(mask: str) -> None:
    assert "MatMul" in types(optimize(masked(mask), patterns="PackedAttention"))


@pytest.mark.parametrize(
    "attention", [MASKED.replace("q, k, v", "q, q, v"), MASKED.replace("q, k, v", "q, k, x")]
)
def test_parts_of_a_linear_layer_that_others_read(attention: str) -> None:
    before = masked(MARK, attention=attention)
    assert "MatMul" in types(optimize(before, patterns="PackedAttention"))


@pytest.mark.parametrize("dtype", ["bool", "int32"])
def test_masks_of_other_types_stay(dtype: str) -> None:
    attention = f"Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v, {dtype})"
    before = layer("1,3", attention)
    mask = numpy_helper.from_array(np.ones((1, 1, 3, 3), dtype), dtype)
    before.graph.initializer.append(mask)
    assert types(optimize(before, patterns="PackedAttention", strict=True)).count("MatMul") == 3


@pytest.mark.parametrize(
    ("formula", "bound"),
    [
        ("Cast <to = 1> (b)", 1),
        ("Cast <to = 1> (i)", 2.0**31),
        ("Mul(d, k)", 3),
        ("Sub(d, k)", 4),
        ("Where(b, d, low)", 1e4),
        ("Add(f, d)", np.inf),
        ("Exp(f)", np.inf),
    ],
)
def test_bounds_of_masks(formula: str, bound: float) -> None:
    model = load(
        "agraph (bool[n] b, int32[n] i, float[n] f) => (float[n] y) "
        "<float[2] k = {-3, 2}, float low = {-10000}> "
        f"{{ d = Cast <to = 1> (b) y = {formula} }}"
    )
    assert magnitude_of(GraphView(model.graph), "y") == bound
