"""Two Resizes of different axes."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("1, 1, 2, 1", "1, 1, 1, 3", 1),
        ("1, 2, 1, 1", "1, 1, 3, 1", 1),  # an image with channels last
        # onnxruntime refuses both scales in one Resize, the second pair for cubic only
        ("1, 2, 1, 1", "1, 1, 1, 3", 2),
        ("1, 2, 1, 1", "1, 1, 0.5, 1", 2),
    ],
)
def test_interpolation(mode: str, first: str, second: str, count: int) -> None:
    resize = f'Resize <mode = "{mode}">'
    before = parse(
        f"agraph (float[1,2,4,5] x) => (y) <float[4] s = {{{first}}}, float[4] r = {{{second}}}> "
        f"{{ t = {resize} (x, , s) y = {resize} (t, , r) }}"
    )
    after = optimize(before, patterns="LinearResizeResize", strict=True)
    assert types(after) == ["Resize"] * count
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 2, 4, 5)).astype(np.float32)}
    np.testing.assert_allclose(run(after, feeds)[0], run(before, feeds)[0], rtol=1e-4, atol=1e-5)
