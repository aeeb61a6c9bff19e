"""Caches that TensorScatter writes are written by ScatterND."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("shapes", [("2,3,8,4", "2,3,2,4"), ("b,3,8,4", "b,3,n,4")])
@pytest.mark.parametrize("start", ["", ", i"])
def test_each_mode_and_start(mode: str, shapes: tuple[str, str], start: str) -> None:
    cache, update = shapes
    model = parse(
        f"agraph (float[{cache}] c, float[{update}] u, int64[b] i) => (float[{cache}] y) "
        f'{{ y = TensorScatter <mode = "{mode}"> (c, u{start}) }}',
        opset=24,
    )
    after = optimize(model, patterns="LowerTensorScatter", strict=True)
    assert "ScatterND" in types(after)
    rng = np.random.default_rng(0)
    c, u = (rng.standard_normal((2, 3, n, 4)).astype(np.float32) for n in (8, 2))
    starts = np.array([0, 7 if mode == "circular" else 6])
    feeds = {"c": c, "u": u, "i": starts}
    (result,) = run(after, feeds)
    expected = c.copy()
    for batch, first in enumerate(starts if start else (0, 0)):
        for step in range(2):
            expected[batch, :, (first + step) % 8] = u[batch, :, step]
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(result, run(model, feeds)[0])


@pytest.mark.parametrize(
    ("cache", "update", "attributes"),
    [
        ("2,h,8,4", "2,h,2,4", ""),  # an unknown dimension before the sequence
        ("2,3,m,4", "2,3,2,4", '<mode = "circular">'),  # an unknown length of the cache
    ],
)
def test_what_is_left(cache: str, update: str, attributes: str) -> None:
    model = parse(
        f"agraph (float[{cache}] c, float[{update}] u, int64[2] i) => (float[{cache}] y) "
        f"{{ y = TensorScatter {attributes} (c, u, i) }}",
        opset=24,
    )
    assert types(optimize(model, patterns="LowerTensorScatter")) == ["TensorScatter"]
