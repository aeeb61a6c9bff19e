"""The errors to expect on values that are not among the samples."""

import math

import numpy as np
import pytest

from xoptim.precision.unseen import unseen_errors


def test_no_error_is_expected_where_none_was_measured() -> None:
    assert unseen_errors([(0.0,), (0.0,)]) == (0.0,)


def test_an_error_without_limit_stays_without_limit() -> None:
    assert unseen_errors([(0.01,), (math.inf,)]) == (math.inf,)


def test_slices_are_expected_one_by_one() -> None:
    first, second = unseen_errors([(0.01, 0.5), (0.01, 0.1)])
    assert (first,) == unseen_errors([(0.01,), (0.01,)])
    assert (second,) == unseen_errors([(0.5,), (0.1,)])


def test_few_samples_leave_more_room_than_many() -> None:
    rooms = [unseen_errors([(0.01,)] * count)[0] / 0.01 for count in (1, 2, 10, 100)]
    assert rooms == sorted(rooms, reverse=True)
    assert rooms == pytest.approx([1.63, 1.45, 1.16, 1.05], abs=0.03)


def test_errors_that_vary_leave_more_room() -> None:
    equal, varied = ([(error,) for error in errors] for errors in ([2.0] * 10, [0.5, 2.0] * 5))
    assert unseen_errors(varied)[0] > 1.5 * unseen_errors(equal)[0]


def test_errors_near_zero_count_as_a_part_of_the_largest() -> None:
    assert unseen_errors([(1e-9,), (1.0,)]) == unseen_errors([(1 / 8,), (1.0,)])


def test_an_error_of_zero_says_nothing_about_others() -> None:
    assert unseen_errors([(0.0,), (0.0,), (0.01,)], 3) == unseen_errors([(0.01,)], 3)


def test_a_choice_that_is_measured_on_more_samples_later_has_less_room() -> None:
    errors = [(0.01,), (0.012,)]
    assert unseen_errors(errors, 10) < unseen_errors(errors)
    assert unseen_errors(errors, 1) == unseen_errors(errors)


def test_the_largest_error_of_the_samples_is_the_least_expectation() -> None:
    assert unseen_errors([*[(0.01,)] * 50, (0.05,)]) == (0.05,)


def test_the_order_and_the_scale_of_errors_do_not_matter() -> None:
    errors = [(0.01,), (0.02,), (0.04,)]
    assert unseen_errors(reversed(errors)) == pytest.approx(unseen_errors(errors))
    scaled = unseen_errors((1000 * error,) for (error,) in errors)
    assert scaled[0] == pytest.approx(1000 * unseen_errors(errors)[0])


@pytest.mark.parametrize(("spread", "count"), [(0.1, 5), (0.3, 10), (0.8, 10), (0.3, 40)])
def test_few_of_the_values_that_are_drawn_alike_exceed_the_expectation(
    spread: float, count: int
) -> None:
    generator = np.random.default_rng(0)
    shares = []
    for _ in range(300):
        errors = np.exp(generator.normal(-4, spread, (count + 100, 1)))
        (limit,) = unseen_errors(map(tuple, errors[:count]))
        shares.append(np.mean(errors[count:] > limit))
    assert 0.005 < np.mean(shares) < 0.06
