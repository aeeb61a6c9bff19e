"""The benchmark of the matcher runs, and counts attempts as it should; times are none of a test's business."""

import json

import pytest

from benchmarks import matching


def test_the_benchmark_reports_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    matching.main(["--quick", "--json", "--patterns", "4,12"])
    report = json.loads(capsys.readouterr().out)
    assert set(report["attempts"]) == set(matching.FORMS)
    for form, times in report["attempts"].items():
        assert set(times) == ({"first", "match"} if form == "OpSub" else {"first", "miss", "deep", "match"}), form
    wide = [row for row in report["growth"] if row["family"] == "wide"]
    assert [row["patterns"] for row in wide] == [4, 12]
    assert all(row["attempts per addition"] <= 1 for row in wide), "producers distinguish the patterns"


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    matching.show(
        {"attempts": {"text": {"first": 1.25}}, "growth": matching.growth(60, (2, 4), 1), "ratios": {"wide": {"x": 1.5}}}
    )
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines() if line.startswith("text")] == [["text", "1.2", "-", "-", "-"]]
    assert "4 patterns / 2 patterns; 2 is linear" in shown
