"""Random graphs, optimized with everything, compute the same numbers, at the sizes they were made for and at others."""

import logging
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import xoptim
from tests.engine.random_bodies import RandomFlow
from tests.engine.random_graphs import RandomGraph
from tests.support import in_parts

_SIZES = ({"n": 5, "m": 1}, {"n": 1, "m": 4}, {"n": 1, "m": 1})


def _session(model: onnx.ModelProto) -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _resized(graph: RandomGraph, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in graph.inputs:
        shape = [sizes.get(d.dim_param, d.dim_value) for d in value.type.tensor_type.shape.dim]
        feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
    return feeds


def _same(model: onnx.ModelProto, expected: list[Any], found: list[Any]) -> None:
    for output, a, b in zip(model.graph.output, expected, found, strict=True):
        assert a.shape == b.shape, output.name
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5, err_msg=output.name)


@in_parts("part", 8)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_graphs_compute_the_same(part: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    for seed in range(20 * part, 20 * part + 20):
        graph = RandomGraph(seed, opset=(18, 20, 21, 23)[seed % 4])
        model = graph.model(12 + seed % 50)
        original = _session(model)
        expected = original.run(None, graph.feeds)
        given = model.SerializeToString()
        smaller = xoptim.optimize(model, strict=True)
        assert model.SerializeToString() == given, "the input was modified"
        onnx.checker.check_model(smaller)
        optimized = _session(smaller)
        _same(model, expected, optimized.run(None, graph.feeds))
        assert xoptim.optimize(smaller, strict=True).SerializeToString() == smaller.SerializeToString(), "not a fixed point"
        for sizes in _SIZES:
            feeds = _resized(graph, sizes, seed)
            try:
                expected = original.run(None, feeds)
            except Exception:  # constants in the graph do not fit these sizes
                continue
            _same(model, expected, optimized.run(None, feeds))


@in_parts("part", 4)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_graphs_with_subgraphs_compute_the_same(part: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    compared = 0
    for seed in range(16 * part, 16 * part + 16):
        graph = RandomFlow(seed, opset=(18, 20, 21, 23)[seed % 4])
        model = graph.model(8 + seed % 20)
        original, smaller = _session(model), xoptim.optimize(model, strict=True)
        onnx.checker.check_model(smaller)
        optimized = _session(smaller)
        for feeds in (graph.feeds, *(_resized(graph, sizes, seed) for sizes in _SIZES)):
            try:
                expected = original.run(None, feeds)
            except Exception:  # operands in a subgraph do not fit each other, or these sizes
                continue
            _same(model, expected, optimized.run(None, feeds))
            compared += 1
    assert compared > 16
