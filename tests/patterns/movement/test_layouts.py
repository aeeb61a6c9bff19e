"""Each operator gives the same numbers in another layout."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run, types
from xoptim import optimize
from xoptim.patterns._operators import ELEMENTWISE
from xoptim.patterns.movement._layouts import MOVING, composed, inverse, is_identity, relaid

Shape = tuple[int, ...]
Stored = Callable[[Shape], dict[str, Any]]
SHAPE = (2, 3, 4, 6)
PERMS = ([0, 2, 3, 1], [0, 3, 1, 2], [3, 0, 2, 1], [1, 2, 3, 0])


def ramp(*shape: int) -> np.ndarray:
    """Different positive numbers."""
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1) / 4


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def nothing(_: Shape) -> dict[str, Any]:
    return {}


STAYING: dict[str, tuple[str, Stored]] = {
    "unary": ("a = Sigmoid(t) z = Neg(a)", nothing),
    "clip": ("z = Clip(t, m, n)", lambda s: {"m": np.float32(-0.5), "n": np.float32(0.5)}),
    "number": ("z = Mul(two, t)", lambda s: {"two": np.float32(2)}),
    "vector": ("z = Sub(b, t)", lambda s: {"b": ramp(s[3])}),
    "column": ("z = Add(t, b)", lambda s: {"b": ramp(s[2], 1)}),
    "ones": ("z = Div(t, b)", lambda s: {"b": ramp(1, 1, 1, 1)}),
    "itself": ("z = Mul(t, t)", nothing),
    "where": ("c = Greater(t, k) n = Neg(t) z = Where(c, t, n)", lambda s: {"k": np.float32(0.1)}),
    "prelu": ("z = PRelu(t, b)", lambda s: {"b": ramp(s[3])}),
    "cast": ("i = Cast <to = 6> (t) z = Cast <to = 1> (i)", nothing),
    "concat": ("e = Exp(t) z = Concat <axis = 3> (t, e)", nothing),
    "concat of a constant": ("z = Concat <axis = -1> (t, w)", lambda s: {"w": ramp(*s[:3], 1)}),
    "split": (
        "p, q = Split <axis = -3> (t, k) z = Concat <axis = 1> (q, p)",
        lambda s: {"k": ints(1, s[1] - 1)},
    ),
    "slice": (
        "z = Slice(t, u, v, k)",
        lambda s: {"u": ints(0, 1), "v": ints(1, 9), "k": ints(-1, 1)},
    ),
    "slice without axes": (
        "z = Slice(t, u, v)",
        lambda s: {"u": ints(0, 0, 1), "v": ints(1, 9, 2)},
    ),
    "slice backwards": (
        "z = Slice(t, u, v, k, m)",
        lambda s: {"u": ints(-1), "v": ints(-9), "k": ints(2), "m": ints(-1)},
    ),
    "pad": ("z = Pad(t, u, v)", lambda s: {"u": ints(0, 1, 2, 0, 0, 0, 1, 3), "v": np.float32(7)}),
    "pad by axes": (
        'z = Pad <mode = "edge"> (t, u, , k)',
        lambda s: {"u": ints(1, 0, 0, 2), "k": ints(-2, 1)},
    ),
    "tile": ("z = Tile(t, k)", lambda s: {"k": ints(1, 2, 1, 3)}),
    "gather": ("z = Gather <axis = 2> (t, k)", lambda s: {"k": ints(0, -1, 0)}),
    "quantize": (
        "q = QuantizeLinear(t, s, o) z = DequantizeLinear(q, s, o)",
        lambda s: {"s": np.float32(0.1), "o": np.int8(3)},
    ),
    "quantize along an axis": (
        "q = QuantizeLinear <axis = 3> (t, s) z = DequantizeLinear <axis = -1> (q, s)",
        lambda s: {"s": ramp(s[3])},
    ),
    "quantize by a vector of one": (
        "q = QuantizeLinear(t, s) z = DequantizeLinear(q, s)",
        lambda s: {"s": np.array([0.1], np.float32)},
    ),
    "mean": ("m = ReduceMean(t, k) z = Sub(t, m)", lambda s: {"k": ints(1, -2)}),
    "mean of all": ("m = ReduceSumSquare(t) z = Sub(t, m)", nothing),
    "no reduction": ("z = ReduceSum <noop_with_empty_axes = 1> (t)", nothing),
    "argmax": ("m = ArgMax <axis = -1> (t) c = Cast <to = 1> (m) z = Add(t, c)", nothing),
    "nearest": (
        'z = Resize <mode = "nearest"> (t, , f)',
        lambda s: {"f": np.array([1, 1, 2, 1], np.float32)},
    ),
    "nearest of a size": (
        'z = Resize <mode = "nearest"> (t, , , f)',
        lambda s: {"f": ints(*s[:3], 2 * s[3])},
    ),
    "unsqueeze": ("u = Unsqueeze(t, k) n = Neg(u) z = Squeeze(n, k)", lambda s: {"k": ints(2)}),
    "unsqueeze in front": (
        "u = Unsqueeze(t, k) n = Neg(u) z = Squeeze(n, k)",
        lambda s: {"k": ints(0)},
    ),
    "unsqueeze at the end": (
        "u = Unsqueeze(t, k) n = Neg(u) z = Squeeze(n, k)",
        lambda s: {"k": ints(-1)},
    ),
    "unsqueeze twice": (
        "u = Unsqueeze(t, k) n = Neg(u) z = Squeeze(n, k)",
        lambda s: {"k": ints(5, 1)},
    ),
    "expand": (
        "m = ReduceMax(t, a) e = Expand(m, k) z = Add(t, e)",
        lambda s: {"a": ints(3), "k": ints(s[2], s[3])},
    ),
}
"""Operators between two Transposes, and the constants that they take by the shape in between.

