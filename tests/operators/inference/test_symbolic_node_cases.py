"""The test cases of the onnx package, those with subgraphs too, after every dimension of their
inputs became a symbol.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.operators.inference.nested import assert_not_less, check_value, infer_outputs
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.operators.inference.types import type_proto_to_info

STANDARD = ("", "ai.onnx", "ai.onnx.ml")
ONNX_IS_WRONG = (
    # dimensions that follow from values or from unknown ones
    "test_attention",
    "test_dft",
    "test_stft",
    "test_loop",
    "test_scan",  # what a body declares counts, though its inputs are symbols here
)


def _cases() -> Iterator[tuple[str, onnx.ModelProto, Sequence[Any], Sequence[Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in cases:
        if (
            case.model is not None
            and case.data_sets
            and all(n.domain in STANDARD for n in case.model.graph.node)
        ):
            inputs, outputs = case.data_sets[0]
            yield case.name, case.model, [_array(v) for v in inputs], [_array(v) for v in outputs]


def _array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _symbolic(
    model: onnx.ModelProto, inputs: Sequence[Any]
) -> tuple[onnx.ModelProto, dict[str, int]]:
    """The model without the sizes of its inputs, and what they were."""
    result, sizes = onnx.ModelProto(), dict[str, int]()
    result.CopyFrom(model)
    for index, (value, given) in enumerate(zip(result.graph.input, inputs, strict=False)):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if axis < np.ndim(given):
                dim.dim_param = f"s{index}_{axis}"
                sizes[dim.dim_param] = np.shape(given)[axis]
    for value in result.graph.output:
        value.ClearField("type")
    return result, sizes


def _fault(info: Info, result: Any, sizes: dict[str, int]) -> str:
    try:
        check_value(info, result, sizes)
    except AssertionError as error:
        return str(error) or f"{info} for {result}"
    return ""


def _less(model: onnx.ModelProto, infos: Sequence[Info]) -> str:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        for value, info in zip(inferred.graph.output, infos, strict=True):
            assert_not_less(info, type_proto_to_info(value.type))
    except onnx.shape_inference.InferenceError:
        return ""
    except AssertionError as error:
        return f"less than onnx: {error}"
    return ""


@pytest.mark.slow
def test_facts_hold_for_symbols() -> None:
    faults, checked = [], 0
    for name, model, inputs, outputs in _cases():
        symbolic, sizes = _symbolic(model, inputs)
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        infos = infer_outputs(symbolic.graph, opsets, {})
        for info, result in zip(infos, outputs, strict=False):
            checked += 1
            if (
                info is not UNKNOWN
                and result is not None
                and (fault := _fault(info, result, sizes))
            ):
                faults.append((name, fault))
        if not name.startswith(ONNX_IS_WRONG) and (fault := _less(symbolic, infos)):
            faults.append((name, fault))
    assert not faults
    assert checked > 1800
