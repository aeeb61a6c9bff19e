"""Every ordered pair of patterns in one model: they do not undo each other, and their order does
not change the numbers.

The number of pairs grows with the square of the catalogue, so that a fixed share of them, spread
evenly over both patterns, is applied together, to their fixed point, and all tables of the graph
are checked; a smaller share is run in each order and compared. ``make pairs`` compares all pairs.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.loaded import commits
from tests.support import verify
from tests.testing.pairs import PairCheck, have_a_common_opset
from xoptim import Rewrite, installed_patterns
from xoptim.match.quantization import QuantizationPattern

PATTERNS = [
    cls
    for cls in installed_patterns().values()
    if cls.is_shipped() and not issubclass(cls, QuantizationPattern)
]
"""All but those that round operands, which change numbers by more than a tolerance of rounding."""
CATALOGUE = [cls for cls in PATTERNS if cls.phase != "lower"]
"""All that a selection can hold next to others: a lowering takes apart what others write, in each
run again.
"""
APPLIED, COMPARED = 17, 149
"""One pair in so many is applied, and compared: prime numbers, so that each pattern meets others on
either side.
"""
ALL = os.environ.get("PAIRS") == "all"
TURN = commits()
"""Moves the pairs on after each commit, so that all are checked in turn."""


def is_applied(row: int, column: int) -> bool:
    return ALL or (2 * row + column + TURN) % APPLIED == 0 or is_compared(row, column)


def is_compared(row: int, column: int) -> bool:
    return ALL or (5 * row + column + TURN) % COMPARED == 0


@pytest.fixture(scope="module")
def counts(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """The pairs that were tried; shown at the end."""
    found: Counter[str] = Counter()
    yield found
    request.config.get_terminal_writer().line(
        "\n" + ", ".join(f"{n} {name}" for name, n in sorted(found.items()))
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", PATTERNS, ids=[cls.name() for cls in PATTERNS])
def test_pairs(first: type[Rewrite], counts: Counter[str]) -> None:
    check = PairCheck(CATALOGUE, verify)
    row = PATTERNS.index(first)
    others = {column: second for column, second in enumerate(PATTERNS) if is_applied(row, column)}
    failures = [
        failure
        for column, second in others.items()
        for failure in check.check(first, second, numbers=is_compared(row, column))
    ]
    counts.update(check.counts)
    assert not failures, f"{len(failures)} failures\n" + "\n\n".join(failures[:3])
    assert check.counts["pairs"] == len(others)
    assert check.counts["splices"] + check.counts["mirrored"] + check.counts["apart"] >= len(others)
    apart = [
        cls
        for cls in others.values()
        if first.name() <= cls.name() and not have_a_common_opset(first, cls)
    ]
    assert check.counts["apart"] == len(apart), "no operator set has both"
    assert check.counts["unrun"] <= check.counts["compared"] + 1


@pytest.mark.parametrize(("chosen", "share"), [(is_applied, APPLIED), (is_compared, COMPARED)])
def test_the_share_is_spread(chosen: Callable[[int, int], bool], share: int) -> None:
    """Each pattern meets several others, as the first and as the second one."""
    size = len(PATTERNS)
    pairs = [(row, column) for row in range(size) for column in range(size) if chosen(row, column)]
    assert len(pairs) > size * size // (share + 1)
    for side in range(2):
        assert min(Counter(pair[side] for pair in pairs).values()) >= size // share