No Transpose is left.
"""

LOSING: dict[str, tuple[str, Stored]] = {
    "mean": ("y = ReduceMean <keepdims = 0> (t, k)", lambda s: {"k": ints(-1)}),
    "mean of two": ("y = ReduceMean <keepdims = 0> (t, k)", lambda s: {"k": ints(2, 0)}),
    "argmax": ("y = ArgMax <axis = 1, keepdims = 0> (t)", nothing),
    "squeeze": ("m = ReduceMax(t, k) y = Squeeze(m, k)", lambda s: {"k": ints(-2, 0)}),
    "gather a number": ("g = Gather <axis = 1> (t, k) y = Neg(g)", lambda s: {"k": np.int64(1)}),
    "gather a matrix": (
        "g = Gather <axis = 3> (t, k) y = ReduceMax <keepdims = 0> (g, a)",
        lambda s: {"k": ints(0, 1, 1, 0).reshape(2, 2), "a": ints(0, 1, 2)},
    ),
}
"""Operators that change the number of axes: at most one Transpose is left, of a smaller tensor."""


def build(body: str, stored: Stored, perm: list[int]) -> onnx.ModelProto:
    inside = tuple(SHAPE[axis] for axis in perm)
    back = f"y = Transpose <perm = {list(inverse(perm))}> (z)" if "y = " not in body else ""
    model = parse(
        f"agraph (float[2,3,4,6] x) => (y) {{ t = Transpose <perm = {perm}> (x) {body} {back} }}"
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(v), name) for name, v in stored(inside).items()
    )
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def optimized(model: onnx.ModelProto) -> onnx.ModelProto:
    after = optimize(model, patterns="TransposeRegion+TransposeRegionSum", strict=True)
    feeds = {"x": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)}
    for expected, found in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    return after


@pytest.mark.parametrize("perm", PERMS, ids=str)
@pytest.mark.parametrize("case", STAYING)
def test_operators_between_two_transposes(case: str, perm: list[int]) -> None:
    after = optimized(build(*STAYING[case], perm))
    assert "Transpose" not in types(after)


@pytest.mark.parametrize("perm", PERMS, ids=str)
@pytest.mark.parametrize("case", LOSING)
def test_operators_that_change_the_number_of_axes(case: str, perm: list[int]) -> None:
    after = optimized(build(*LOSING[case], perm))
    assert types(after).count("Transpose") <= 1
    assert types(after)[0] != "Transpose"


@pytest.mark.parametrize(
    "body",
    [
        "z = Trilu(t)",
        "z = LayerNormalization(t, v)",
        'z = Resize <mode = "cubic"> (t, , f)',
        "z = Pad(t, p)",
        "z = DequantizeLinear <axis = 3, block_size = 2> (i, w)",
    ],
)
def test_operators_that_keep_their_layout(body: str) -> None:
    """They depend on the places of axes: all of them, the last one, those that are known at run
    time only.
    """
    model = parse(
        "agraph (float[2,4,4,4] x, int64[8] p) "
        "=> (y) <float[4] v = {1, 2, 3, 4}, float[4] f = {1, 1, 1, 2}> { "
        "t = Transpose <perm = [0, 2, 3, 1]> (x) i = Cast <to = 3> (t) "
        f"w = Slice(t, one, two, three) {body} y = Transpose <perm = [0, 3, 1, 2]> (z) }}",
        opset=21,
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(ints(n), name) for name, n in (("one", 0), ("two", 2), ("three", 3))
    )
    after = optimize(model, patterns="TransposeRegion+TransposeRegionSum", strict=True)
    assert types(after).count("Transpose") == 2


@pytest.mark.parametrize("perm", [[0, 1, 3, 2], [1, 0, 2, 3], [1, 0, 3, 2]], ids=str)
@pytest.mark.parametrize("body", ["z = MatMul(t, w)", "z = MatMul(w, t)"])
def test_products_of_matrices(body: str, perm: list[int]) -> None:
    """Matrices that are transposed change places."""
    first, second, rows, columns = (SHAPE[axis] for axis in perm)
    square = columns if "t, w" in body else rows
    after = optimized(build(body, lambda _: {"w": ramp(first, second, square, square)}, perm))
    assert types(after) == ["MatMul"]


def test_an_axis_is_added_where_the_result_needs_it() -> None:
    """The layout reaches the Unsqueeze from below; its operand stays as it is."""
    model = parse(
        "agraph (float[2,3,4] x, float[2,4] w) => (y) <int64[1] k = {1}> { "
        "t = Transpose <perm = [0, 2, 1]> (x) u = Unsqueeze(w, axis) s = Sub(t, u) "
        "y = Transpose <perm = [0, 2, 1]> (s) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(ints(2), "axis"))
    feeds = {"x": ramp(2, 3, 4), "w": ramp(2, 4)}
    after = optimize(
        onnx.shape_inference.infer_shapes(model), patterns="TransposeRegion", strict=True
    )
    np.testing.assert_array_equal(run(after, feeds)[0], run(model, feeds)[0])
    assert sorted(types(after)) == ["Sub", "Unsqueeze"]


@pytest.mark.parametrize(("small", "turns"), [(4, True), (64, False)])
def test_the_last_axis_of_an_outer_product_is_long(small: int, turns: bool) -> None:
    """A broadcast operator takes one step for each run of elements: no Transpose is left that makes
    the runs short.
    """
    model = parse(
        f"agraph (float[a,7,128] x, float[a,7,{small}] w) "
        "=> (y) <int64[1] k = {1}, int64[1] last = {3}> { t = Transpose <perm = [0, 2, 1]> (x) "
        "u = Unsqueeze(t, last) v = Unsqueeze(w, k) p = Mul(u, v) e = Exp(p) "
        "y = ReduceMax <keepdims = 0> (e, m) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(ints(2), "m"))
    feeds = {"x": ramp(2, 7, 128) / 1000, "w": ramp(2, 7, small) / 1000}
    after = optimize(model, patterns="TransposeRegion+TransposeRegionSum", strict=True)
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-5)
    assert (types(after)[0] != "Transpose") == turns


def test_permutations() -> None:
    for perm in permutations(range(4)):
        array = np.arange(120).reshape(2, 3, 4, 5)
        moved = array.transpose(perm)
        assert (moved.transpose(inverse(perm)) == array).all()
        assert is_identity(composed(perm, inverse(perm)))
        assert is_identity(perm) == (perm == (0, 1, 2, 3))
        for shape in ((5,), (4, 5), (1, 5), (3, 1, 1), (2, 1, 1, 5), (1, 1, 1, 1), ()):
            constant = ramp(*shape)
            result = relaid(constant, perm)
            assert ((array + constant).transpose(perm) == moved + result).all()
            assert len(shape) <= result.ndim <= 4


OTHER_TYPES = {"BitwiseNot", "Not", "Swish"}
"""Operators of other types than floating-point numbers, or of newer operator sets."""
BINARY = {"Add", "Div", "Mul", "Pow", "PRelu"}


@pytest.mark.parametrize("op_type", sorted((set(MOVING) & ELEMENTWISE - OTHER_TYPES) | BINARY))
def test_exact_operators_give_the_same_bits(op_type: str) -> None:
    """Wherever an element stands: the number of elements is not a multiple of what vector
    instructions process.
    """
    operands = "x, w" if op_type in BINARY else "x"
    attributes = "<to = 10>" if op_type == "Cast" else ""
    model = parse(
        "agraph (float[a,b,c] x, float[a,b,c] w) => (y) { "
        f"y = {op_type} {attributes} ({operands}) }}",
        opset=20,
    )
    random = np.random.default_rng(0)
    for low, high in ((-3, 3), (0.01, 0.99), (1.01, 50)):
        feeds = {
            name: random.uniform(low, high, (5, 7, 11)).astype(np.float32) for name in ("x", "w")
        }
        (straight,) = run(model, feeds)
        (turned,) = run(
            model,
            {name: np.ascontiguousarray(value.transpose(1, 2, 0)) for name, value in feeds.items()},
        )
        np.testing.assert_array_equal(turned, straight.transpose(1, 2, 0))
