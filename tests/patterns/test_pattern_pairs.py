"""Every ordered pair of patterns in one model: they do not undo each other, and their order does
not change the numbers.

The number of pairs grows with the square of the catalogue. A run applies a share of them together,
to their fixed point, and checks all tables of the graph. A smaller share is run in each order and
compared, with all pairs of the patterns that differ from ``CHANGED_SINCE``. ``make pairs`` compares
all.
"""

from collections import Counter

import pytest

from tests.changes import is_touched
from tests.share import is_in_share
from tests.support import verify
from tests.testing.pairs import PairCheck, have_a_common_opset
from xoptim import Rewrite, installed_patterns
from xoptim.match.quantization import QuantizationPattern

PATTERNS = [
    cls
    for cls in installed_patterns().values()
    if cls.is_shipped() and not issubclass(cls, QuantizationPattern)
]
"""All but those that quantize operands, which change numbers beyond rounding."""
CATALOGUE = [cls for cls in PATTERNS if cls.phase != "lower"]
"""All that a selection can hold next to others: a lowering takes apart what others write, in each
run again.
"""
APPLIED, COMPARED = 150, 1500
"""One pair in so many is applied, and compared."""


def is_compared(first: type[Rewrite], second: type[Rewrite]) -> bool:
    """Whether a run compares the numbers of a pair."""
    name = f"{first.name()} {second.name()}"
    return is_in_share(name, COMPARED) or is_touched(first) or is_touched(second)


def is_applied(first: type[Rewrite], second: type[Rewrite]) -> bool:
    """Whether a run applies both patterns of a pair; those that are compared are among them."""
    return is_in_share(f"{first.name()} {second.name()}", APPLIED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(cls, id=cls.name(), marks=pytest.mark.xdist_group(f"pairs of {cls.name()}"))
        for cls in PATTERNS
    ],
)
def test_pairs(first: type[Rewrite]) -> None:
    check = PairCheck(CATALOGUE, verify)
    compared = [second for second in PATTERNS if is_compared(first, second)]
    applied = [cls for cls in PATTERNS if is_applied(first, cls) and cls not in compared]
    failures = [failure for second in compared for failure in check.check(first, second)]
    failures += [
        failure for second in applied for failure in check.check(first, second, numbers=False)
    ]
    assert not failures, f"{len(failures)} failures\n" + "\n\n".join(failures[:3])
    pairs = len(compared) + len(applied)
    assert check.counts["pairs"] == pairs
    assert check.counts["splices"] + check.counts["mirrored"] + check.counts["apart"] >= pairs
    apart = [
        cls
        for cls in (*compared, *applied)
        if first.name() <= cls.name() and not have_a_common_opset(first, cls)
    ]
    assert check.counts["apart"] == len(apart), "no operator set has both"
    assert check.counts["unrun"] <= check.counts["compared"] + 1


def test_each_pattern_meets_another() -> None:
    """The share is spread over the patterns, on either side of a pair."""
    pairs = [(a.name(), b.name()) for a in PATTERNS for b in PATTERNS if is_applied(a, b)]
    assert len(pairs) > len(PATTERNS) ** 2 / APPLIED / 1.2
    for side in range(2):
        met = Counter(pair[side] for pair in pairs)
        assert len(met) > 0.8 * len(PATTERNS)
        assert max(met.values()) < len(PATTERNS) / 8 or len(pairs) == len(PATTERNS) ** 2
