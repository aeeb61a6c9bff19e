import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize

ALONE = "ReluQuantizeLinear"


@pytest.mark.parametrize(
    ("body", "dtype", "dropped"),
    [
        ("t = Relu(x) y = QuantizeLinear(t, s, u)", "uint8", True),
        ("t = Relu(x) y = QuantizeLinear(t, s, i)", "int8", True),
        ("t = Clip(x, , far) y = QuantizeLinear(t, s, i)", "int8", True),
        ("t = Clip(x, nought, six) y = QuantizeLinear(t, fine, u)", "uint8", True),
        ("t = Clip(x, nought, six) y = QuantizeLinear(t, s, u)", "uint8", False),
        ("t = Clip(x, six) y = QuantizeLinear(t, s, u)", "uint8", False),
        ("t = Clip(x, nan, far) y = QuantizeLinear(t, s, u)", "uint8", False),
        ("t = Relu(x) y = QuantizeLinear(t, s, one)", "uint8", False),
        ("t = Relu(x) y = QuantizeLinear(t, minus, u)", "uint8", False),
        ("t = Relu(x) y = QuantizeLinear(t, s, w)", "uint16", False),
    ],
)
def test_bounds(body: str, dtype: str, dropped: bool) -> None:
    """A bound is dropped where all integers beyond it are at an end anyway, infinities and NaN
    included.
    """
    before = parse(
        f"agraph (float[n] x) => ({dtype}[n] y) <float s = {{0.1}}, float fine = {{0.0235}}, "
        "float minus = {-0.1}, uint8 u = {0}, uint8 one = {1}, int8 i = {-128}, uint16 "
        "w = {0}, float nought = {0}, float six = {6}, float far = {99}, float "
        f"nan = {{nan}}> {{ {body} }}",
        opset=21,
    )
    after = optimize(before, patterns=ALONE, strict=True)
    assert types(after) == (["QuantizeLinear"] if dropped else types(before))
    x = np.concatenate(
        [np.linspace(-30, 30, 1001), [np.nan, np.inf, -np.inf, -0.0, 3e38, -3e38]]
    ).astype(np.float32)
    np.testing.assert_array_equal(run(after, {"x": x})[0], run(before, {"x": x})[0])
