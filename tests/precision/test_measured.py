"""Candidates with made-up times and errors."""

from dataclasses import FrozenInstanceError

import pytest

from xoptim.precision.candidates import Candidate
from xoptim.precision.measured import Measured, OperatorCost, worthwhile


@pytest.mark.parametrize(
    ("op_type", "after", "is_taken"),
    [
        ("MatMul", 0.94, True),
        ("MatMul", 0.96, False),
        ("Gather", 1.005, True),
        ("Gather", 1.5, False),
    ],
)
def test_operators_that_are_not_faster_stay(op_type: str, after: float, is_taken: bool) -> None:
    """An embedding may take longer, if that is little next to all operators."""
    candidate = Candidate("y", "y", "P", op_type, (64, 64))
    measured = Measured(candidate, OperatorCost(before=1.0, after=after))
    assert worthwhile([measured]) == ([measured] if is_taken else [])
    assert worthwhile([measured], float("inf")) == [measured]
    along = Measured(Candidate("z", "z", "P", "Add", (0, 0), reads=("y",)))
    assert worthwhile([along], float("inf")) == worthwhile([along]) == [along]


def test_a_form_that_is_slower_and_errs_more_is_not_worthwhile() -> None:
    first, second = (
        Measured(
            Candidate("y", "y", form, "MatMul", (64, 64)), OperatorCost(1, 1.0, after), (error,)
        )
        for form, after, error in (("F", 0.5, 0.01), ("P", 0.6, 0.02))
    )
    assert worthwhile([first, second]) == [first]


def test_stages_do_not_change() -> None:
    candidate = Candidate("y", "y", "P", "MatMul", (64, 64))
    with pytest.raises(FrozenInstanceError):
        candidate.bits = 8  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Measured(candidate).errors = (0.5,)  # type: ignore[misc]


def test_json_has_what_is_known_and_what_was_measured() -> None:
    candidate = Candidate("y", "n", "P", "MatMul", (64, 32), "w", bits=8, relative_time=0.3)
    found = Measured(candidate, OperatorCost(2048, 2.0, 1.0), (0.125, 0.25)).to_json()
    assert (found["result"], found["shape"], found["relative_time"]) == ("y", [64, 32], 0.3)
    assert (
        found["multiplications"],
        found["float32_seconds"],
        found["quantized_seconds"],
        found["error"],
    ) == (
        2048,
        2.0,
        1.0,
        0.25,
    )
