"""Sums of convolutions of one input."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

SHAPES = {
    "small": (4, 4, 1, 1),
    "again": (4, 4, 1, 1),
    "large": (4, 4, 3, 3),
    "row": (4, 4, 1, 3),
    "column": (4, 4, 3, 1),
    "wide": (4, 4, 5, 5),
    "down": (2, 4, 3, 3),
    "up": (4, 2, 1, 1),
    "depth": (4, 1, 3, 3),
    "other": (4, 1, 1, 1),
    "b": (4,),
    "c": (4,),
    "s": (4, 1, 1),
}
_NORMALIZED = "BatchNormalization(x, b1, b2, c, b1)"


def summed(nodes: str, outputs: str = "y") -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    model = parse(f"agraph (float[n,4,6,6] x, float[n,4,6,6] z) => ({outputs}) {{ {nodes} }}")
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}
    values |= {"b1": np.array([1, 2, 3, 4]), "b2": np.array([0.5, 1, -1, 0])}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value.astype(np.float32), name)
        for name, value in values.items()
    )
    after = optimize(model, patterns="ConvConvAdd+ConvBatchNormalization+ConvMul", strict=True)
    feeds = {name: rng.standard_normal((2, 4, 6, 6)).astype(np.float32) for name in "xz"}
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    return after


@pytest.mark.parametrize(
    "nodes",
    [
        "p = Conv(x, small, b) q = Conv(x, again, c) y = Add(p, q)",
        "p = Conv(x, small) q = Conv <pads = [1, 1, 1, 1]> (x, large) y = Add(p, q)",
        "p = Conv(x, small) q = Conv <auto_pad = 'SAME_UPPER'> (x, large) y = Add(p, q)",
        "p = Conv <auto_pad = 'SAME_LOWER'> (x, large) q = Conv(x, small, b) y = Add(p, q)",
        "p = Conv <strides = [2, 2]> (x, small) "
        "q = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, large) y = Add(p, q)",
        "p = Conv <pads = [1, 1, 1, 1]> (x, large) q = Conv <pads = [0, 1, 0, 1]> (x, row) "
        "r = Conv <pads = [1, 0, 1, 0]> (x, column) s1 = Add(p, q) y = Add(r, s1)",
        "p = Conv <pads = [2, 2, 2, 2]> (x, wide) "
        "q = Conv <pads = [2, 2, 2, 2], dilations = [2, 2]> (x, large) y = Add(p, q)",
        "p = Conv <pads = [1, 1, 1, 1], group = 4> (x, depth) q = Conv <group = 4> (x, other) "
        f"r = {_NORMALIZED} s1 = Add(p, q) y = Add(s1, r)",
        "p = Conv(x, small, c) y = Add(x, p)",
        f"p = Conv(x, small) q = {_NORMALIZED} r = Add(p, q) t = Mul(x, s) y = Add(r, t)",
        "p = Conv <pads = [1, 1, 1, 1]> (x, large, b) t = Conv <pads = [1, 1, 1, 1]> (x, down) "
        "q = Conv(t, up) r = Mul(q, s) y = Add(r, p)",
    ],
)
def test_one_convolution_remains(nodes: str) -> None:
    assert types(summed(nodes.replace("'", '"'))) == ["Conv"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # different inputs, strides, paddings, groups
        ("p = Conv(x, small) q = Conv(z, again) y = Add(p, q)", 3),
        ("p = Conv(x, small) q = Conv <pads = [1, 2, 1, 0]> (x, large) y = Add(p, q)", 1),
        ("p = Conv(x, small) q = Conv <pads = [2, 2, 0, 0]> (x, large) y = Add(p, q)", 1),
        ("p = Conv <pads = [0, 1, 0, 1]> (x, row) q = Conv <pads = [1, 0, 1, 0]> (x, column) "
         "y = Add(p, q)", 3),
        ("p = Conv <pads = [2, 2, 2, 2], dilations = [2, 2]> (x, large) "
         "q = Conv <pads = [1, 1, 1, 1]> (x, large) y = Add(p, q)", 3),
        ("p = Conv <group = 4> (x, other) q = Conv(x, small) y = Add(p, q)", 3),
        # the larger window would be computed for more channels than before
        ("t = Conv <pads = [1, 1, 1, 1]> (x, down) q = Conv(t, up) y = Add(q, x)", 3),
        ("t = Conv <pads = [1, 1, 1, 1]> (x, down) q = Conv(t, up) p = Conv(x, small) "
         "y = Add(q, p)", 4),
        # x has another size, or is added after the strides
        ("p = Conv <strides = [2, 2], pads = [3, 3, 2, 2]> (x, small) y = Add(p, x)", 2),
        # the weight would be stored twice
        ("p = Conv(x, small) q = Conv(x, again) r = Conv(z, again) u = Add(p, q) y = Mul(u, r)", 5),
    ],
)  # fmt: skip
def test_others_stay(nodes: str, expected: int) -> None:
    assert len(summed(nodes).graph.node) == expected


def test_a_result_that_is_read_elsewhere_stays() -> None:
    nodes = "p = Conv(x, small) q = Conv(x, again, b) y = Add(p, q)"
    assert len(summed(nodes, "float[n,4,6,6] p, float[n,4,6,6] y").graph.node) == 3
