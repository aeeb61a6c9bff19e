"""Constants that are equal along axes get size 1 there where that is faster."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.support import run
from xoptim import optimize

PATTERNS = ["EqualAxisBroadcast", "EqualAxisElementwise"]


def model_of(
    nodes: Sequence[onnx.NodeProto], shapes: dict[str, list[int | str]], constant: np.ndarray
) -> onnx.ModelProto:
    """A model of float32 inputs, one output y and a constant c."""
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(constant, "c")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def constant_shape(model: onnx.ModelProto) -> list[int]:
    """The shape of the only constant of a model."""
    (initializer,) = model.graph.initializer
    return list(initializer.dims)


def filled(shape: Sequence[int], place: tuple[int, ...] = (), value: float = 0.0) -> np.ndarray:
    """A constant of zeros, with another number in one place."""
    array = np.zeros(shape, np.float32)
    if place:
        array[place] = value
    return array


ROWS = np.repeat(np.arange(1, 5, dtype=np.float32)[:, None], 2048, axis=1)


@pytest.mark.parametrize(
    ("constant", "smaller"),
    [
        (ROWS, [4, 1]),
        (np.ascontiguousarray(ROWS.T), [2048, 4]),  # spans of 1, or of 4: too short
        (filled((4, 2048)), [1, 1]),
        (filled((4, 2048), (0, 0), np.nan), [4, 2048]),
        (filled((4, 2048), (3, 1000), 1.0), [4, 2048]),
        (filled((4, 2048), (0, 7), -0.0), [4, 2048]),
        (np.full((4, 2048), np.nan, np.float32), [1, 1]),
        (np.full((2048,), 2.0, np.float32), [2048]),  # one axis: a bias that was not trained yet
    ],
)
def test_constants(constant: np.ndarray, smaller: list[int]) -> None:
    nodes = [helper.make_node("Add", ["x", "c"], ["y"])]
    before = model_of(nodes, {"x": ["n", *constant.shape]}, constant)
    after = optimize(before, patterns=PATTERNS)
    assert constant_shape(after) == smaller
    feeds = {"x": np.random.default_rng(0).normal(size=(2, *constant.shape)).astype(np.float32)}
    for expected, actual in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(expected, actual)


@pytest.mark.parametrize(("restores", "smaller"), [(True, [4, 1, 1]), (False, [4, 8, 16])])
def test_region(restores: bool, smaller: list[int]) -> None:
    """All operators up to the one that restores the shape compute less."""
    factors = np.broadcast_to(np.arange(4, dtype=np.float32)[:, None, None], (4, 8, 16))
    nodes = [
        helper.make_node("Mul", ["x", "c"], ["a"]),
        helper.make_node("Softplus", ["a"], ["s"]),
        helper.make_node("Mul", ["s", "z"], ["y"])
        if restores
        else helper.make_node("Softmax", ["s"], ["y"]),
    ]
    shapes: dict[str, list[int | str]] = {"x": ["n", 4, 1, 1], "z": ["n", 4, 8, 16]}
    before = model_of(nodes, shapes, np.ascontiguousarray(factors))
    after = optimize(before, patterns=PATTERNS)
    assert constant_shape(after) == smaller
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.normal(size=(2, 4, 1, 1)).astype(np.float32),
        "z": rng.normal(size=(2, 4, 8, 16)).astype(np.float32),
    }
    for expected, actual in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(expected, actual, rtol=1e-6)
