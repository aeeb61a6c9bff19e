"""The choice of products, with errors that are made up."""

from collections.abc import Collection, Iterable, Mapping
from typing import cast

import numpy as np
import pytest

from xoptim.precision.choosing import choose
from xoptim.precision.products import Product
from xoptim.precision.samples import Samples
from xoptim.precision.trial import Trial


class Errors:
    """Errors whose squares add up; those of the samples that are held out are larger by a factor."""

    def __init__(self, alone: Mapping[str, float], factor: float = 1.0) -> None:
        self.alone = alone
        self.factor = factor

    def error(self, rounded: Collection[str], places: Iterable[int]) -> float:
        """The error of a choice."""
        size = float(np.sqrt(sum(self.alone[name] ** 2 for name in rounded)))
        return size * (self.factor if max(places) else 1.0)


def chosen(alone: Mapping[str, float], tolerance: float, *, factor: float = 1.0, sizes: Mapping[str, int] | None = None) -> str:
    """The names that are chosen, in order."""
    work = {name: (sizes or {}).get(name, 100) for name in alone}
    products = [Product(name, name, "P", "MatMul", (1, 1), work=work[name], alone=error) for name, error in alone.items()]
    samples = Samples([{}, {}], are_random=False)
    trial = cast(Trial, Errors(alone, factor))
    return "".join(each.result for each in choose(trial, products, samples, tolerance))


def test_all_are_taken_within_the_tolerance() -> None:
    assert chosen({"a": 0.03, "b": 0.04}, 0.06) == "ab"


def test_cheapest_are_taken() -> None:
    assert chosen({"a": 0.04, "b": 0.01, "c": 0.02}, 0.03) == "bc"


def test_size_counts() -> None:
    assert chosen({"a": 0.04, "b": 0.03}, 0.045, sizes={"a": 400}) == "a"


def test_a_product_later_in_the_order_may_still_fit() -> None:
    assert chosen({"a": 0.03, "b": 0.05, "c": 0.01}, 0.04, sizes={"a": 900, "b": 2500, "c": 90}) == "ac"


@pytest.mark.parametrize(("factor", "found"), [(1.0, "abc"), (1.5, "ab"), (10.0, "")])
def test_held_out_samples_keep_the_tolerance_too(factor: float, found: str) -> None:
    assert chosen({"a": 0.01, "b": 0.011, "c": 0.02}, 0.025, factor=factor) == found


def test_nothing_fits() -> None:
    assert chosen({"a": 0.5}, 0.01) == ""
