"""Causal convolutions whose length is a symbolic dimension."""

import numpy as np
import pytest

from tests.support import parse, run
from xoptim import optimize

MODEL = parse(
    "agraph (float[n,2,t] x, float[2,1,4] w) => (float[n,2,t] y) "
    "<int64[1] o = {0}, int64[1] k = {2}> { e = Shape <start = 2> (x) "
    "c = Conv <group = 2, pads = [3, 3]> (x, w) y = Slice(c, o, e, k) }"
)


@pytest.mark.parametrize(("assumed", "removed"), [((), False), (("t >= 1",), True)])
def test_a_length_that_may_be_0(assumed: tuple[str, ...], removed: bool) -> None:
    """Without elements, onnxruntime computes the padded convolution and refuses the other one."""
    after = optimize(MODEL, patterns="ConvSlice", assume=assumed)
    assert all(node.op_type != "Slice" for node in after.graph.node) == removed
    rng = np.random.default_rng(0)
    for length in range(1 if removed else 0, 6):
        feeds = {
            "x": rng.normal(size=(1, 2, length)).astype(np.float32),
            "w": rng.normal(size=(2, 1, 4)).astype(np.float32),
        }
        for expected, actual in zip(run(MODEL, feeds), run(after, feeds), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
