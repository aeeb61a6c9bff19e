"""Lower a model from text, and compare both in onnxruntime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

from tests.passes.opsets.raised import raise_again
from tests.support import load, parse, run, verify as verify_tables
from xoptim.facts.errors import ModelError
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.passes.opsets.lowering import lower_model


def check(
    text: str, opset: int, target: int, feeds: Mapping[str, Any], **options: Any
) -> list[str]:
    """Lower a model from text, and raise it again; both must compute the same as the original.

    Returns the operators of the lowered model, in order.
    """
    before = parse(text, opset, **options)
    model = load_model(before)
    lower_model(model, target)
    verify_tables(model)
    after = export_model(model)
    assert {entry.domain: entry.version for entry in after.opset_import}[""] == target
    onnx.checker.check_model(after, full_check=True)
    expected = run(before, feeds)
    for other in (after, raise_again(after, opset)):
        for wanted, got in zip(expected, run(other, feeds), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, strict=True)
    return [node.op_type for graph in model.graphs() for node in graph.nodes]


def reason(text: str, opset: int, target: int, **options: Any) -> str:
    """The error for a model that cannot be lowered; the model is unchanged."""
    model = load(text, opset, **options)
    before = export_model(model).SerializeToString(deterministic=True)
    with pytest.raises(ModelError) as error:
        lower_model(model, target)
    assert export_model(model).SerializeToString(deterministic=True) == before
    assert "\n" not in str(error.value)
    return str(error.value)
