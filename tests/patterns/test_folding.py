"""The guard of all constants that patterns derive from constants."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xoptim
from tests.support import load, parse, types
from xoptim.facts.errors import Declined
from xoptim.match.view import GraphView
from xoptim.patterns._folding import added, cancels, constant, multiplied, rounded

HALF, SINGLE, BRAIN = np.dtype(np.float16), np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)


def fits(exact: float | np.ndarray, dtype: np.dtype, **conditions: Any) -> bool:
    """Whether the guard lets numbers pass."""
    try:
        rounded(exact, dtype, **conditions)
    except Declined:
        return False
    return True


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (1.0, HALF, True),
        (0.0, HALF, True),
        (4000.0, HALF, True),
        (5000.0, HALF, False),
        (np.inf, HALF, False),
        (np.nan, SINGLE, False),
        (3.5e38, SINGLE, False),
        (1e-4, HALF, True),
        (1e-5, HALF, False),
        (1e-8, HALF, False),
        (1e-37, SINGLE, True),
        (1e-39, SINGLE, False),
        (1e-46, SINGLE, False),
        (1e-37, BRAIN, True),
        (1e39, BRAIN, False),
    ],
)
def test_a_factor_must_stay_in_the_normal_range(
    number: float, dtype: np.dtype, expected: bool
) -> None:
    assert fits(number, dtype) is expected
    if expected:
        found = rounded(number, dtype)
        assert found.dtype == dtype
        assert float(found) == float(np.asarray(number).astype(dtype))


def test_one_factor_out_of_range_is_enough() -> None:
    assert not fits(np.array([1.0, 1e-9]), HALF)
    assert not fits(np.array([1.0, 1e9]), HALF)
    assert fits(np.zeros(0), HALF)


def test_a_factor_may_be_nothing_next_to_others_of_its_sum() -> None:
    weights = np.array([[1.0, 1e-7], [2.0, 1.0]])
    assert fits(weights, HALF, summed=1)
    assert fits(weights, HALF, summed=0)
    assert not fits(np.array([[1e-7, 1e-7], [2.0, 1.0]]), HALF, summed=1)
    assert fits(np.array([[1e-7, 1e-7], [2.0, 1.0]]), HALF, summed=0)
    assert not fits(weights * 1e5, HALF, summed=1)


def test_terms_may_be_small_but_not_large() -> None:
    assert fits(1e-8, HALF, terms=())
    assert not fits(1e5, HALF, terms=())


def test_terms_that_cancel() -> None:
    assert not fits(0.0, SINGLE, terms=(8.0, -8.0))
    assert fits(0.0, SINGLE, terms=(8.0, -8.0), other=1.0)
    assert not fits(0.0, HALF, terms=(16.0, -16.0), other=1.0)
    assert fits(-2.0, SINGLE, terms=(1.0, -3.0))
    few = np.array([0.0, 1.0, 2.0])
    assert fits(few, SINGLE, terms=(np.array([0.5, 1, 1]), np.array([-0.5, 0, 1]))), (
        "next to the others"
    )
    assert not fits(few, SINGLE, terms=(np.array([1e4, 1, 1]), np.array([-1e4, 0, 1])))
    assert cancels([1e3], 1.0, SINGLE)
    assert not cancels([1e3], 1.0, np.dtype(np.float64))


def test_sums_and_products_of_pairs() -> None:
    numbers = np.array([2.0**23]), np.array([-(2.0**23)])
    with pytest.raises(Declined, match="cancel"):
        added(*numbers, SINGLE)
    with pytest.raises(Declined, match="overflow"):
        added(np.array([3e38]), np.array([3e38]), SINGLE)
    assert added(np.array([1.0]), np.array([2.0]), SINGLE) == np.float32(3)
    with pytest.raises(Declined, match="very large"):  # a result in between could overflow
        multiplied(np.array([1e-30]), np.array([1e30]), SINGLE)
    assert multiplied(np.array([1e-15]), np.array([1e-15]), SINGLE) == np.float32(1e-30)
    assert added(np.array([127], np.int8), np.array([1], np.int8), np.dtype(np.int8)) == np.int8(
        -128
    )


WITHOUT_VALUE = """agraph (float[2] x) => (float[2] y) <float[2] k = {1, 2}, int64 at = {0}, float
  a = {0.5}, float c = {2}>
    { s = SequenceConstruct(k, k) b = SequenceAt(s, at) t = Mul(x, a) u = Add(b, t)
      y = Mul(u, c) }"""


def test_a_constant_that_cannot_be_computed_ahead_of_time_is_not_zero() -> None:
    """It once counted as 0, like a bias that is left out."""
    original = parse(WITHOUT_VALUE)
    optimized = xoptim.optimize(original, patterns=["MulAddMul"])
    assert types(optimized) == types(original)
    nearest, *_ = xoptim.explain(original, "MulAddMul")
    assert "value of 'b'" in str(nearest)


def test_an_operand_that_is_omitted_is_zero() -> None:
    view = GraphView(load(WITHOUT_VALUE).graph)
    assert constant(view, "").shape == ()
    assert constant(view, "k").tolist() == [1, 2]
    with pytest.raises(Declined, match="value of 'b'"):
        constant(view, "b")
