"""Softmax subtracts the maximum itself."""

import numpy as np
import pytest

from tests.support import parse, run
from xoptim import optimize


def sinks(axis: int) -> str:
    """Attention with sinks, as GPT-OSS is exported; the maximum is taken along an axis."""
    return (
        "agraph (float[n,2,s,t] x, float[n,2,s,1] e) => (y) "
        f"<int64[1] axis = {{{axis}}}, int64[1] o = {{0}}, int64[1] l = {{-1}}, "
        "int64[1] k = {3}> { c = Concat <axis = -1> (x, e) m = ReduceMax(c, axis) "
        "d = Sub(c, m) p = Softmax(d) y = Slice(p, o, l, k) }"
    )


@pytest.mark.parametrize(
    ("axis", "assumed", "count"),
    [(-1, ("finite",), 3), (3, ("finite",), 3), (2, ("finite",), 5), (-1, (), 5)],
)
def test_the_maximum(axis: int, assumed: tuple[str, ...], count: int) -> None:
    model = parse(sinks(axis))
    after = optimize(model, assume=assumed)
    assert len(after.graph.node) == count
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.normal(size=(1, 2, 3, 4)).astype(np.float32),
        "e": rng.normal(size=(1, 2, 3, 1)).astype(np.float32),
    }
    for expected, actual in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
