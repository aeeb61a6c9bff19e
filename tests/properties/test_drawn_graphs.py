"""Random graphs of many operators: optimized with everything they stay what they were, and nothing
that was promised breaks.
"""

import logging
from collections.abc import Callable

import pytest

from tests.properties.hunting import hunt
from tests.properties.regressions import save
from tests.share import FOUNDATION, PART, is_whole
from tests.support import in_parts

pytestmark = pytest.mark.slow

GRAPHS, CHUNKS = (600, 6) if is_whole(*FOUNDATION) else (150, 3)
"""How many graphs, and in how many parts; ``make fuzz`` draws others."""
OPERATORS = 40


@in_parts("chunk", CHUNKS)
@pytest.mark.filterwarnings("ignore")
def test_random_graphs_stay_what_they_are(
    chunk: int, caplog: pytest.LogCaptureFixture, record_property: Callable[[str, object], None]
) -> None:
    """The histogram of operators is in the report of properties."""
    caplog.set_level(logging.ERROR)
    found = hunt(chunk + CHUNKS * PART, GRAPHS // CHUNKS)
    if found.failure is not None:
        pytest.fail(f"{found.fault}\nkept in {save(found.failure, found.fault)}", pytrace=False)
    assert found.graphs > found.not_run * 4
    record_property(
        "operators", ", ".join(f"{name} {number}" for name, number in found.operators.most_common())
    )
    assert len(found.operators) >= OPERATORS
