"""Errors of outputs."""

from fractions import Fraction

import numpy as np
import pytest

from xoptim.precision.metrics import Metric, error, is_measurable
from xoptim.verification.errors import ChoiceError
from xoptim.verification.runs.session import Value

EXPECTED = np.array([[1.0, -4.0, 2.0], [0.0, 3.0, 1.0]], np.float32)


@pytest.mark.parametrize(
    ("metric", "found"), [("largest", 1 / 4), ("rms", np.sqrt(1 / 31)), ("choice", 0.0)]
)
def test_one_number_differs(metric: Metric, found: float) -> None:
    actual = EXPECTED.copy()
    actual[0, 1] += 1
    assert error(metric, [EXPECTED], [actual]) == pytest.approx(found)


def test_another_choice() -> None:
    actual = EXPECTED.copy()
    actual[1, 2] = 5
    assert error("choice", [EXPECTED], [actual]) == 0.5


def test_largest_output_counts() -> None:
    assert error("largest", [EXPECTED, EXPECTED], [EXPECTED, EXPECTED * 2]) == 1.0


def test_what_is_not_finite() -> None:
    expected, actual = np.array([np.inf, 2.0], np.float32), np.array([7.0, 2.0], np.float32)
    assert error("largest", [expected], [actual]) == 0.0
    assert error("largest", [actual], [expected]) == np.inf


@pytest.mark.parametrize(
    "value",
    [np.array([np.nan, np.inf]), np.zeros((2, 0), np.float32), np.zeros(0, int), [], None, {}],
)
def test_outputs_without_a_number(value: Value) -> None:
    assert not is_measurable([value])
    assert is_measurable([value, np.array([np.nan, 0.0])])


@pytest.mark.parametrize("value", [np.zeros(1, int), np.array(["a"]), [EXPECTED], {"a": 0.5}])
def test_outputs_with_an_element(value: Value) -> None:
    assert is_measurable([value])


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        (np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5]), 0.25),
        (np.array(["a", "b"]), np.array(["a", "c"]), 0.5),
        (np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32), 0.0),
        (np.zeros(2, np.float32), np.zeros(2, np.float32), 0.0),
        (np.zeros(2, np.float32), np.ones(2, np.float32), 1.0),
        (np.zeros(2, np.float32), np.zeros(3, np.float32), np.inf),
        (np.zeros(2, np.float32), None, np.inf),
        ([EXPECTED], [EXPECTED], 0.0),
        ([EXPECTED, EXPECTED], [EXPECTED, 2 * EXPECTED], 1.0),
        ([EXPECTED], [EXPECTED, EXPECTED], np.inf),
        ([{"a": 0.5, "b": 2.0}], [{"b": 2.5, "a": 0.5}], 0.25),
        ({"a": 0.5}, {"b": 0.5}, np.inf),
        (None, None, 0.0),
    ],
)
def test_other_outputs(expected: np.ndarray, actual: np.ndarray, found: float) -> None:
    assert error("largest", [expected], [actual]) == found


@pytest.mark.parametrize("result", ["0.01", "large", None, [0.01], np.zeros(2)])
def test_a_function_that_returns_no_number_is_named(result: object) -> None:
    def own_metric(expected: np.ndarray, actual: np.ndarray) -> float:
        return result  # type: ignore[return-value]

    with pytest.raises(ChoiceError, match="own_metric returned "):
        error(own_metric, [EXPECTED], [EXPECTED])


@pytest.mark.parametrize("result", [0.25, np.float32(0.25), np.array(0.25), Fraction(1, 4)])
def test_a_function_may_return_any_number(result: float) -> None:
    assert error(lambda expected, actual: result, [EXPECTED], [EXPECTED]) == 0.25
