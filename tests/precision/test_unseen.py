"""The errors to expect on values that are not among the samples."""

import math

import numpy as np
import pytest

from xoptim.precision.unseen import random_errors, typical_spread, unseen_errors

MANY = 100_000
"""Number of elements of an output."""


def unseen(*errors: float, count: int = MANY, samples: int = 0) -> float:
    """The error to expect of one slice."""
    return unseen_errors([(error,) for error in errors], [count], samples)[0]


def test_no_error_is_expected_where_none_was_measured() -> None:
    assert unseen(0.0, 0.0) == 0.0


def test_an_error_without_limit_stays_without_limit() -> None:
    assert unseen(0.01, math.inf) == math.inf
    assert unseen(0.01, 1e308) == 1e308, "of a metric of the caller"


def test_slices_are_expected_one_by_one() -> None:
    expected = unseen(0.01, 0.01), unseen(0.5, 0.1, count=2)
    assert unseen_errors([(0.01, 0.5), (0.01, 0.1)], [MANY, 2]) == expected


def test_few_samples_leave_more_room_than_many() -> None:
    rooms = [unseen(*[1.0] * count) for count in (1, 2, 10, 100)]
    assert rooms == sorted(rooms, reverse=True)
    assert rooms == pytest.approx([1.47, 1.32, 1.13, 1.04], abs=0.02)


def test_the_spread_of_errors_on_random_samples_does_not_count() -> None:
    for smallest in (0.0, 0.001, 0.03):
        assert random_errors([(smallest, 0.1), (0.03, 0.2)], 4) == pytest.approx((0.0375, 0.25))


def test_errors_that_vary_leave_more_room() -> None:
    assert unseen(*[0.5, 2.0] * 5) > 1.5 * unseen(*[2.0] * 10)


@pytest.mark.parametrize(
    ("count", "spread"), [(1, 0.6), (2, 0.57), (10, 0.27), (100, 0.15), (MANY, 0.1)]
)
def test_errors_of_few_numbers_are_expected_to_vary(count: int, spread: float) -> None:
    assert typical_spread(count) == pytest.approx(spread, abs=0.005)
    assert typical_spread(0) == 0.1, "a sequence, whose elements are not counted"
    assert unseen(0.01, count=count) >= unseen(0.01)


def test_errors_near_zero_count_as_a_part_of_the_largest() -> None:
    assert unseen(1e-9, 1.0) == unseen(1 / 8, 1.0)


def test_an_error_of_zero_says_nothing_about_others() -> None:
    assert unseen(0.0, 0.0, 0.01) == unseen(0.01, samples=3)


def test_a_choice_that_is_measured_on_more_samples_later_has_less_room() -> None:
    assert unseen(0.01, 0.012, samples=10) < unseen(0.01, 0.012)
    assert unseen(0.01, 0.012, samples=1) == unseen(0.01, 0.012)


def test_the_largest_error_of_the_samples_is_the_least_expectation() -> None:
    assert unseen(*[0.01] * 50, 0.05) == 0.05


def test_the_order_and_the_scale_of_errors_do_not_matter() -> None:
    errors = [0.01, 0.02, 0.04]
    assert unseen(*reversed(errors)) == pytest.approx(unseen(*errors))
    assert unseen(10, 20, 40) == pytest.approx(1000 * unseen(*errors))


@pytest.mark.parametrize(
    ("spread", "samples", "elements"), [(0.1, 5, MANY), (0.3, 10, 10), (0.8, 10, 2), (0.3, 40, 10)]
)
def test_few_of_the_values_that_are_drawn_alike_exceed_the_expectation(
    spread: float, samples: int, elements: int
) -> None:
    generator = np.random.default_rng(0)
    shares = []
    for _ in range(300):
        errors = np.exp(generator.normal(-4, spread, samples + 100))
        limit = unseen(*errors[:samples], count=elements)
        shares.append(np.mean(errors[samples:] > limit))
    assert 0.005 < np.mean(shares) < 0.06
