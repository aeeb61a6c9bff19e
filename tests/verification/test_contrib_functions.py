"""Contrib operators that CPUs lack are verified by their definitions."""

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse, run
from xoptim.verification.runs.contrib_functions import (
    DOMAIN,
    contrib_functions,
    with_contrib_functions,
)
from xoptim.verification.runs.protos import read_defined

_IMAGE = (
    "agraph (float[n,h,w,4] x, float[4] s, float[4] b) => (float[n,h,w,4] y) "
    "{ y = com.microsoft.GroupNorm <groups = 2, activation = 1> (x, s, b) }"
)


def _parse(text: str, opset: int = 18) -> onnx.ModelProto:
    return parse(text, opset, domains={"com.microsoft": 1})


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opset", [15, 17, 21])
def test_a_model_that_onnxruntime_does_not_run_is_verified(opset: int) -> None:
    model = _parse(_IMAGE, opset)
    lowered = xoptim.optimize(model, patterns="lower", strict=True)
    report = xoptim.verify(model, lowered)
    assert report.ok, report.reason
    assert any("com.microsoft::GroupNorm: " in note for note in report.notes)


def test_a_sum_that_a_normalization_cancels_is_noise() -> None:
    """Of equal large numbers, the variance is the rounding error of their mean."""
    model = _parse(
        "agraph (float[n,5,6,4] x, float[4] s, float[4] b, float[n,5,6,4] k, float[4] c) => "
        "(float[n,5,6,4] y) { y = com.microsoft.SkipGroupNorm <groups = 2, activation = 0, "
        "epsilon = 0.001> (x, s, b, k, c) }"
    )
    lowered = xoptim.optimize(model, patterns="lower", strict=True)
    assert "SkipGroupNorm" not in [node.op_type for node in lowered.graph.node]
    report = xoptim.verify(model, lowered)
    assert report.ok, report.reason


def test_a_wrong_result_is_noticed() -> None:
    model = _parse(_IMAGE)
    wrong = _parse(_IMAGE.replace("activation = 1", "activation = 0"))
    assert xoptim.verify(model, wrong).status == "different"


def test_calls_with_equal_attributes_share_a_function() -> None:
    model = _parse(
        "agraph (float[n,3,4] x, float[4] b) => (float[n,3,4] y) { t = com.microsoft.BiasAdd(x, "
        "b, x) y = com.microsoft.BiasAdd(t, b, x) }"
    )
    defined = with_contrib_functions(model)
    assert len(defined.functions) == 1
    assert {node.domain for node in defined.graph.node} == {DOMAIN}
    assert contrib_functions(defined) == ["com.microsoft::BiasAdd"]
    x, b = _floats(2, 3, 4), _floats(4)
    (result,) = run(defined, {"x": x, "b": b})
    np.testing.assert_allclose(result, 3 * x + 2 * b, rtol=1e-5, atol=1e-6)


def test_a_split_with_gelu() -> None:
    model = _parse(
        "agraph (float[n,3,4] x, float[4] b) => (float[n,3,2] y) "
        "{ y = com.microsoft.BiasSplitGelu(x, b) }"
    )
    x, b = _floats(2, 3, 4), _floats(4)
    (result,) = run(with_contrib_functions(model), {"x": x, "b": b})
    left, right = np.split(x + b, 2, axis=-1)
    tail = np.vectorize(lambda v: _normal_distribution(float(v)))(right)
    np.testing.assert_allclose(result, left * right * tail, rtol=1e-4, atol=1e-6)


def _normal_distribution(value: float) -> float:
    """The integral of the normal density from -8 to a value, by the trapezoidal rule."""
    points = np.linspace(-8, value, 20001)
    return float(np.trapezoid(np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi), points))


def test_a_mean_of_integers() -> None:
    model = _parse(
        "agraph (uint8[n,3,4] x) => (uint8[n,1,4] y) <float s = {0.5}, uint8 z = {100}, "
        "float t = {0.25}, uint8 u = {120}> { y = com.microsoft.QLinearReduceMean <axes = [1], "
        "keepdims = 1> (x, s, z, t, u) }"
    )
    x = np.random.default_rng(0).integers(90, 120, (2, 3, 4)).astype(np.uint8)
    (result,) = run(with_contrib_functions(model), {"x": x})
    mean = (x.astype(np.float64) - 100).mean(axis=1, keepdims=True) * 0.5
    np.testing.assert_allclose(result, np.clip(np.rint(mean / 0.25) + 120, 0, 255), atol=1)


def test_what_is_left_as_it_is() -> None:
    own = (
        f'{_IMAGE} <domain: "com.microsoft", opset_import: ["" : 18]> '
        "GroupNorm <groups, activation> (x, s, b) => (y) { y = Add(x, s) }"
    )
    for text in (
        "agraph (float[n] x) => (float[n] y) { y = com.microsoft.Gelu(x) }",  # it has a kernel
        "agraph (float[n] x) => (float[n] y) { y = com.microsoft.Unknown(x) }",
        own,
        _IMAGE.replace("groups = 2, ", ""),  # invalid
        _IMAGE.replace("groups = 2", 'groups = "{"'),
        _IMAGE.replace("groups = 2", "groups = [2]"),
    ):
        model = _parse(text)
        assert with_contrib_functions(model) is model
    old = _parse(_IMAGE, 14)
    assert with_contrib_functions(old) is old


def test_an_operand_that_is_omitted() -> None:
    model = _parse(
        "agraph (float[n,h,w,2] x, float[3,2,1,1] k) => (float[n,h,w,3] y) { "
        "y = com.microsoft.NhwcConv(x, k, ) }"
    )
    model.graph.node[0].input.append("")
    x, k = _floats(2, 4, 5, 2), _floats(3, 2, 1, 1)
    (result,) = run(with_contrib_functions(model), {"x": x, "k": k})
    np.testing.assert_allclose(result, x @ k[:, :, 0, 0].T, rtol=1e-5, atol=1e-6)


def test_other_providers_run_their_kernels() -> None:
    model = _parse(_IMAGE)
    assert read_defined(model, None, [], ["cuda"])[0] is model
    assert read_defined(model, None, [], ["CPUExecutionProvider"])[0] is not model
