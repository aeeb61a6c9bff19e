"""The first columns of a matrix, taken by positions in its rows one after the other."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize

COLUMNS = """agraph (bool[b,t] m, bool[b,p] past, bool[b,s] new) => (bool[b,1,1,n,1] y)
<int64 o = {0}, int64 i = {1}, int64[3] j = {1, 2, 3}, int64[3] l = {0, 1, 2}, int64[1] k = {0}> {
    h = Shape(m) b = Gather(h, o) c = Gather(h, i) g = Shape(past) p = Gather(g, i) a = Shape(new)
      s = Gather(a, i)
    n = Add(p, s) f = Flatten <axis = 2> (m) r = Range(o, b, i) u = Unsqueeze(r, j)
      w = Range(o, n, i) v = Unsqueeze(w, l)
    z = Mul(u, c) t = Add(z, v) y = Gather(f, t)
}"""


def test_the_mask_of_earlier_and_new_tokens() -> None:
    before = parse(COLUMNS)
    after = optimize(before)
    assert "Gather" not in types(after)
    assert types(after).count("Slice") == 1
    rng = np.random.default_rng(0)
    for batch, total, past, new in ((1, 5, 0, 5), (3, 9, 4, 2), (2, 3, 2, 1)):
        feeds = {
            name: rng.integers(0, 2, size=(batch, size)).astype(bool)
            for name, size in (("m", total), ("past", past), ("new", new))
        }
        np.testing.assert_array_equal(run(after, feeds)[0], run(before, feeds)[0])


def test_more_columns_than_there_are_fail_before_too() -> None:
    feeds = {
        name: np.ones((2, size), dtype=bool) for name, size in (("m", 3), ("past", 2), ("new", 2))
    }
    with pytest.raises(Exception, match="out of data bounds"):
        run(parse(COLUMNS), feeds)


def test_a_fixed_number_of_columns_is_not_cut() -> None:
    before = parse(COLUMNS.replace("bool[b,t] m", "bool[b,7] m"))
    assert "Gather" in types(optimize(before))


def test_more_columns_of_indices_than_axes() -> None:
    """The model is invalid."""
    model = parse(
        "agraph (int64[b,c] ids, float[d] x, bool[b] p, bool[c] q) => (float[b,c] y) "
        "<int64 i = {0}, int64 j = {1}, int64[1] k = {-1}> { s = Shape(ids) n = Size(p) "
        "m = Size(q) r = Range(i, n, j) c = Range(i, m, j) u = Unsqueeze(r, k) v = Expand(u, s) "
        "w = Expand(c, s) f = Unsqueeze(v, k) h = Unsqueeze(w, k) "
        "t = Concat <axis = -1> (f, h) y = GatherND(x, t) }"
    )
    assert "GatherND" in types(optimize(model, patterns="GatherNDGrid", strict=True))


def test_rows_that_may_be_stretched() -> None:
    """All rows of the result are the first row of x if k is 1."""
    before = parse(
        "agraph (float[3,m] x, float[k] z) => (float[3,m] y) <int64 o = {0}, int64 i = {1}, "
        "int64[1] a = {0}, int64[1] b = {1}, int64[1] c = {3}, int64[1] d = {-1}> { "
        "f = Reshape(x, d) h = Shape(x) m = Gather(h, i) w = Gather(h, b) e = Concat <axis = 0> "
        "(c, w) k = Size(z) r = Range(o, k, i) u = Unsqueeze(r, b) p = Mul(u, m) "
        "q = Range(o, m, i) v = Expand(q, e) t = Add(p, v) y = Gather(f, t) }"
    )
    after = optimize(before, patterns="GatherGrid", strict=True)
    assert "Gather" in types(after)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for size in (1, 3):
        feeds = {"x": x, "z": np.zeros(size, np.float32)}
        np.testing.assert_array_equal(run(after, feeds)[0], run(before, feeds)[0])
