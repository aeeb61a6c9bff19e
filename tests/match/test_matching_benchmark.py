"""The benchmark of the matcher runs, and counts attempts as it should.

Times are none of a test's business.
"""

import pytest

from benchmarks import matching


def test_the_benchmark_measures_every_form() -> None:
    found = matching.attempts(5)
    assert set(found) == set(matching.FORMS)
    for form, times in found.items():
        assert set(times) == (
            {"first", "match"} if form == "OpSub" else {"first", "miss", "late miss", "match"}
        ), form


def test_producers_distinguish_the_patterns() -> None:
    wide = [row for row in matching.growth(400, (4, 12), 1) if row["family"] == "wide"]
    assert [row["patterns"] for row in wide] == [4, 12]
    assert all(row["attempts per Add"] <= 1 for row in wide)


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    matching.show({"text": {"first": 1.25}}, matching.growth(60, (2, 4), 1))
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["text", "1.2", "-", "-", "-"] in shown
    assert [cells[:2] for cells in shown if cells[:1] == ["deep"]] == [["deep", "2"], ["deep", "4"]]
