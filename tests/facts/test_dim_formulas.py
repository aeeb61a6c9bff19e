"""Formulas in place of names of dimensions."""

import pytest

from xoptim.facts.dim_formulas import formula_of, size_in
from xoptim.facts.dims import named

PAST, SEQ = named("past"), named("seq")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("past + seq", PAST + SEQ),
        ("seq+past", PAST + SEQ),
        ("2*past - seq", 2 * PAST - SEQ),
        ("(past + 1) // 2", (PAST + 1) // 2),
        ("past - past + 4", 4),
        ("2", 2),
        ("4096", 4096),
    ],
)
def test_formulas(text: str, size: object) -> None:
    assert formula_of(text) is size or formula_of(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "past",
        "batch-size",
        "0",
        "-1",
        "1 - 5",
        "past - past",
        "²",
        "99999999999999999999",
        "",
        "2\\*(N+1",
        "max(a + 1, 2)",
        "a + 1.5",
        "a // 0",
        "a[0] + b",
        "a + b; c",
        "+" * 300,
        "a.b * 2",
        "*",
    ],
)
def test_names(text: str) -> None:
    assert formula_of(text) is None


def test_a_formula_of_other_names_is_a_name() -> None:
    assert size_in("past + seq", ["past", "seq", "batch"]) == PAST + SEQ
    assert size_in("past + seq", ["past", "past + seq"]) is None
