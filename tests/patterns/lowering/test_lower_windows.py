"""Convolutions and pooling in other forms: attributes that the forms do not have."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def test_the_size_of_a_row() -> None:
    """``output_shape`` of an image with one line would need two numbers."""
    model = parse(
        "agraph (float[1,2,5] x, float[2,3,4] w) => (float[1,3,11] y) { "
        "y = ConvTranspose <strides = [2], output_shape = [11]> (x, w) }"
    )
    after = optimize(model, patterns=["LowerRowConvTranspose"], strict=True)
    assert types(after) == ["ConvTranspose"]


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("rule", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_pads_of_windows_with_dilations(operator: str, rule: str) -> None:
    model = parse(
        f'agraph (float[1,1,6,5] x) => (float[1,1,h,w] y) {{ y = {operator} <auto_pad = "{rule}", '
        "kernel_shape = [3, 2], strides = [2, 1], dilations = [2, 2]> (x) }",
        opset=19,
    )
    after = optimize(model, patterns=[f"LowerAutoPad{operator}"], strict=True)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 1, 6, 5)).astype(np.float32)}
    np.testing.assert_array_equal(run(after, feeds)[0], run(model, feeds)[0])
    is_written = all(name.name != "auto_pad" for name in after.graph.node[0].attribute)
    assert is_written == (rule == "VALID")


@pytest.mark.parametrize(
    ("pattern", "call"),
    [
        ("LowerNhwcMaxPool", "NhwcMaxPool <kernel_shape = [1, 1, 1, 1]> (x)"),
        ("LowerQLinearGlobalAveragePool", "QLinearGlobalAveragePool(x, s, u, s, u)"),
    ],
)
def test_four_axes(pattern: str, call: str) -> None:
    """The standard operators pool along three axes at most."""
    model = parse(
        "agraph (uint8[2,2,2,2,2,4] x) => (uint8[a,b,c,d,e,f] y) <float s = {0.5}, uint8 u = {3}> "
        f"{{ y = com.microsoft.{call} }}",
        domains={"com.microsoft": 1},
    )
    after = optimize(model, patterns=[pattern], strict=True)
    assert [node.domain for node in after.graph.node] == ["com.microsoft"]
