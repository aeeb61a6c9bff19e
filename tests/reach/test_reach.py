"""No rewrite of the page is lost."""

import pytest

from lab.reach.page import TARGET, operators, page, reached, rows, themes
from lab.reach.rows import Row
from lab.reach.suites import CAUSES, SUITES
from tests.support import in_parts
from xoptim.testing import make_all_feeds, same_numbers

_PARTS = 8
ROWS = list(rows())


@in_parts("part", _PARTS)
def test_each_row_is_covered(part: int) -> None:
    for key, row in ROWS[part::_PARTS]:
        result = reached(row)
        assert operators(result.after) == row.after, key
        assert set(row.by) <= set(result.by), key
        assert (
            same_numbers(
                result.before, result.after, make_all_feeds(result.before, ()), "rounding"
            ).difference
            == ""
        ), key


def test_the_page_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_each_row_is_there_once() -> None:
    words = [row.rewrite for _, row in ROWS] + [
        row.rewrite for theme in themes() for row in theme.refused
    ]
    assert len(set(words)) == len(words)
    assert len({(row.model, row.opset) for _, row in ROWS}) == len(ROWS)


def test_each_model_with_more_nodes_has_a_cause() -> None:
    for suite in SUITES:
        peer = suite.peer.split()[0]
        assert sum(cause.models.get(peer, 0) for cause in CAUSES) == suite.models - suite.after, (
            peer
        )


def test_a_lost_cover_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row(
        "nothing",
        "agraph (float[a] x) => (float[a] y) { y = Relu(x) }",
        "Relu",
        ("ReluReluPattern",),
    )
    monkeypatch.setattr("tests.reach.test_reach.ROWS", [("0", row)])
    with pytest.raises(AssertionError):
        test_each_row_is_covered(0)
