"""Graphs whose sizes make large expressions are optimized, and compute what they computed."""

import numpy as np
import onnx
import pytest

import xoptim
from benchmarks.families import FAMILIES, SIZES
from benchmarks.scaling import SHAPES, chain, stack
from tests.support import run
from xoptim.facts import symbolic
from xoptim.facts.dtypes import numpy_dtype

LENGTHS = (1, 5, 9)


def test_no_family_hides_another_shape_of_graph() -> None:
    assert {"chain": chain, "stack": stack, **FAMILIES, **SIZES} == SHAPES
    assert len(SHAPES) == 2 + len(FAMILIES) + len(SIZES)


def _run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | str:
    try:
        return run(model, feeds)
    except Exception as error:  # onnxruntime raises types of its own
        return type(error).__name__


def _feeds(model: onnx.ModelProto, length: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or length for dim in tensor.shape.dim]
        feeds[value.name] = random.integers(0, 9, shape).astype(numpy_dtype(tensor.elem_type))
    return feeds


@pytest.mark.parametrize("family", SIZES)
def test_large_sizes_leave_a_model_right(family: str) -> None:
    model = SIZES[family](12)
    optimized = xoptim.optimize(model)
    ran = 0
    for length in LENGTHS:
        feeds = _feeds(model, length)
        expected = _run(model, feeds)
        if isinstance(expected, str):
            continue
        ran += 1
        given = {value.name for value in optimized.graph.input}
        found = _run(optimized, {name: array for name, array in feeds.items() if name in given})
        assert not isinstance(found, str), found
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)
    assert ran


@pytest.mark.parametrize("family", SIZES)
def test_expressions_of_a_graph_are_bounded(family: str) -> None:
    count = 40
    builder = xoptim.GraphBuilder(SIZES[family](count))
    infos = [builder.graph.info_of(name) for node in builder.graph.nodes for name in node.output]
    dims = [
        dim
        for info in infos
        for dim in (*(info.shape or ()), *(info.data or ()))
        if not isinstance(dim, int)
    ]
    assert dims
    assert max(dim.weight for dim in dims) <= symbolic.MOST_WEIGHT
    assert max(len(dim.terms) for dim in dims) <= symbolic.MOST_TERMS
    assert max(dim.depth for dim in dims) <= symbolic.MOST_DEPTH + 1
