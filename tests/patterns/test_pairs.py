"""Every ordered pair of patterns in one model: they do not undo each other, and their order does not change the numbers.

All pairs are applied together, to their fixed point, and all tables of the graph are checked; a fixed share of the pairs,
spread evenly over both patterns, is run in each order and compared. ``make pairs`` compares all of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support import verify
from xoptim import Rewrite, installed_patterns
from xoptim.testing.pairs import PairCheck, have_a_common_opset

PATTERNS = [cls for cls in installed_patterns().values() if cls.__module__.startswith("xoptim.patterns.")]
SHARE = 1 if os.environ.get("PAIRS") == "all" else 31
"""One pair in so many is compared, a prime number, so that each pattern meets others on either side."""


@pytest.fixture(scope="module")
def counts(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """The pairs that were tried; shown at the end."""
    found: Counter[str] = Counter()
    yield found
    request.config.get_terminal_writer().line("\n" + ", ".join(f"{n} {name}" for name, n in sorted(found.items())))


@pytest.mark.slow
@pytest.mark.parametrize("first", PATTERNS, ids=[cls.name() for cls in PATTERNS])
def test_pairs(first: type[Rewrite], counts: Counter[str]) -> None:
    check = PairCheck(PATTERNS, verify)
    row = PATTERNS.index(first)
    failures = [
        failure
        for column, second in enumerate(PATTERNS)
        for failure in check.check(first, second, numbers=(5 * row + column) % SHARE == 0)
    ]
    counts.update(check.counts)
    assert not failures, f"{len(failures)} failures\n" + "\n\n".join(failures[:3])
    assert check.counts["pairs"] == len(PATTERNS)
    assert check.counts["splices"] + check.counts["mirrored"] + check.counts["apart"] >= len(PATTERNS)
    apart = [cls for cls in PATTERNS if first.name() <= cls.name() and not have_a_common_opset(first, cls)]
    assert check.counts["apart"] == len(apart), "no operator set has both"
    assert check.counts["unrun"] <= check.counts["compared"] + 1


def test_the_share_is_spread() -> None:
    """In the share that is always compared each pattern meets several others, as the first and as the second one."""
    size, share = len(PATTERNS), 31
    chosen = [(row, column) for row in range(size) for column in range(size) if (5 * row + column) % share == 0]
    assert len(chosen) > size * size // (share + 1)
    for side in range(2):
        assert min(Counter(pair[side] for pair in chosen).values()) >= size // share
