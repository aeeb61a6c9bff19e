"""Strides that move up to the convolutions above."""

import numpy as np
import onnx
import pytest

from tests.support import node_of, parse, run
from xoptim import optimize
from xoptim.graph.load import load_model

SHAPES = {
    "v": (4, 4, 3, 3),
    "u": (4, 4, 1, 1),
    "w": (3, 4, 1, 1),
    "s": (4, 1, 1),
    "b": (4,),
    "image": (4, 9, 9),
    "d": (4, 1, 3, 3),
}
_STRIDED = "Conv <strides = [2, 2]>"
_PADDED = "Conv <pads = [1, 1, 1, 1]>"


def strides_of(nodes: str, outputs: str = "y") -> list[list[int]]:
    """The strides of each convolution after the pattern; equal on a value."""
    model = parse(f"agraph (float[n,4,9,9] x, float[n,4,1,1] g) => ({outputs}) {{ {nodes} }}")
    rng = np.random.default_rng(0)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in SHAPES.items()
    )
    after = optimize(model, patterns="ConvStrides", strict=True)
    feeds = {
        "x": rng.standard_normal((2, 4, 9, 9)).astype(np.float32),
        "g": rng.standard_normal((2, 4, 1, 1)).astype(np.float32),
    }
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    convs = [node for node in load_model(after).graph.nodes if node.op_type == "Conv"]
    return [[*node.attribute.get("strides", [1, 1])] for node in convs]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (f"t = {_PADDED} (x, v) r = Relu(t) y = {_STRIDED} (r, w)", [2, 1]),
        (f"t = {_STRIDED} (x, v) y = {_STRIDED} (t, w)", [4, 1]),
        (f"t = {_PADDED} (x, v) a = Sigmoid(t) r = Mul(t, a) y = {_STRIDED} (r, w)", [2, 1]),
        (f"t = {_PADDED} (x, v) r = Mul(g, t) q = Add(r, s) y = {_STRIDED} (q, w)", [2, 1]),
        (
            f"o = Mul(b, b) t = {_PADDED} (x, v, b) r = BatchNormalization(t, b, b, b, o) "
            f"y = {_STRIDED} (r, w)",
            [2, 1],
        ),
        # through two convolutions, and both sides of a sum
        (f"t = {_PADDED} (x, v) r = Relu(t) p = Conv(r, u) y = {_STRIDED} (p, w)", [2, 1, 1]),
        (f"t = {_PADDED} (x, v) r = Conv(x, u) p = Add(r, t) y = {_STRIDED} (p, w)", [2, 2, 1]),
        # the input of the block is sliced
        (f"z = Relu(x) t = {_PADDED} (z, v) p = Add(z, t) y = {_STRIDED} (p, w)", [2, 1]),
        # two readers with the same strides
        (
            f"t = {_PADDED} (x, v) r = Relu(t) p = {_STRIDED} (r, w) q = {_STRIDED} (r, u) "
            "y = Concat <axis = 1> (p, q)",
            [2, 1, 1],
        ),
    ],
)
def test_strides_move(nodes: str, expected: list[int]) -> None:
    assert strides_of(nodes) == [[step, step] for step in expected]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # a larger window, pads, another reader, other strides
        (f"t = Conv(x, u) y = {_STRIDED} (t, v)", [1, 2]),
        ("t = Conv(x, u) y = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (t, w)", [1, 2]),
        (
            f"t = Conv(x, u) p = {_STRIDED} (t, w) q = Relu(t) r = ReduceMax(q) y = Add(p, r)",
            [1, 2],
        ),
        (
            f"t = Conv(x, u) p = {_STRIDED} (t, w) q = Conv <strides = [3, 3]> (t, w) "
            "r = ReduceMax(q) y = Add(p, r)",
            [1, 2, 3],
        ),
        # other operators, and operands that differ at each position
        (f"t = Conv(x, u) r = Softmax(t) y = {_STRIDED} (r, w)", [1, 2]),
        (f"t = Conv(x, u) r = Add(t, image) y = {_STRIDED} (r, w)", [1, 2]),
        (
            f"z = Softmax(x) t = Conv(x, u) r = Add(t, x) q = Mul(r, z) y = {_STRIDED} (q, w)",
            [1, 2],
        ),
        # only a depthwise convolution is saved, and a tensor would be sliced
        (
            f"t = Conv <group = 4, pads = [1, 1, 1, 1]> (x, d) r = Add(t, x) y = {_STRIDED} (r, w)",
            [1, 2],
        ),
    ],
)
def test_others_stay(nodes: str, expected: list[int]) -> None:
    assert strides_of(nodes) == [[step, step] for step in expected]


def test_a_weight_stays() -> None:
    model = parse(
        "agraph (float[2,2,1,1] x, float[n,3,h,w] z) => (float[2,5,1,1] y, float[n,2,p,q] r) "
        "<float[3,2,1,1] v = {1, 2, 3, 4, 5, 6}, float[5,3,1,1] k = {1, 2, 3, 4, 5, 6, 7, 8, 9, "
        "8, 7, 6, 5, 4, 3}> "
        f"{{ t = Conv(x, v) y = {_STRIDED} (t, k) r = {_STRIDED} (z, t) }}"
    )
    after = optimize(model, patterns="ConvStrides", strict=True)
    feeds = {"x": np.ones((2, 2, 1, 1), np.float32), "z": np.ones((1, 3, 4, 4), np.float32)}
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_the_slice_takes_the_positions_of_the_strides() -> None:
    model = parse(
        "agraph (float[n,4,9] x, float[4,4,1] u, float[3,4,1] w) => (float[n,3,3] y) { "
        "z = Relu(x) t = Conv(z, u) p = Add(t, z) y = Conv <strides = [3]> (p, w) }"
    )
    after = load_model(optimize(model, patterns="ConvStrides", strict=True))
    steps = after.graph.tensor(node_of(after, "Slice").input[4])
    assert steps is not None
    assert steps.numpy().tolist() == [3]


def test_a_convolution_in_a_subgraph_keeps_its_strides() -> None:
    model = parse(
        """agraph (float[1,2,8,8] x, bool c) => (float[1,2,4,4] y)
        <float[2,2,3,3] v = {0}, float[2,2,1,1] w = {1, 2, 3, 4}> {
            t = Conv <pads = [1, 1, 1, 1]> (x, v)
            y = If(c) <then_branch = t1 () => (p) { p = Conv <strides = [2, 2]> (t, w) },
                else_branch = e1 () => (q) {
                    q = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (t) }>
        }""".replace("{0}", "{" + ", ".join(["1"] * 36) + "}")
    )
    result = optimize(model, patterns="ConvStrides", strict=True)
    assert [node.op_type for node in result.graph.node] == ["Conv", "If"]
