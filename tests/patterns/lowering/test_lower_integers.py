"""Integers of 64 bits are computed in 32 bits only where 32 bits hold them."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


@pytest.mark.parametrize("reduction", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("pattern", ["LowerIntegers", "LowerMod"])
def test_the_largest_of_no_positions(reduction: str, pattern: str) -> None:
    """Without an element that is not 0, the result is the lowest integer, or the greatest one."""
    operator = "Add" if pattern == "LowerIntegers" else "Mod"
    model = parse(
        "agraph (float[n] x) => (int64 y) <int64 k = {3}> { z = NonZero(x) "
        f"m = {reduction} <keepdims = 0> (z) y = {operator}(m, k) }}"
    )
    after = optimize(model, patterns=[pattern], strict=True)
    for row in ([0, 0, 0], [0, 1, 1]):
        feeds = {"x": np.array(row, np.float32)}
        np.testing.assert_array_equal(run(after, feeds)[0], run(model, feeds)[0])


def test_the_largest_of_positions() -> None:
    text = (
        "agraph (bool[n] x) => (int64 y) <int64 k = {3}> { z = Cast <to = 7> (x) "
        "m = ReduceMax <keepdims = 0> (z) y = Add(m, k) }"
    )
    after = optimize(parse(text), patterns=["LowerIntegers"], strict=True)
    assert types(after) == ["Cast", "ReduceMax", "Cast", "Add", "Cast"]
