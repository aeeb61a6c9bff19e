"""Bounds that leave nothing but zeros stay apart: which zero comes out depends on the order."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def clipped(*bounds: int) -> onnx.ModelProto:
    """Two Clips, the lower and the upper bound of each."""
    stored = ", ".join(f"float {n} = {{{v}}}" for n, v in zip("abcd", bounds, strict=True))
    return parse(
        f"agraph (float[n] x) => (float[n] y) <{stored}> {{ t = Clip(x, a, b) y = Clip(t, c, d) }}"
    )


@pytest.mark.parametrize("bounds", [(-1, 0, 0, 1), (0, 1, -1, 0)])
def test_the_sign_of_zeros_is_kept(bounds: tuple[int, ...]) -> None:
    after = optimize(clipped(*bounds), patterns=["ClipClip"])
    assert types(after) == ["Clip", "Clip"]


@pytest.mark.parametrize("bounds", [(-2, 2, -1, 1), (-2, 2, 0, 1), (-1, 2, -2, 0)])
def test_bounds_that_leave_more_become_one(bounds: tuple[int, ...]) -> None:
    model = clipped(*bounds)
    after = optimize(model, patterns=["ClipClip"])
    assert types(after) == ["Clip"]
    x = np.array([-3, -1.5, -0.0, 0.0, 0.5, 3, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(run(model, {"x": x}), run(after, {"x": x}))
