"""No wrong rewrite is proved to have the same bits; over real numbers, only those that are equal
there.
"""

from typing import Final

import pytest

from tests.share import is_in_share
from tests.verification.wrong.case import Pair, Wrong
from tests.verification.wrong.cases import cases, right_cases
from xoptim.proof.proving import prove_models

EQUAL_OVER_REAL_NUMBERS: Final[dict[str, str]] = {
    "square_of_root": "Sqrt is real for numbers that are at least 0",
    "quotient_of_itself": "x / x is 1, but for 0",
    "factor_and_divisor": "x * d / d is x, but for d = 0",
    "variance_cancels": "the variance is equal, and rounded differently",
    "rounding_trick_dropped": "a large number is added and subtracted, which rounds",
    "times_zero": "x * 0 is 0, but for NaN and infinity",
    "sign_of_zero": "real numbers have one zero",
    "softplus_of_large": "Exp overflows",
    "softmax_without_maximum": "Exp overflows",
    "softmax_of_exponentials": "Exp overflows",
    "exp_of_a_sum": "Exp overflows",
    "log_of_softmax": "Exp underflows",
    "log_sum_exp_in_parts": "Exp overflows",
    "log_of_a_sum_of_exp": "Exp overflows",
    "softplus_of_exponentials": "Exp overflows",
    "log_sigmoid_in_two_steps": "Sigmoid underflows",
    "log_density_of_a_normal": "Exp underflows",
    "product_underflows": "the product of two small numbers underflows",
    "product_of_three": "the product of two large numbers overflows",
    "quotient_then_product": "the product of two large numbers overflows",
    "quotient_by_a_product": "the product of two small numbers underflows",
    "mean_of_two": "the sum of two large numbers overflows",
    "mean_of_row": "the sum of large numbers overflows",
    "difference_of_squares": "the square of a large number overflows",
}
"""Names of the wrong rewrites that are equal as functions of real numbers, each with the reason."""
MIN_PROVED: Final = 40
"""Of the right rewrites, which were collected for verification by runs."""
PARTS: Final = 8
FOLDERS: Final = ("xoptim/proof", "tests/verification/wrong")

CASES: Final = {case.name: case for case in cases()}
IN_SHARE: Final = [
    case
    for case in CASES.values()
    if case.name in EQUAL_OVER_REAL_NUMBERS or is_in_share(case.name, PARTS, *FOLDERS)
]


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_SHARE, ids=lambda case: case.name)
def test_a_wrong_rewrite_is_not_proved(case: Wrong) -> None:
    proof = prove_models(case.original, case.result)
    assert proof.grade != "same bits", case.why
    if case.name not in EQUAL_OVER_REAL_NUMBERS:
        assert not proof.is_proved, proof.sides


def test_the_list_names_wrong_rewrites() -> None:
    assert EQUAL_OVER_REAL_NUMBERS.keys() <= CASES.keys()
    assert all(EQUAL_OVER_REAL_NUMBERS.values())


@pytest.mark.slow
def test_each_in_the_list_is_still_proved() -> None:
    grades = {
        name: prove_models(CASES[name].original, CASES[name].result).grade
        for name in EQUAL_OVER_REAL_NUMBERS
    }
    assert all(grade.startswith("over real numbers") for grade in grades.values()), grades


@pytest.mark.slow
def test_right_rewrites_are_proved() -> None:
    def is_proved(case: Pair) -> bool:
        return prove_models(case.original, case.result).is_proved

    assert sum(map(is_proved, right_cases())) >= MIN_PROVED
