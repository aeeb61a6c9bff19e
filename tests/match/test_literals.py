"""Constants compared with the numbers of patterns."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xoptim.match.literals import equals_literal


def literal(value: Any, dtype: Any) -> np.ndarray:
    return np.array([value]).astype(dtype)


@pytest.mark.parametrize(
    ("value", "dtype", "number", "expected"),
    [
        (0.5, np.float32, 0.5, True),
        (np.sqrt(2), np.float16, 1.4142135623, True),
        (np.sqrt(2), ml_dtypes.bfloat16, 1.4142135623, True),
        (0.044715, np.float32, 0.044715, True),
        (0.0447, np.float32, 0.044715, False),
        (1.0, np.float32, 1.00001, False),
        (1.0, np.float64, 1 + 1e-12, False),
        (1.0, np.float16, 1.01, False),
        (3, np.int64, 3, True),
        (3, np.int64, 3.0, True),
        (3, np.int64, 3.5, False),
        (1 << 62, np.int64, (1 << 62) + 1, False),
        (3, ml_dtypes.int4, 3, True),
        (3, ml_dtypes.int4, 4, False),
        (True, np.bool_, True, True),
        (True, np.bool_, False, False),
        (False, np.bool_, True, False),
        (1, np.int64, True, False),
        (1.0, np.float32, True, False),
        (np.inf, np.float32, np.inf, True),
        (-np.inf, np.float32, np.inf, False),
        (1.0, np.float32, np.inf, False),
        (np.inf, np.float32, 1.0, False),
        (np.nan, np.float32, 1.0, False),
        (1.0, np.float32, np.nan, False),
        (-65504, np.float16, -1e9, False),
        (1.0, np.float16, 1e9, False),
        (np.inf, np.float16, 1e9, True),
        (2.0, np.float32, 1e300, False),
        (0.0, np.float32, 0, True),
        (1e-30, np.float32, 0, False),
        ("1", object, 1, False),
        (1 + 0j, np.complex64, 1, False),
    ],
)  # fmt: skip
def test_literals(value: Any, dtype: Any, number: Any, expected: bool) -> None:
    assert equals_literal(literal(value, dtype), number) is expected


@pytest.mark.parametrize(
    "name", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"]
)
def test_a_number_is_what_its_type_makes_of_it_and_nothing_else(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    for literal in (0.5, 2.0, 0.044715, -1.702, 6.0):
        stored = np.asarray(literal).astype(dtype)
        assert equals_literal(stored, literal)
        for factor in (0.7, 1.4, -1.0, 0.0):
            assert not equals_literal((np.asarray(literal) * factor).astype(dtype), literal), (
                literal,
                factor,
            )


@pytest.mark.parametrize(
    ("name", "step"),
    [("bfloat16", 2.0**-7), ("float16", 2.0**-10), ("float32", 2.0**-23), ("float64", 2.0**-52)],
)
def test_a_number_next_to_it(name: str, step: float) -> None:
    """Another one where 16 bits hold the number that is asked for, else one that was rounded
    otherwise on the way.
    """
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    for number in (1, -1, 0.5, 2.0, 6.0):
        assert equals_literal(np.asarray(number).astype(dtype), number)
        assert not equals_literal(np.asarray(number * (1 + step)).astype(dtype), number)
        assert not equals_literal(np.asarray(number * (1 - step / 2)).astype(dtype), number)
    for number in (0.044715, 2**0.5, 1 / 6):
        assert equals_literal(np.asarray(number * (1 + step)).astype(dtype), number)
        assert not equals_literal(np.asarray(number * (1 + 4 * step)).astype(dtype), number)
