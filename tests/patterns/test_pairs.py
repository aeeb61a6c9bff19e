"""Int8 weights with which sums of two products fit the 16 bits of CPUs without VNNI.

The same numbers on every CPU: an older one runs these tests by ``make test-old-cpu``.
"""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import load, parse
from xoptim import OptimizationOptions, optimize
from xoptim.match.view import Cpu, GraphView
from xoptim.patterns._pairs import (
    MAX_PAIR,
    are_conv_exact,
    are_exact,
    conv_pair_scales,
    is_depthwise,
    largest_pairs,
    pair_scales,
)
from xoptim.patterns.precision._quantization import columns_to_int8
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import Level, SessionSettings

LEVELS: tuple[Level, ...] = ("off", "all")


def view(cpu: Cpu = "any") -> GraphView:
    graph = load("agraph (float[n] x) => (float[n] y) { y = Neg(x) }").graph
    return GraphView(graph, "cpu", cpu)


def drawn(seed: int, *shape: int) -> np.ndarray:
    """Weights of many magnitudes; in some columns the largest two are neighbours of one sign."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(shape) * rng.choice([0.1, 1.0, 8.0], shape)
    weights[:2, ::3] = 20.0
    weights[-2:, ::4] = -30.0
    return np.asarray(weights, np.float32)


def activations(seed: int, *shape: int) -> np.ndarray:
    """Numbers of uint8, among them rows of the largest one and of its alternation with 0."""
    found = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    found[0] = 255
    found[1].reshape(-1)[::2] = 255
    found[1].reshape(-1)[1::2] = 0
    return found


def run_integers(model: onnx.ModelProto, x: np.ndarray, level: Level) -> np.ndarray:
    return np.asarray(Session(model, SessionSettings(level=level)).run({"x": x})[0])


def test_pairs_by_hand() -> None:
    weights = np.array([[3, -1], [4, -5], [-9, -2], [8, 1]])
    assert largest_pairs(weights).tolist() == [9, 7]  # -9 next to 0 of the other sign; -5 - 2
    assert are_exact(view(), np.array([[100], [28], [100]], np.int8))
    assert not are_exact(view(), np.array([[100], [29]], np.int8))
    assert not are_exact(view(), np.array([[-100], [-29]], np.int8))
    assert are_exact(view(), np.array([[127], [-127]], np.int8))
    assert are_exact(view("vnni"), np.array([[127], [127]], np.int8))


def test_the_limit_is_that_of_16_bits() -> None:
    assert 255 * MAX_PAIR <= 2**15 - 1 < 255 * (MAX_PAIR + 1)
    assert -255 * MAX_PAIR >= -(2**15)


@pytest.mark.parametrize("seed", range(10))
def test_quantized_columns_are_exact_in_every_kernel(seed: int) -> None:
    weights = drawn(seed, 31 + 16 * seed, 24)
    assert not are_exact(view(), columns_to_int8(weights).integers)
    numbers = columns_to_int8(weights, pair_scales(view(), weights))
    assert are_exact(view(), numbers.integers)
    x = activations(seed, 5, len(weights))
    model = parse(
        f"agraph (uint8[m,{len(weights)}] x) => (int32[m,24] y) {{ y = MatMulInteger(x, w) }}", 13
    )
    model.graph.initializer.append(numpy_helper.from_array(numbers.integers, "w"))
    expected = x.astype(np.int64) @ numbers.integers.astype(np.int64)
    for level in LEVELS:
        np.testing.assert_array_equal(run_integers(model, x, level), expected)


def test_a_scale_is_enlarged_only_where_it_must_be() -> None:
    weights = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, 0.0]], np.float32)
    plain = columns_to_int8(weights)
    limited = columns_to_int8(weights, pair_scales(view(), weights))
    assert limited.integers[:, 0].tolist() == plain.integers[:, 0].tolist() == [127, -127, 127]
    assert limited.integers[:, 1].tolist() == [64, 64, 0]
    whole = columns_to_int8(weights, pair_scales(view("vnni"), weights))
    assert whole.integers.tolist() == plain.integers.tolist()


def conv(weights: np.ndarray, group: int, size: int) -> onnx.ModelProto:
    """A convolution of integers, whose results are divided so that they fit 8 bits."""
    channels = weights.shape[1] * group
    dims = weights.ndim - 2
    largest = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(axis=1).max()
    stored = {
        "w": weights,
        "s": np.float32(1),
        "u": np.uint8(0),
        "v": np.int8(0),
        "t": np.float32(255 * largest / 127),
        "z": np.uint8(128),
    }
    node = helper.make_node(
        "QLinearConv", ["x", "s", "u", "w", "s", "v", "t", "z"], ["y"], group=group
    )
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, channels, *[size] * dims])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def exact_conv(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The same in 64-bit integers, one position of the window after the other."""
    stored = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    weights, group = stored["w"].astype(np.int64), model.graph.node[0].attribute[0].i
    window = weights.shape[2:]
    size = [length - extent + 1 for length, extent in zip(x.shape[2:], window, strict=True)]
    parts = np.split(x.astype(np.int64), group, axis=1)
    sums = []
    for part, filters in zip(parts, np.split(weights, group), strict=True):
        total = np.zeros((len(x), len(filters), *size), np.int64)
        for place in itertools.product(*map(range, window)):
            picked = part
            for axis, (at, length) in enumerate(zip(place, size, strict=True), 2):
                picked = np.take(picked, range(at, at + length), axis)
            at_place = filters.reshape(*filters.shape[:2], -1)[
                ..., np.ravel_multi_index(place, window)
            ]
            total = total + np.moveaxis(np.tensordot(picked, at_place, ([1], [1])), -1, 1)
        sums.append(total)
    quotients = np.rint(np.concatenate(sums, axis=1) / float(stored["t"])) + 128
    return np.asarray(np.clip(quotients, 0, 255)).astype(np.uint8)


