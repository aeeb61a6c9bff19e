"""Averages of windows that become convolutions, and those that stay."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def rewritten(sizes: tuple[int, ...], attributes: str, opset: int = 22) -> bool:
    """Whether an AveragePool of a tensor of these sizes becomes a convolution.

    The numbers are equal.
    """
    model = parse(
        f"agraph (float[{','.join(map(str, sizes))}] x) => (y) {{ "
        f"y = AveragePool <{attributes}> (x) }}",
        opset,
    )
    after = optimize(model, patterns="AveragePoolConv", strict=True)
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    np.testing.assert_allclose(
        run(after, {"x": x})[0], run(model, {"x": x})[0], rtol=1e-5, atol=1e-6
    )
    return types(after) == ["Conv"]


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        ((2, 3, 64), "kernel_shape = [3], strides = [1]"),
        ((2, 8, 200), "kernel_shape = [4], strides = [3], dilations = [2]"),
        ((2, 8, 99), 'kernel_shape = [4], auto_pad = "NOTSET", ceil_mode = 0'),
        ((1, 3, 9, 9), "kernel_shape = [3, 2], pads = [1, 0, 1, 1], count_include_pad = 1"),
        ((1, 8, 6, 6, 6), "kernel_shape = [2, 2, 2]"),
    ],
)
def test_windows_become_weights(sizes: tuple[int, ...], attributes: str) -> None:
    assert rewritten(sizes, attributes)


@pytest.mark.parametrize(
    ("sizes", "attributes", "opset"),
    [
        ((2, 3, 64), "kernel_shape = [3]", 18),
        ((2, 3, 64), "kernel_shape = [3], pads = [1, 1]", 22),
        ((2, 3, 64), 'kernel_shape = [3], auto_pad = "SAME_UPPER"', 22),
        ((2, 3, 128), "kernel_shape = [3], strides = [2], ceil_mode = 1", 22),
        ((2, 3, 61), "kernel_shape = [3]", 22),
        ((1, 8, 9, 9), "kernel_shape = [2, 2]", 22),
        ((1, 700, 160), "kernel_shape = [100]", 22),
    ],
)
def test_others_stay(sizes: tuple[int, ...], attributes: str, opset: int) -> None:
    assert not rewritten(sizes, attributes, opset)
