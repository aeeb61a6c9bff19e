"""The conformance cases of newer operator sets, lowered, and compared by running."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
import pytest

from lab.conformance.cases import Case, all_cases, with_constants
from tests.share import shared_parts
from tests.support import run
from xoptim.api.optimizing import optimize
from xoptim.facts.errors import ModelError

PARTS: Final = 16
FOLDERS: Final = ("xoptim/passes/opsets", "patterns/lowering")
_RANDOM: Final = "bernoulli"
_TOLERANCES: Final = {"float16": 4e-3, "bfloat16": 3e-2}
_ALWAYS: Final = {
    "attention_4d",
    "attention_3d_gqa",
    "group_normalization_example",
    "gelu_tanh_1",
    "mish",
    "rms_normalization_2d_axis0",
    "rotary_embedding",
    "split_equal_parts_1d_opset18",
    "swiglu",
    "constant_pad_axes",
    "reduce_sum_square_default_axes_keepdims_example",
    "swish",
}
"""Cases that are lowered to set 17 whatever onnxruntime can run."""


def newer_cases(target: int) -> list[Case]:
    """The cases of one node of operator sets that are newer than 17 and than ``target``."""
    found: list[Case] = []
    for case in all_cases():
        opset = next((entry.version for entry in case.model.opset_import if not entry.domain), 0)
        if case.kind == "node" and opset > max(17, target) and _RANDOM not in case.name:
            found.append(case)
    return found


def lowered(model: onnx.ModelProto, target: int) -> onnx.ModelProto | str:
    """The lowered model, or the reason why there is none."""
    try:
        return optimize(model, opset=target)
    except ModelError as error:
        return str(error)


def differences(case: Case, before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """The difference between a lowered model and both the original and the suite, if there is
    any.
    """
    names = {value.name for value in before.graph.input}
    feeds = {name: value for name, value in case.feeds(0).items() if name in names}
    expected: list[Sequence[Any]] = [case.data[0][1]]
    try:
        expected.insert(0, run(before, feeds))
    except Exception:  # onnxruntime has no kernel for the newer operator, or the type
        if not _runs(after, feeds):
            return ""
    found = run(after, feeds)
    messages = [_difference(found, each) for each in expected]
    return "" if not all(messages) else messages[0]


def _runs(model: onnx.ModelProto, feeds: dict[str, Any]) -> bool:
    try:
        run(model, feeds)
    except Exception:  # any of the many errors of onnxruntime
        return False
    return True


def _difference(found: Sequence[Any], expected: Sequence[Any]) -> str:
    for got, wanted in zip(found, expected, strict=True):
        if isinstance(wanted, list) or wanted is None:
            pairs = list(zip(got or [], wanted or [], strict=True))
        else:
            pairs = [(got, wanted)]
        for one, other in pairs:
            message = _of_arrays(np.asarray(one), np.asarray(other))
            if message:
                return message
    return ""


def _of_arrays(got: np.ndarray, wanted: np.ndarray) -> str:
    if wanted.dtype.kind in "OSU" or wanted.dtype.kind in "biu":
        return "" if np.array_equal(got, wanted) else f"{got!r} is not {wanted!r}"
    tolerance = _TOLERANCES.get(wanted.dtype.name, 1e-3)
    close = np.allclose(got, wanted, rtol=tolerance, atol=tolerance / 100, equal_nan=True)
    return "" if close and got.dtype == wanted.dtype else f"{got!r} is not close to {wanted!r}"


@pytest.mark.parametrize("target", [17, 13])
@pytest.mark.slow
@pytest.mark.parametrize("part", shared_parts(PARTS, 3, *FOLDERS))
def test_each_case_is_equal_or_refused(part: int, target: int) -> None:
    faults: list[str] = []
    for case in newer_cases(target)[part::PARTS]:
        model = case.model
        after = lowered(model, target)
        if isinstance(after, str) and "must be constant there" in after:
            model = with_constants(case, spare=1) or model
            after = lowered(model, target)
        if isinstance(after, str):
            assert f"cannot be lowered to operator set {target}: " in after
            assert "\n" not in after
            continue
        assert next(entry.version for entry in after.opset_import if not entry.domain) == target
        onnx.checker.check_model(after, full_check=True)
        message = differences(case, model, after)
        if message:
            faults.append(f"{case.name}: {message}")
    assert faults == []


def test_some_cases_are_not_refused() -> None:
    known = {case.name.removeprefix("test_"): case for case in newer_cases(17)}
    models = {name: with_constants(known[name], spare=1) or known[name].model for name in _ALWAYS}
    refused = {
        name: after
        for name, model in models.items()
        if isinstance(after := lowered(model, 17), str)
    }
    assert refused == {}
