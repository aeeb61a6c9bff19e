"""The test cases that the onnx package ships for its operators, of every operator and of its
decomposition.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.operators.inference.context import infer_model
from tests.operators.inference.oracle import check_run
from xoptim.facts.shapes import Info

VALUES_DECIDE = {
    "BlackmanWindow",
    "DFT",
    "HammingWindow",
    "HannWindow",
    "ImageDecoder",
    "MelWeightMatrix",
    "NonMaxSuppression",
    "NonZero",
    "StringNormalizer",
    "StringSplit",
    "Unique",
}
"""Operators whose result size may depend on more than what is known of their inputs."""


def _models() -> Iterator[tuple[str, onnx.ModelProto, Sequence[Any], Sequence[Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in cases:
        if case.model is None or not case.data_sets:
            continue
        if not any(a.HasField("g") for node in case.model.graph.node for a in node.attribute):
            yield case.name, case.model, *case.data_sets[0]


def _with_constants(model: onnx.ModelProto, inputs: Sequence[Any]) -> onnx.ModelProto:
    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    for value, given in zip(model.graph.input, inputs, strict=False):
        if isinstance(given, onnx.TensorProto):
            complete.graph.initializer.add().CopyFrom(given)
            complete.graph.initializer[-1].name = value.name
        elif isinstance(given, (np.ndarray, np.generic)):
            complete.graph.initializer.append(
                onnx.numpy_helper.from_array(np.asarray(given), value.name)
            )
    return complete


def _fault(info: Info, result: Any) -> str:
    if isinstance(result, onnx.TensorProto):
        result = onnx.numpy_helper.to_array(result)
    if not isinstance(result, (np.ndarray, np.generic)):
        return ""
    try:
        check_run(info, np.asarray(result), {})
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_facts_hold_for_every_case() -> None:
    faults, checked = [], 0
    for name, model, inputs, outputs in _models():
        for variant in (model, _with_constants(model, inputs)):
            known = infer_model(variant)
            for value, result in zip(model.graph.output, outputs, strict=False):
                info = known[value.name]
                checked += 1
                if fault := _fault(info, result):
                    faults.append((name, fault))
                static = info.container != "" or (info.dtype and info.static_shape is not None)
                operators = {node.op_type for node in model.graph.node}
                if (
                    variant is not model
                    and len(model.graph.node) == 1
                    and not static
                    and not operators & VALUES_DECIDE
                ):
                    faults.append((name, f"little is known: {info}"))
    assert not faults
    assert checked > 3000
