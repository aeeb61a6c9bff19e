"""Amounts of bytes as text."""

import pytest

from xoptim.facts.words import byte_amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500", 500),
        ("7 B", 7),
        ("1.5GB", 1_500_000_000),
        ("2 KiB", 2048),
        ("1gib", 1 << 30),
        (" 0 ", 0),
    ],
)
def test_amounts(text: str, amount: int) -> None:
    assert byte_amount(text) == amount


@pytest.mark.parametrize("text", ["", "much", "-1", "1e3", "4 TB", "GB", "10%"])
def test_other_texts(text: str) -> None:
    with pytest.raises(ValueError, match="500kB"):
        byte_amount(text)


def test_shares() -> None:
    assert byte_amount("10%", 250) == 25
    assert byte_amount("10", 250) == 10
    assert byte_amount("0.5%", 1000) == 5
    assert byte_amount("0.5kB", 1000) == 500
