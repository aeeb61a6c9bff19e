"""Raise a model from text, and compare both in onnxruntime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from tests.support import load, parse, run, verify as verify_tables
from xoptim.facts.errors import ModelError
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.passes.opsets.newest import raise_model

F32 = np.float32


def raised(text: str, opset: int, target: int, **options: Any) -> Model:
    """A model from text, raised; its tables are checked."""
    model = load(text, opset, **options)
    raise_model(model, target)
    verify_tables(model)
    return model


def check(
    text: str, opset: int, target: int, feeds: Mapping[str, Any], **options: Any
) -> list[str]:
    """Raise a model from text and compare it with the original.

    Returns its operators, in order, for each graph.

    The results must have equal bits, so kernels of both operator sets must compute in the same
    order.
    """
    before = parse(text, opset, **options)
    model = load_model(before)
    raise_model(model, target)
    verify_tables(model)
    after = export_model(model)
    assert {o.domain: o.version for o in after.opset_import}[""] == target
    onnx.checker.check_model(after)
    load_model(after)
    for expected, got in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(got, expected, strict=True)
    return [node.op_type for graph in model.graphs() for node in graph.nodes]


def reason(text: str, opset: int, target: int, **options: Any) -> str:
    """The error for a model that cannot be raised; the model is unchanged."""
    model = load(text, opset, **options)
    before = export_model(model).SerializeToString(deterministic=True)
    try:
        raise_model(model, target)
    except ModelError as error:
        assert export_model(model).SerializeToString(deterministic=True) == before
        return str(error)
    raise AssertionError("it was raised")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers of 32 bits."""
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def raise_again(proto: onnx.ModelProto, target: int) -> onnx.ModelProto:
    """A raised copy of a model."""
    model = load_model(proto)
    raise_model(model, target)
    return export_model(model)
