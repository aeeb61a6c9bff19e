"""The choice of MatMuls, with errors that are made up."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
import pytest

from xoptim.precision.candidates import Candidate, with_dependents
from xoptim.precision.choices import Decision, cheapest, choices_of, choose
from xoptim.precision.measured import Measured, OperatorCost
from xoptim.precision.options import Goal
from xoptim.precision.reference import Errors
from xoptim.precision.samples import Samples
from xoptim.precision.switched_session import SwitchedSession


class AddedErrors:
    """Errors whose squares add up.

    Those of the samples that are held out are larger by a factor.
    """

    def __init__(self, measured: Iterable[Measured], factor: float = 1.0) -> None:
        self.alone = {each.form: each.error for each in measured}
        self.factor = factor

    def errors(self, rounded: Mapping[str, str], places: Iterable[int]) -> Errors:
        """The error of a choice."""
        size = float(np.sqrt(sum(self.alone[name, form] ** 2 for name, form in rounded.items())))
        return (size * (self.factor if max(places) else 1.0),)


def chosen(
    alone: Mapping[str, float],
    tolerance: float,
    *,
    factor: float = 1.0,
    sizes: Mapping[str, int] | None = None,
) -> str:
    """The names that are chosen, in order."""
    work = {name: (sizes or {}).get(name, 100) for name in alone}
    measured = [product(name, "P", error, work[name]) for name, error in alone.items()]
    return "".join(each.result for each in choice(measured, tolerance, factor))


def choice(
    measured: Sequence[Measured], tolerance: float, factor: float = 1.0, goal: Goal = "speed"
) -> list[Measured]:
    """The operators that are chosen, with two samples."""
    session = cast(SwitchedSession, AddedErrors(measured, factor))
    return choose(session, measured, Samples([{}, {}], are_random=False), tolerance, goal)


def product(
    name: str, form: str, error: float, work: int = 100, relative_time: float = 0.0
) -> Measured:
    """A MatMul that adds an error alone."""
    candidate = Candidate(name, name, form, "MatMul", (1, 1), relative_time=relative_time)
    return Measured(candidate, OperatorCost(work), (error,))


def matrix(name: str, error: float, bits: float) -> Measured:
    """A MatMul by 256 numbers, which take some bits in the file."""
    return Measured(Candidate(name, name, "P", "MatMul", (16, 16), bits=bits), errors=(error,))


def constant(name: str, error: float) -> Measured:
    """A constant that is stored in 16 bits."""
    candidate = Candidate(
        name, name, "S", "Mul", (16, 16), name, bits=16, element_bits=16, is_weight_only=True
    )
    return Measured(candidate, errors=(error,))


def two_forms(name: str, fast: float, precise: float) -> list[Measured]:
    """A MatMul with the errors of its two forms, of which one saves 0.7 of the time and the other
    one 0.6.
    """
    return [product(name, "F", fast, 100, 0.3), product(name, "P", precise, 100, 0.4)]


def test_all_are_taken_within_the_tolerance() -> None:
    assert chosen({"a": 0.03, "b": 0.04}, 0.06) == "ab"


def test_cheapest_are_taken() -> None:
    assert chosen({"a": 0.04, "b": 0.01, "c": 0.02}, 0.03) == "bc"


def test_size_counts() -> None:
    assert chosen({"a": 0.04, "b": 0.03}, 0.045, sizes={"a": 400}) == "a"


def test_a_product_later_in_the_order_may_still_fit() -> None:
    assert (
        chosen({"a": 0.03, "b": 0.05, "c": 0.01}, 0.04, sizes={"a": 900, "b": 2500, "c": 90})
        == "ac"
    )


@pytest.mark.parametrize(("factor", "found"), [(1.0, "abc"), (1.5, "ab"), (10.0, "")])
def test_held_out_samples_keep_the_tolerance_too(factor: float, found: str) -> None:
    assert chosen({"a": 0.01, "b": 0.011, "c": 0.02}, 0.025, factor=factor) == found


def test_what_errs_on_held_out_samples_makes_room_for_others() -> None:
    """The first operator errs there, and all are dropped before it."""

    class FirstErrs(AddedErrors):
        def errors(self, rounded: Mapping[str, str], places: Iterable[int]) -> Errors:
            (error,) = super().errors(rounded, places)
            return (1.0 if "a" in rounded and max(places) else error,)

    measured = [product(name, "P", 0.001) for name in "abc"]
    session = cast(SwitchedSession, FirstErrs(measured))
    forms = choose(session, measured, Samples([{}, {}], are_random=False), 0.01, "speed")
    assert [form.result for form in forms] == ["b", "c"]


def test_a_choice_whose_errors_cancel_by_chance_is_not_taken() -> None:
    class Lucky(AddedErrors):
        def errors(self, rounded: Mapping[str, str], places: Iterable[int]) -> Errors:
            return super().errors(rounded, places) if len(rounded) < 3 else (0.0,)

    products = [product(name, "P", 0.01 * (index + 2)) for index, name in enumerate("abc")]
    session = cast(SwitchedSession, Lucky(products))
    found = choose(session, products, Samples([{}, {}], are_random=False), 0.04, "speed")
    assert [each.result for each in found] == ["a", "b"]


def test_forms_that_save_no_bytes_are_not_taken_for_size() -> None:
    """The nodes of a small operator may take more bytes than its weights."""
    products = [
        matrix("a", 0.0, 40.0),
        matrix("b", 0.0, 33.0),
        matrix("c", 0.01, 12.0),
    ]
    assert [each.result for each in choice(products, 0.1, goal="size")] == ["c"]
    assert [each.price("size")[1] for each in products[:2]] == [np.inf, np.inf]


def test_what_is_stored_already_counts() -> None:
    """Constants are stored for what the MatMuls that are taken leave of the error."""
    taken, stored = matrix("a", 0.03, 8), [constant("b", 0.02), constant("c", 0.035)]
    every = [taken, *stored]
    samples = Samples([{}, {}], are_random=False)
    session = cast(SwitchedSession, AddedErrors(every))
    found = choose(session, stored, samples, 0.04, "size", [taken], every)
    assert [each.result for each in found] == ["b"]


ALL = [
    *two_forms("a", 0.02, 0.01),
    Measured(Candidate("b", "b", "P", "MatMul", (1, 1)), OperatorCost(before=1.0, after=2.0)),
    Measured(Candidate("r", "r", "E", "Relu", (0, 0), reads=("a",))),
    Measured(Candidate("a", "a", "S", "MatMul", (1, 1), "w", is_weight_only=True)),
]
"""Two forms of an operator, a slower operator, one that is quantized with its input, a constant."""


@pytest.mark.parametrize(
    ("applied", "decisions"),
    [
        (
            {"a": "P", "r": "E"},
            ["another form", "quantized", "not faster", "quantized", "another form"],
        ),
        (
            {"a": "S"},
            ["error or bytes"] * 2 + ["not faster", "an input in float32", "quantized"],
        ),
        (
            {"b": "P"},
            ["error or bytes"] * 2 + ["quantized", "an input in float32", "error or bytes"],
        ),
    ],
)
def test_each_decision_has_a_reason(applied: dict[str, str], decisions: list[Decision]) -> None:
    assert [each.decision for each in choices_of(ALL, applied, is_timed=True)] == decisions


def test_times_are_no_reason_where_bytes_count() -> None:
    found = choices_of(ALL, {}, is_timed=False)
    assert {each.decision for each in found} == {"error or bytes", "an input in float32"}
    assert not any(each.is_quantized for each in found)


def test_nothing_fits() -> None:
    assert chosen({"a": 0.5}, 0.01) == ""


@pytest.mark.parametrize(
    ("tolerance", "forms"),
    [
        (0.07, {"a": "F", "b": "F"}),
        (0.045, {"a": "P", "b": "F"}),
        (0.021, {"a": "P", "b": "P"}),
        (0.011, {"b": "P"}),
    ],
)
def test_the_form_that_saves_less_is_taken_where_the_other_one_errs_too_much(
    tolerance: float, forms: dict[str, str]
) -> None:
    products = [*two_forms("a", fast=0.06, precise=0.015), *two_forms("b", fast=0.03, precise=0.01)]
    found = choice(products, tolerance)
    every = [each.candidate for each in products]
    assert with_dependents((each.candidate for each in found), every) == forms


def test_a_form_that_saves_less_and_errs_more_is_never_taken() -> None:
    products = two_forms("a", fast=0.01, precise=0.011)
    assert [
        [each.candidate.pattern for each in choice(products, tolerance)]
        for tolerance in (0.0105, 0.1)
    ] == [["F"], ["F"]]


def test_the_cheapest_of_a_choice_have_the_part_of_the_square() -> None:
    products = [
        each
        for name, error in (("a", 0.03), ("b", 0.04), ("c", 0.12))
        for each in two_forms(name, error, error / 2)
    ]
    # the precise forms first, then the fast ones in their place
    taken = [*products[1::2], *products[::2]]
    assert [each.form for each in cheapest(taken, [1.0])] == [each.form for each in taken[:-1]]
    assert [each.form for each in cheapest(taken, [61 / 169])] == [each.form for each in taken[:-1]]
    assert [each.form for each in cheapest(taken, [42.24 / 169])] == [
        each.form for each in taken[:2]
    ]
    assert cheapest(taken[:1], [1.0]) == []
