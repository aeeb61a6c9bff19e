"""One position of a depthwise convolution is the sum over its window."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.support import parse, run
from xoptim import optimize

SLICE = "int64[1] start = {{{}}}, int64[1] end = {{{}}}, int64[1] two = {{2}}"


def operators(model: onnx.ModelProto) -> set[str]:
    """The operators of a model after the pattern; its results are equal up to rounding."""
    after = optimize(model, patterns="DepthwiseConvPosition", strict=True)
    rng = np.random.default_rng(0)
    shapes = {
        each.name: [size.dim_value or 2 for size in each.type.tensor_type.shape.dim]
        for each in model.graph.input
    }
    feeds = {name: rng.normal(size=size).astype(np.float32) for name, size in shapes.items()}
    for expected, actual in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    return {node.op_type for node in after.graph.node}


def sliced(bounds: Sequence[int], attributes: str = "group = 64", weights: str = "64,1,4") -> str:
    """A model that uses a part of the result of a convolution of 8 positions."""
    return (
        f"agraph (float[n,64,8] x, float[{weights}] w) => (y) <{SLICE.format(*bounds)}> "
        f"{{ t = Conv <{attributes}> (x, w) y = Slice(t, start, end, two) }}"
    )


@pytest.mark.parametrize(
    "text",
    [
        sliced((-1, 2**63 - 1)),
        sliced((0, 1)),
        sliced((2, 3)),
        sliced((3, 4), "group = 64, pads = [3, 0]"),
        sliced((-4, -3), "group = 64, pads = [0, 3]"),
    ],
)
def test_one_position(text: str) -> None:
    assert operators(parse(text)) >= {"Mul", "ReduceSum"}


@pytest.mark.parametrize(
    "text",
    [
        sliced((0, 2)),
        sliced((2, 3), "group = 64, pads = [3, 0]"),
        sliced((5, 6), "group = 64, pads = [0, 3]"),
        sliced((1, 2), "group = 64, strides = [2]"),
        sliced((1, 2), "group = 64, dilations = [2]"),
        sliced((1, 2), 'group = 64, auto_pad = "SAME_UPPER"'),
        sliced((1, 2), "group = 32", "32,2,4"),
        sliced((1, 2), "group = 64", "128,1,4"),
        sliced((1, 2)).replace("64", "32"),  # too few channels to be faster
    ],
)
def test_the_convolution_stays(text: str) -> None:
    assert "Conv" in operators(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        # the operand is shorter than the kernel
        "agraph (float[n,64,1] x, float[64,1,4] w) => (y) "
        "{ y = Conv <group = 64, pads = [3, 0]> (x, w) }",
        "agraph (float[n,64,1] x, float[64,1,4] w) => (y) "
        "{ y = Conv <group = 64, pads = [0, 3]> (x, w) }",
        # p may be 2: then the last window has one position of padding
        "agraph (float[n,64,p] past, float[n,64,1] x, float[64,1,4] w) => (y) "
        f"<{SLICE.format(-1, 2**63 - 1)}> {{ c = Concat <axis = 2> (past, x) "
        "t = Conv <group = 64, pads = [3, 0]> (c, w) y = Slice(t, start, end, two) }",
        # the first window, which another Slice takes from the operand
        "agraph (float[n,64,p] past, float[n,64,1] x, float[64,1,4] w) => (y, z) "
        f"<{SLICE.format(0, 1)}, int64[1] four = {{4}}> {{ c = Concat <axis = 2> (past, x) "
        "z = Slice(c, start, four, two) t = Conv <group = 64, pads = [0, 3]> (c, w) "
        "y = Slice(t, start, end, two) }",
    ],
)
def test_a_window_that_may_reach_into_the_padding(text: str) -> None:
    assert "Conv" in operators(parse(text))


def test_a_result_that_is_read_elsewhere() -> None:
    assert "Conv" in operators(parse(sliced((1, 2)).replace("(y)", "(y, t)")))


def test_the_window_that_is_kept_as_state_is_read() -> None:
    model = parse(
        "agraph (float[n,64,5] x, float[64,1,4] w) => (z, y) "
        "<int64[1] near = {-4}, int64[1] last = {-1}, int64[1] end = {100}, int64[1] two = {2}> { "
        "z = Slice(x, near, end, two) t = Conv <group = 64> (x, w) y = Slice(t, last, end, two) }"
    )
    assert operators(model) == {"Slice", "Squeeze", "Mul", "ReduceSum"}
    after = optimize(model, patterns="DepthwiseConvPosition", strict=True)
    assert sum(node.op_type == "Slice" for node in after.graph.node) == 1