@pytest.mark.parametrize(
    ("shape", "group"),
    [
        ((16, 8, 3, 3), 1),
        ((16, 8, 1, 1), 1),
        ((8, 4, 3, 3), 4),
        ((12, 1, 3, 3), 12),
        ((12, 1, 3, 3), 6),
        ((8, 1, 5, 5), 1),
        ((6, 3, 9), 2),
        ((4, 4, 2, 2, 2), 1),
    ],
)
def test_quantized_convolutions_are_exact_in_every_kernel(
    shape: tuple[int, ...], group: int
) -> None:
    weights = np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(np.float32)
    weights[:2] = 1.0
    least = conv_pair_scales(view(), weights, group)
    matrix = columns_to_int8(weights.reshape(len(weights), -1).T, least).integers
    integers = np.ascontiguousarray(matrix.T).reshape(shape)
    assert are_conv_exact(view(), integers, group)
    assert is_depthwise(weights, group) == (shape[1] == 1 and group == shape[0])
    assert (np.abs(integers[0]).max() == 127) == is_depthwise(weights, group)
    x = activations(1, 2, shape[1] * group, *[10] * (len(shape) - 2))
    model = conv(integers, group, 10)
    for level in LEVELS:
        found = run_integers(model, x, level).astype(int)
        # a quotient next to a half may be rounded the other way in 32-bit floats
        assert np.abs(found - exact_conv(model, x).astype(int)).max() <= 1


SATURATING = (
    "agraph (uint8[n,4] a, float s, uint8 z) => (float[n,2] y) <float[2] t = {0.5, 0.25}, "
    "int8[4,2] b = {100, -2, 100, 4, 5, -6, 7, 8}> { d = DequantizeLinear(a, s, z) "
    "e = DequantizeLinear <axis = 1> (b, t) y = MatMul(d, e) }"
)


@pytest.mark.parametrize(("cpu", "is_written"), [("any", False), ("vnni", True)])
def test_a_form_that_may_saturate_is_written_for_vnni_only(cpu: Cpu, is_written: bool) -> None:
    made = optimize(parse(SATURATING, 13), patterns=["DequantizeLinearMatMul"], cpu=cpu)
    assert ("MatMulInteger" in {node.op_type for node in made.graph.node}) == is_written


def test_an_unknown_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cpu .* any .* vnni, .*'sse'"):
        OptimizationOptions(cpu="sse")  # type: ignore[arg-type]
