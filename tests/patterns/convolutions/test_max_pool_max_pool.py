"""Windows of MaxPool within one another."""

import numpy as np
import pytest

from tests.support import parse, run
from xoptim import optimize

X = np.random.default_rng(0).standard_normal((1, 2, 15, 15)).astype(np.float32)


def rewritten(first: str, second: str) -> bool:
    """Whether the second window is computed from the first one; the numbers are equal."""
    model = parse(
        f"agraph (float[1,2,15,15] x) => (a, b) {{ a = MaxPool <{first}> (x) "
        f"b = MaxPool <{second}> (x) }}"
    )
    after = optimize(model, patterns="MaxPoolMaxPool", strict=True)
    for expected, got in zip(run(model, {"x": X}), run(after, {"x": X}), strict=True):
        np.testing.assert_array_equal(got, expected)
    return after.graph.node[1].input[0] != "x"


FIVE = "kernel_shape = [5, 5], pads = [2, 2, 2, 2]"
NINE = "kernel_shape = [9, 9], pads = [4, 4, 4, 4]"
NINE_IN_OTHER_WORDS = (
    'kernel_shape = [9, 9], auto_pad = "SAME_UPPER", strides = [1, 1], dilations = [1, 1]'
)


@pytest.mark.parametrize("second", [NINE, NINE_IN_OTHER_WORDS])
def test_the_wide_window_is_computed_from_the_narrow_one(second: str) -> None:
    assert rewritten(FIVE, second)


@pytest.mark.parametrize(
    "second",
    [
        f'{NINE}, auto_pad = "VALID"',
        f"{NINE}, strides = [2, 2]",
        f"{NINE}, dilations = [2, 2]",
        "kernel_shape = [9, 9], pads = [3, 3, 4, 4]",
        "kernel_shape = [8, 8], pads = [4, 4, 3, 3]",
        "kernel_shape = [3, 9], pads = [1, 4, 1, 4]",
    ],
)
def test_other_windows_stay(second: str) -> None:
    assert not rewritten(FIVE, second)
