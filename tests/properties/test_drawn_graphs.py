"""Random graphs of many operators: optimized with everything they stay what they were, and nothing that was promised breaks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from tests.properties.hunting import Hunt, hunt
from tests.properties.regressions import save
from tests.support import in_parts

GRAPHS, CHUNKS = 1000, 10
OPERATORS = 60


@cache
def _hunted(chunk: int) -> Hunt:
    return hunt(chunk, GRAPHS // CHUNKS)


@in_parts("chunk", CHUNKS)
@pytest.mark.filterwarnings("ignore")
def test_random_graphs_stay_what_they_are(chunk: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    found = _hunted(chunk)
    if found.failure is not None:
        pytest.fail(f"{found.fault}\nkept in {save(found.failure, found.fault)}", pytrace=False)
    assert found.graphs > found.not_run * 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_operators_are_drawn(caplog: pytest.LogCaptureFixture, record_property: Callable[[str, object], None]) -> None:
    """The histogram is in the log of the test and in the report of properties."""
    caplog.set_level(logging.ERROR)
    counts = sum((_hunted(chunk).operators for chunk in range(CHUNKS)), Counter[str]())
    caplog.set_level(logging.INFO)
    text = ", ".join(f"{name} {number}" for name, number in counts.most_common())
    record_property("operators", text)
    logging.getLogger(__name__).info("graphs with each of %d operators: %s", len(counts), text)
    assert len(counts) >= OPERATORS
