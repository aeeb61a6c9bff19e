"""Convolutions of one input that a Concat joins."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

SHAPES = {
    "u": (2, 2, 1, 1),
    "v": (3, 2, 1, 1),
    "w": (2, 2, 3, 3),
    "narrow": (1, 2, 1, 1),
    "b": (2,),
    "c": (3,),
}


def joined(nodes: str, outputs: str = "y") -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    model = parse(f"agraph (float[n,2,5,5] x, float[n,2,5,5] z) => ({outputs}) {{ {nodes} }}")
    rng = np.random.default_rng(0)
    for name, shape in SHAPES.items():
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        )
    after = optimize(model, patterns="ConvConcat", strict=True)
    given = {name: rng.standard_normal((2, 2, 5, 5)).astype(np.float32) for name in "xz"}
    for expected, got in zip(run(model, given), run(after, given), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    return after


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("p = Conv(x, u) q = Conv(x, v, c) y = Concat <axis = -3> (p, q)", ["Conv"]),
        (
            (
                "p = Conv(x, u, b) q = Conv <kernel_shape = [1, 1]> (x, v, c) r = Relu(p) "
                "s = Relu(q) y = Concat <axis = 1> (r, s)"
            ),
            ["Conv", "Relu"],
        ),
        ("p = Conv(x, u) q = Conv(x, v) y = Concat <axis = 1> (p, q, z)", ["Conv", "Concat"]),
    ],
    ids=["a bias", "an activation", "another part"],
)
def test_joined(nodes: str, expected: list[str]) -> None:
    assert types(joined(nodes)) == expected


@pytest.mark.parametrize(
    "nodes",
    [
        "p = Conv(x, u) q = Conv(z, v) y = Concat <axis = 1> (p, q)",
        "p = Conv(x, u) q = Conv <pads = [1, 1, 1, 1]> (x, w) y = Concat <axis = 1> (p, q)",
        "p = Conv <dilations = [2, 2]> (x, u) q = Conv(x, v) y = Concat <axis = 1> (p, q)",
        "p = Conv(x, u) q = Conv(x, v) r = Relu(p) y = Concat <axis = 1> (r, q)",
        "p = Conv(x, u) q = Conv(x, narrow) y = Concat <axis = 1> (p, q)",
        "p = Conv(x, u) r = Neg(p) q = Conv(x, v) y = Concat <axis = 1> (p, q, r)",
        (
            "p = Conv(x, u) q = Conv(z, u) r = Conv(x, v) k = Conv(z, v) "
            "y = Concat <axis = 1> (p, r, q, k)"
        ),
    ],
    ids=[
        "inputs",
        "windows",
        "attributes",
        "an activation",
        "one channel",
        "read twice",
        "weights read elsewhere",
    ],
)
def test_left_alone(nodes: str) -> None:
    assert types(joined(nodes)).count("Conv") == nodes.count("Conv")
