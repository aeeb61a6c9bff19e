"""The choice of products, with errors that are made up."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
import pytest

from xoptim.precision.choosing import cheapest, choose
from xoptim.precision.options import Goal
from xoptim.precision.products import QuantizableOp, with_followers
from xoptim.precision.samples import Samples
from xoptim.precision.trial import Trial


class Errors:
    """Errors whose squares add up.

    Those of the samples that are held out are larger by a factor.
    """

    def __init__(self, products: Iterable[QuantizableOp], factor: float = 1.0) -> None:
        self.alone = {each.form: each.alone for each in products}
        self.factor = factor

    def error(self, rounded: Mapping[str, str], places: Iterable[int]) -> float:
        """The error of a choice."""
        size = float(np.sqrt(sum(self.alone[name, form] ** 2 for name, form in rounded.items())))
        return size * (self.factor if max(places) else 1.0)


def chosen(
    alone: Mapping[str, float],
    tolerance: float,
    *,
    factor: float = 1.0,
    sizes: Mapping[str, int] | None = None,
) -> str:
    """The names that are chosen, in order."""
    work = {name: (sizes or {}).get(name, 100) for name in alone}
    products = [
        QuantizableOp(name, name, "P", "MatMul", (1, 1), work=work[name], alone=error)
        for name, error in alone.items()
    ]
    return "".join(each.result for each in choice(products, tolerance, factor))


def choice(
    products: Sequence[QuantizableOp], tolerance: float, factor: float = 1.0, goal: Goal = "speed"
) -> list[QuantizableOp]:
    """The products that are chosen, with two samples."""
    samples = Samples([{}, {}], are_random=False)
    return choose(cast(Trial, Errors(products, factor)), products, samples, tolerance, goal)


def two_forms(name: str, fast: float, precise: float) -> list[QuantizableOp]:
    """A product with the errors of its two forms, of which one saves 0.7 of the time and the other
    one 0.6.
    """
    return [
        QuantizableOp(name, name, form, "MatMul", (1, 1), work=100, alone=alone, share=share)
        for form, alone, share in (("F", fast, 0.3), ("P", precise, 0.4))
    ]


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


def test_a_choice_whose_errors_cancel_by_chance_is_not_taken() -> None:
    class Lucky(Errors):
        def error(self, rounded: Mapping[str, str], places: Iterable[int]) -> float:
            return super().error(rounded, places) if len(rounded) < 3 else 0.0

    products = [
        QuantizableOp(name, name, "P", "MatMul", (1, 1), work=100, alone=0.01 * (place + 2))
        for place, name in enumerate("abc")
    ]
    found = choose(
        cast(Trial, Lucky(products)), products, Samples([{}, {}], are_random=False), 0.04, "speed"
    )
    assert [each.result for each in found] == ["a", "b"]


def test_forms_that_save_no_bytes_are_not_taken_for_size() -> None:
    """The nodes of a small operator may take more bytes than its weights."""
    products = [
        QuantizableOp("a", "a", "P", "MatMul", (16, 16), alone=0.0, bits=40.0),
        QuantizableOp("b", "b", "P", "MatMul", (16, 16), alone=0.0, bits=33.0),
        QuantizableOp("c", "c", "P", "MatMul", (16, 16), alone=0.01, bits=12.0),
    ]
    assert [each.result for each in choice(products, 0.1, goal="size")] == ["c"]
    assert [each.price("size")[1] for each in products[:2]] == [np.inf, np.inf]


def test_what_is_stored_already_counts() -> None:
    """Constants are stored for what the products that are taken leave of the error."""
    taken = QuantizableOp("a", "a", "P", "MatMul", (16, 16), alone=0.03, bits=8)
    stored = [
        QuantizableOp(name, name, "S", "Mul", (16, 16), name, alone=error, bits=16, is_stored=True)
        for name, error in (("b", 0.02), ("c", 0.035))
    ]
    every = [taken, *stored]
    samples = Samples([{}, {}], are_random=False)
    found = choose(cast(Trial, Errors(every)), stored, samples, 0.04, "size", [taken], every)
    assert [each.result for each in found] == ["b"]


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
    assert with_followers(found, products) == forms


def test_a_form_that_saves_less_and_errs_more_is_never_taken() -> None:
    products = two_forms("a", fast=0.01, precise=0.011)
    assert [
        [each.pattern for each in choice(products, tolerance)] for tolerance in (0.0105, 0.1)
    ] == [["F"], ["F"]]


def test_the_cheapest_of_a_choice_have_the_part_of_the_square() -> None:
    products = [
        each
        for name, error in (("a", 0.03), ("b", 0.04), ("c", 0.12))
        for each in two_forms(name, error, error / 2)
    ]
    # the precise forms first, then the fast ones in their place
    taken = [*products[1::2], *products[::2]]
    assert [each.form for each in cheapest(taken, 1.0)] == [each.form for each in taken[:-1]]
    assert [each.form for each in cheapest(taken, 61 / 169)] == [each.form for each in taken[:-1]]
    assert [each.form for each in cheapest(taken, 42.24 / 169)] == [each.form for each in taken[:2]]
    assert cheapest(taken[:1], 1.0) == []
