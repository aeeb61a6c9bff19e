"""Errors of the finer forms of a constant follow from the measured one."""

import numpy as np
import pytest

from xoptim.precision.candidates import Candidate
from xoptim.precision.samples import Samples
from xoptim.precision.scaled_errors import coarsest, scaled_errors

LOSSES = {"Int8": 0.1, "Float16": 0.001}


def constant(weights: str, pattern: str, bits: int) -> Candidate:
    return Candidate(
        f"{weights}_read",
        "",
        pattern,
        "MatMul",
        (8, 8),
        weights,
        element_bits=bits,
        is_weight_only=True,
    )


INT8, FLOAT16 = constant("w", "Int8", 8), constant("w", "Float16", 16)
OTHER = constant("v", "Float16", 16)


def test_the_form_with_fewest_bits_is_measured() -> None:
    assert coarsest([FLOAT16, INT8, OTHER], "largest") == [INT8, OTHER]


@pytest.mark.parametrize("metric", ["choice", "cosine", lambda expected, actual: 0.0])
def test_all_forms_are_measured_where_errors_are_not_proportional(metric: object) -> None:
    assert coarsest([FLOAT16, INT8], metric) == [FLOAT16, INT8]  # type: ignore[arg-type]


def scaled(errors: tuple[float, ...], loss: float = 0.1) -> dict[tuple[str, str], object]:
    losses = {**LOSSES, "Int8": loss}
    measured = {INT8.form: errors}
    return {**scaled_errors(measured, [INT8], [INT8, FLOAT16], lambda each: losses[each.pattern])}


def test_errors_are_in_proportion_to_what_the_constant_loses() -> None:
    errors = scaled((0.02, 0.0))
    assert errors.keys() == {FLOAT16.form}
    assert errors[FLOAT16.form] == pytest.approx((0.0002, 0.0))


@pytest.mark.parametrize("errors", [(0.02, 0.3), (np.inf,)])
def test_large_errors_say_nothing_about_other_forms(errors: tuple[float, ...]) -> None:
    assert not scaled(errors)


def test_what_a_form_holds_exactly_says_nothing_about_others() -> None:
    assert not scaled((0.0,), loss=0.0)


@pytest.mark.parametrize(
    ("multiplications", "count"), [(0, 8), (10**8, 8), (10**9, 4), (3 * 10**9, 1), (10**12, 1)]
)
def test_expensive_models_are_ranked_on_fewer_samples(multiplications: int, count: int) -> None:
    samples = Samples([{}] * 16, are_random=False)
    assert samples.to_rank(multiplications) == range(count)


def test_random_samples_all_rank() -> None:
    assert Samples([{}] * 4, are_random=True).to_rank(10**12) == range(2)
