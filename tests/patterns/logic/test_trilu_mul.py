"""Products of a triangle and a comparison of row and column indices."""

import numpy as np

from tests.support import parse, run, types
from xoptim import optimize


def test_rows_that_may_be_stretched() -> None:
    """If k is 1, all rows of the mask are the first row."""
    before = parse(
        "agraph (float[3,m] x, float[k] z) => (float[3,m] y) <int64 o = {0}, int64 i = {1}, "
        "int64[1] b = {1}, int64[1] c = {3}> { h = Shape(x) m = Gather(h, i) w = Gather(h, b) "
        "e = Concat <axis = 0> (c, w) k = Size(z) r = Range(o, k, i) u = Unsqueeze(r, b) "
        "q = Range(o, m, i) v = Expand(q, e) s = LessOrEqual(v, u) n = Cast <to = 1> (s) "
        "t = Trilu <upper = 0> (x) y = Mul(t, n) }"
    )
    after = optimize(before, patterns="TriluMul", strict=True)
    assert "Mul" in types(after)
    x = np.ones((3, 4), np.float32)
    for size in (1, 3):
        feeds = {"x": x, "z": np.zeros(size, np.float32)}
        np.testing.assert_array_equal(run(after, feeds)[0], run(before, feeds)[0])
