"""A Pad that several operators read."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def padded(readers: str, outputs: str = "y, z") -> str:
    """A model that pads with zeros, and two readers of the padded tensor t."""
    return (
        f"agraph (float[n,2,h,h] x, float[2,2,3,3] w) => ({outputs}) "
        f"<int64[8] p = {{0, 0, 1, 2, 0, 0, 2, 1}}> {{ t = Pad(x, p) {readers} }}"
    )


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        (padded("y = Conv(t, w) z = Conv <strides = [2, 2]> (t, w)"), True),
        (padded("y = Conv(t, w) z = AveragePool <kernel_shape = [4, 4]> (t)"), True),
        (padded("y = Conv(t, w) z = Relu(t)"), False),
        (padded("y = Conv(t, w) z = Conv(t, w)", "y, z, t"), False),
    ],
)
def test_readers(text: str, removed: bool) -> None:
    """The Pad goes where all of its readers can pad; else nothing changes."""
    model = parse(text)
    after = optimize(model, patterns=["PadConv", "PadAveragePool"], strict=True)
    assert ("Pad" not in {node.op_type for node in after.graph.node}) == removed
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.normal(size=(1, 2, 7, 7)).astype(np.float32),
        "w": rng.normal(size=(2, 2, 3, 3)).astype(np.float32),
    }
    for expected, actual in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_no_pads() -> None:
    model = parse(
        "agraph (float[n,2,h] x, float[2,2,3] w) => (float[n,2,k] y) "
        "<int64[0] p = {}, int64[0] a = {}> { t = Pad(x, p, , a) y = Conv(t, w) }"
    )
    assert types(optimize(model, patterns="PadConv", strict=True)) == ["Conv"]


@pytest.mark.parametrize(
    ("counts", "operators"), [(0, ["Pad", "AveragePool"]), (1, ["AveragePool"])]
)
def test_padding_that_a_pool_does_not_count_stays_apart(counts: int, operators: list[str]) -> None:
    """The Pad counts as zeros, and so it cannot join padding that does not count."""
    model = parse(
        "agraph (float[n,c,8] x) => (float[n,c,k] y) <int64[6] p = {0, 0, 1, 0, 0, 1}> "
        "{ t = Pad(x, p) y = AveragePool <kernel_shape = [4], strides = [1], pads = [1, 1], "
        f"count_include_pad = {counts}> (t) }}"
    )
    after = optimize(model, patterns=["PadAveragePool"])
    assert types(after) == operators
