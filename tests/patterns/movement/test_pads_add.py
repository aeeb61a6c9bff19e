import numpy as np
import pytest

import xoptim
from tests.support import parse, run, types


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("0, 0, 0, 5", "0, 3, 0, 0", True),
        ("0, 5, 0, 0", "0, 0, 0, 3", True),
        ("0, 0, 0, 6", "0, 4, 0, 0", False),  # a gap
        ("0, 0, 0, 4", "0, 2, 0, 0", False),  # an overlap
        ("0, 1, 0, 4", "0, 3, 0, 0", False),  # padded at both ends
        ("0, 0, 0, 5", "0, 0, 0, 3", False),  # from the same start
        ("1, 0, 0, 5", "1, 3, 0, 0", False),  # rows too
    ],
)
def test_parts_that_meet(first: str, second: str, joined: bool) -> None:
    model = parse(
        "agraph (float[2,3] x, float[2,5] z) "
        f"=> (float[r,n] y) <int64[4] p = {{{first}}}, int64[4] q = {{{second}}}> {{ s = Pad(x, p) "
        "t = Pad(z, q) y = Add(t, s) }"
    )
    found = xoptim.optimize(model, strict=True)
    assert types(found) == (["Concat"] if joined else ["Pad", "Pad", "Add"])
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((2, 3)).astype(np.float32),
        "z": rng.standard_normal((2, 5)).astype(np.float32),
    }
    np.testing.assert_array_equal(run(found, feeds)[0], run(model, feeds)[0])


@pytest.mark.parametrize("padding", ['<mode = "edge"> (x, p)', "(x, p, one)"])
def test_other_padding_stays(padding: str) -> None:
    model = parse(
        "agraph (float[2,3] x, float[2,5] z) "
        "=> (float[2,8] y) <int64[4] p = {0, 0, 0, 5}, int64[4] q = {0, 3, 0, 0}, "
        f"float one = {{1}}> {{ s = Pad {padding} t = Pad(z, q) y = Add(s, t) }}"
    )
    assert "Concat" not in types(xoptim.optimize(model))
