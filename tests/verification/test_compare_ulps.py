"""Distances in units in the last place."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import parser

from xoptim.verification import ComparisonRules, VerificationOptions, compare_values, verify_models
from xoptim.verification.judging.ulps import largest_ulp, ulp_distances

TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize("dtype", TYPES)
def test_neighbours_are_one_step_apart(dtype: Any) -> None:
    values = np.array([1.0, -1.0, 2.0, 0.5, -3.0], dtype)
    bits = values.view({8: np.int64, 4: np.int32, 2: np.int16, 1: np.int8}[values.dtype.itemsize])
    for steps in (0, 1, 2):
        other = (bits + steps).view(dtype)
        assert ulp_distances(values, other).tolist() == [steps] * 5
        assert ulp_distances(other, values).tolist() == [steps] * 5


def test_through_zero() -> None:
    tiny = np.float32(1e-45)
    assert ulp_distances(
        np.array([tiny, 0.0, -0.0], np.float32), np.array([-tiny, -0.0, tiny], np.float32)
    ).tolist() == [
        2,
        0,
        1,
    ]


def test_nan_and_infinity() -> None:
    a = np.array([np.nan, np.nan, np.inf, 1.0])
    b = np.array([np.nan, 1.0, np.inf, np.inf])
    found = ulp_distances(a, b).tolist()
    assert found[:3] == [0.0, np.inf, 0.0]
    assert found[3] > 2**50


def test_complex_numbers_count_by_their_parts() -> None:
    a = np.array([1 + 1j, 2 + 0j], np.complex64)
    b = np.array([1 + np.nextafter(np.float32(1), np.float32(2)) * 1j, 2 + 0j], np.complex64)
    assert ulp_distances(a, b).tolist() == [1, 0]


def test_nothing_to_compare() -> None:
    assert largest_ulp(np.zeros(0, np.float32), np.zeros(0, np.float32)) == 0


@pytest.mark.parametrize(("allowed", "ok"), [(None, True), (0, False), (3, False), (4, True)])
def test_as_a_rule(allowed: int | None, ok: bool) -> None:
    a = np.linspace(1, 2, 5, dtype=np.float32)
    b = (a.view(np.int32) + 4).view(np.float32)
    (found,) = compare_values("y", a, b, ComparisonRules(ulp=allowed))
    assert found.ok is ok
    assert found.max_ulp == 4


def test_as_a_choice_of_the_user() -> None:
    before, after = (
        parser.parse_model(
            f'<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) {{ {body} }}'
        )
        for body in (
            "y = Exp(x)",
            "h = Constant<value_float = 0.5>() a = Mul(x, h) b = Exp(a) y = Mul(b, b)",
        )
    )
    assert verify_models(before, after).ok
    assert verify_models(before, after, VerificationOptions(ulp=64)).ok
    assert verify_models(before, after, VerificationOptions(ulp=0)).status == "different"
    assert verify_models(before, before, VerificationOptions(ulp=0)).ok
