import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize

SPLIT = "d = DequantizeLinear(x, s, z) p, q = Split <axis = 1> (d, k) "


@pytest.mark.parametrize(
    ("body", "alone"),
    [
        (SPLIT + "y = QuantizeLinear(p, s, z) v = QuantizeLinear(q, s, z)", True),
        (SPLIT + "y = QuantizeLinear(p, s, z) v = QuantizeLinear(q, s2, z)", False),
        (SPLIT + "y = QuantizeLinear(p, s, z) r = Relu(q) v = QuantizeLinear(r, s, z)", False),
        (SPLIT + "y = QuantizeLinear(p, s, z) v = QuantizeLinear(q, s, z) o = Exp(q)", False),
        (
            SPLIT.replace("x, s, z", "x, s4")
            + "y = QuantizeLinear(p, s, z) v = QuantizeLinear(q, s, z)",
            False,
        ),
    ],
)
def test_parts(body: str, alone: bool) -> None:
    more = ", float[n,c] o" if "o =" in body else ""
    before = parse(
        f"agraph (uint8[n,5] x) => (uint8[n,a] y, uint8[n,b] v{more}) <float s = {{0.1}}, "
        "float s2 = {0.2}, uint8 z = {9}, float s4 = {0.4}, int64[2] "
        f"k = {{2, 3}}> {{ {body} }}"
    )
    after = optimize(before, patterns="DequantizeLinearSplit", strict=True)
    assert types(after) == (["Split"] if alone else types(before))
    x = np.arange(255, dtype=np.uint8).reshape(-1, 5)
    for expected, found in zip(run(before, {"x": x}), run(after, {"x": x}), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op_type", ["Split", "Reshape"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_pairs_of_int8_stay_together(dtype: str, op_type: str) -> None:
    """onnxruntime changes such pairs to uint8."""
    move = (
        "p, q = Split <axis = 1, num_outputs = 2> (d)"
        if op_type == "Split"
        else "p = Reshape(d, k) q = Flatten(d)"
    )
    before = parse(
        "agraph (float[n,4] x) => (float[a,b] y, float[c,e] v) <float s = {0.1}, "
        f"{dtype} z = {{9}}, int64[2] k = {{-1, 2}}> {{ f = QuantizeLinear(x, s, z) "
        f"d = DequantizeLinear(f, s, z) {move} g = QuantizeLinear(p, s, z) "
        "h = QuantizeLinear(q, s, z) y = DequantizeLinear(g, s, z) v = DequantizeLinear(h, s, z) }"
    )
    after = optimize(
        before, patterns="DequantizeLinearSplit+DequantizeLinearQuantizeLinear", strict=True
    )
    assert types(after).count("QuantizeLinear") == (3 if dtype == "int8" else 1)
