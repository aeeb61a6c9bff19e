"""Slices of padded tensors."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_VECTORS = (
    "int64[6] p = {0, 1, 2, 0, 1, 2}, int64[2] two = {1, 2}, int64[4] q = {1, 2, 1, 2}, "
    "int64[1] one = {1}, int64[1] end = {-1}, int64[1] k = {2}, int64[1] three = {3}, "
    "int64[1] far = {9223372036854775807}, int64[2] inner = {1, 2}, int64[2] outer = {-1, -2}"
)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("t = Pad(x, p) y = Slice(t, one, end, k)", ["Pad"]),
        ("t = Pad(x, p) y = Slice(t, inner, outer, two)", []),
        ('t = Pad <mode = "edge"> (x, q, , two) y = Slice(t, inner, outer, two)', []),
        ("t = Pad(x, p) y = Slice(t, one, far, k)", ["Pad"]),
        ("t = Pad(x, p) s = Slice(t, inner, outer, two) y = Slice(s, one, end, k)", ["Slice"]),
        # pads remain next to a Slice, or in another mode; steps; another consumer
        ("t = Pad(x, p) y = Slice(t, three, end, k)", ["Pad", "Slice"]),
        ('t = Pad <mode = "edge"> (x, p) y = Slice(t, one, end, k)', ["Pad", "Slice"]),
        ("t = Pad(x, p) y = Slice(t, one, end, k, k)", ["Pad", "Slice"]),
        ("t = Pad(x, p) s = Slice(t, one, end, k) m = ReduceMax(t) y = Mul(s, m)",
         ["Pad", "Slice", "ReduceMax", "Mul"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", ["6", "w"])
def test_the_padding_that_is_dropped(nodes: str, expected: list[str], size: str) -> None:
    model = parse(f"agraph (float[n,4,{size}] v) => (y) <{_VECTORS}> {{ x = Neg(v) {nodes} }}")
    after = optimize(model, patterns="PadSlice+SliceSlice", strict=True)
    feeds = {"v": np.random.default_rng(0).standard_normal((2, 4, 6)).astype(np.float32)}
    for before, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(result, before)
    assert types(after) == ["Neg", *expected]


@pytest.mark.parametrize("operands", ["inner, end, k", "one, end, inner", "one, end, far"])
def test_an_invalid_slice_stays(operands: str) -> None:
    """Two starts for one axis, two axes for one start, an axis that is not there."""
    model = parse(
        f"agraph (float[n,4,6] x) => (y) <{_VECTORS}> {{ t = Pad(x, p) y = Slice(t, {operands}) }}"
    )
    after = optimize(model, patterns="PadSlice", strict=True)
    assert types(after) == ["Pad", "Slice"]


def test_a_pad_without_axes() -> None:
    model = parse(
        f"agraph (float[n,4,6] x) => (y) <int64[0] none = {{}}, {_VECTORS}> {{ "
        "t = Pad(x, none, , none) y = Slice(t, one, end, k) }"
    )
    after = optimize(model, patterns="PadSlice", strict=True)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 4, 6)).astype(np.float32)}
    np.testing.assert_array_equal(run(after, feeds)[0], run(model, feeds)[0])
