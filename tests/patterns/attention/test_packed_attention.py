import numpy as np
import onnx
import pytest
from onnx import numpy_helper

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
        ("1,3", "Attention <q_num_heads = 2, kv_num_heads = 2> (k, k, v)", 4),
    ],
)
def test_layers_for_which_it_is_slower_or_different(
    shape: str, attention: str, features: int
) -> None:
    assert "MatMul" in types(
        optimize(layer(shape, attention, features), patterns="PackedAttention")
    )


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
