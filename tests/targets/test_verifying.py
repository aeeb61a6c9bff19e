"""The comparison on a target, with onnxruntime on the processor as the target."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest

from tests.plugged import array
from tests.support import parse
from xoptim import VerificationOptions
from xoptim.targets import named
from xoptim.targets.verifying import TargetCheck, error_of, tolerance_of, verify_on_target
from xoptim.verification import Session, SessionSettings, Value

RELU = "agraph (float[n,3] x) => (float[n,3] y) { t = Abs(x) u = Neg(t) y = Exp(u) }"
QUANTIZED = (
    "agraph (float[n] x) => (float[n] y) <float s = {0.5}, uint8 z = {3}> "
    "{ t = QuantizeLinear(x, s, z) y = DequantizeLinear(t, s, z) }"
)


def checked(original: str, result: str, **options: Any) -> TargetCheck:
    return verify_on_target(
        parse(original), parse(result), named("cpu"), VerificationOptions(), **options
    )


@pytest.mark.parametrize(
    ("expected", "actual", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, -4.0], [1.0, -3.0], 0.25),
        ([0.0, 0.0], [0.0, 0.5], 0.5),
        ([np.inf, 1.0], [np.inf, 1.0], 0.0),
        ([np.inf, 1.0], [-np.inf, 1.0], np.inf),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan, 1.0], [np.inf, 1.0], np.inf),
        ([1.0, 1.0], [np.nan, 1.0], np.inf),
        ([1.0], [1.0, 1.0], np.inf),
    ],
)
def test_errors(expected: list[float], actual: list[float], error: float) -> None:
    assert error_of(np.array(expected, np.float32), np.array(actual, np.float32)) == error


def test_integers_count_by_elements() -> None:
    assert error_of(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])) == 0.25


def test_equal() -> None:
    check = checked(RELU, RELU)
    assert (check.status, check.error, check.tolerance) == ("equal", 0.0, named("cpu").tolerance)
    assert check.runs >= 1


def test_another_result() -> None:
    check = checked(RELU, RELU.replace("Exp(u)", "Exp(t)"))
    assert check.status == "different"
    assert "output 'y' differs" in check.reason
    assert check.node == ""  # the target computes each node right


Error: TypeAlias = Callable[[onnx.ModelProto, SessionSettings], float]
HALVES = (
    "agraph (float[n] x) => (float[n] y) <float zero = {0}, float one = {1}> { t = Mul(x, zero) "
    "y = Add(t, one) }"
)
MORE = HALVES.replace("y = Add(t, one)", "u = Add(t, one) y = Identity(u)")


class _Inexact(Session):
    """A session of a target whose results differ by a number."""

    error = 0.0

    def run(self, feeds: Mapping[str, Value], limit: float | None = None) -> list[Value]:
        return [array(each) + np.float32(self.error) for each in super().run(feeds, limit)]


def inexact(error: Error, patch: pytest.MonkeyPatch) -> None:
    """Let results on the target differ by the error of a model and the settings of its session."""

    def opened(model: onnx.ModelProto, settings: SessionSettings, **options: Any) -> Session:
        session = _Inexact(model, replace(settings, providers=("cpu",), isolated=False), **options)
        session.error = error(model, settings) if settings.isolated else 0.0
        return session

    patch.setattr("xoptim.targets.verifying.Session", opened)


@pytest.mark.parametrize(
    ("factor", "status"), [(1.0, "not verified"), (1.9, "not verified"), (2.1, "different")]
)
def test_a_result_that_is_as_inexact_there_as_the_original(
    factor: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arithmetic of the target is at fault then, not the result."""
    inexact(lambda model, _: 0.25 if len(model.graph.node) == 2 else 0.25 * factor, monkeypatch)
    check = checked(HALVES, MORE)
    assert check.status == status
    is_named = "and the original differs by 0.25 there as well" in check.reason
    assert is_named == (status == "not verified")


@pytest.mark.parametrize(
    ("exact", "rounded", "status", "reason"),
    [
        (0.0, 0.02, "equal", ""),
        (
            2e-3,
            0.02,
            "different",
            "output 'y' differs by 0.002 relative to its largest value, more than 0.001",
        ),
        (
            0.0,
            0.5,
            "not verified",
            (
                "differs by 0.5 relative to its largest value, more than 0.04, but by 0 where "
                "openvino computes in"
            ),
        ),
    ],
)
def test_a_target_that_rounds_is_checked_in_32_bits_first(
    exact: float, rounded: float, status: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tolerance of its arithmetic would hide what it computes wrongly."""
    errors = {True: exact, False: rounded}
    inexact(
        lambda model, settings: errors[settings.float32] if len(model.graph.node) == 3 else 0.0,
        monkeypatch,
    )
    check = verify_on_target(parse(HALVES), parse(MORE), named("openvino"), VerificationOptions())
    assert check.status == status
    assert reason in check.reason


def test_a_result_that_was_quantized_has_the_tolerance_of_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target does not make its error."""
    inexact(lambda model, _: 0.02 if len(model.graph.node) == 3 else 0.0, monkeypatch)
    stored = MORE.replace("float one = {1}", "float one = {1}, int8 w = {1}")
    check = verify_on_target(parse(HALVES), parse(stored), named("openvino"), VerificationOptions())
    assert (check.status, check.tolerance) == ("equal", 0.04)


@pytest.mark.parametrize(("alone", "operator"), [(0.0, ""), (0.25, "Mul")])
def test_a_node_is_named_that_is_wrong_with_right_operands(
    alone: float, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the errors of its operands added up."""
    inexact(lambda model, _: alone if len(model.graph.node) == 1 else 0.25, monkeypatch)
    monkeypatch.setattr("xoptim.targets.verifying._Pair._error_of_original", lambda *_: 0.0)
    check = checked(HALVES, MORE)
    assert (check.status, check.operator) == ("different", operator)


def test_other_outputs() -> None:
    assert checked(RELU, RELU.replace("y", "z")).reason.endswith(" z, not y")


def test_nothing_to_compare_is_not_equal() -> None:
    hollow = (
        "agraph (float[n,3] x) => (float[n,3] y) { t = Abs(x) u = Sub(t, t) v = Div(u, u) "
        "y = Relu(v) }"
    )
    check = checked(hollow, hollow)
    assert (check.status, check.ok) == ("not verified", False)
    assert "y had no finite " in check.reason


def test_a_step_of_quantization_is_allowed_where_the_original_quantizes() -> None:
    target = named("cpu")
    rounding: onnx.ModelProto = parse("agraph (float[n] x) => (float[n] y) { y = Round(x) }")
    assert tolerance_of(target, parse(QUANTIZED)) == 0.02
    halves = parse("agraph (float16[n] x) => (float16[n] y) { y = Round(x) }")
    assert tolerance_of(target, halves) == 8e-3
    assert tolerance_of(target, rounding) == target.tolerance
    assert checked(QUANTIZED, QUANTIZED, tolerance=0.5).tolerance == 0.5
