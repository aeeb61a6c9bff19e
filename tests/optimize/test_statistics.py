"""The rows, with the columns and the aggregation of the seed document."""

from __future__ import annotations

import pandas
import pytest

from tests.optimize.rules import NegNegPattern, builder, chain, renaming
from xoptim.match.refusal import Refusal
from xoptim.optimize.environment import DebugSettings
from xoptim.optimize.statistics import Statistics

COLUMNS = {"pattern", "iteration", "time_in", "instances", "match_index", "added", "removed", "exit_point"}
AGGREGATION = {
    "time_in": "sum", "added": "sum", "removed": "sum", "iteration": "max", "match_index": "max", "instances": "sum",
}  # fmt: skip


def test_rows() -> None:
    gr = builder(chain("Neg", "Neg", "Exp", "Neg", "Neg"), [NegNegPattern, renaming("Exp", "Log")])
    frame = pandas.DataFrame(gr.optimize())
    assert set(frame.columns) >= COLUMNS
    assert not frame.isna().any().any()
    applied = frame[frame.pattern.str.startswith("apply_")]
    assert applied.pattern.tolist() == ["apply_ExpToLog", "apply_NegNeg", "apply_NegNeg"]
    assert applied.match_index.tolist() == [1, 2, 3]
    assert applied.added.tolist() == [1, 1, 1]
    assert applied.removed.tolist() == [1, 2, 2]
    matched = frame[frame.pattern == "match_NegNeg"]
    assert matched.instances.sum() == 2
    assert matched.tried.sum() >= 2
    assert {"iteration", "insert_and_remove_nodes", "remove_unused"} <= set(frame.pattern)
    assert (frame.time_in >= 0).all()
    rounds = frame[frame.pattern == "iteration"]
    assert rounds.iteration.tolist() == list(range(1, len(rounds) + 1))


@pytest.mark.parametrize("patterns", [None, NegNegPattern])
@pytest.mark.parametrize("operators", [("Exp",), ("Neg", "Neg", "Abs")])
def test_aggregation_works_whatever_happened(patterns: type[NegNegPattern] | None, operators: tuple[str, ...]) -> None:
    df = pandas.DataFrame(builder(chain(*operators), patterns, constant_folding=True).optimize())
    for c in df.columns:
        if "time" not in c and "pattern" not in c and "exit_point" not in c:
            df[c] = df[c].fillna(0).astype(int)
    table = df.groupby("pattern").agg(AGGREGATION)
    assert "constant_folding" in table.index
    assert ("apply_NegNeg" in table.index) == (patterns is not None and len(operators) == 3)


def test_where_most_matches_were_refused() -> None:
    gr = builder(chain("Exp", "Neg", "Exp", "Neg", "Neg", "Abs"), NegNegPattern, DebugSettings(verbose=10))
    rows = [row for row in gr.optimize() if row["pattern"] == "match_NegNeg" and row["exit_point"]]
    assert rows
    assert all("rules.py:" in row["exit_point"] for row in rows)


def test_counting_by_hand() -> None:
    statistics = Statistics()
    pattern = NegNegPattern()
    statistics.iteration = 4
    statistics.step("a step", 0.5, 3)
    statistics.matching(pattern, 1e-6, 0, 10)
    statistics.refused(Refusal("NegNeg", None, "why", "a.py", 1))
    for _ in range(2):
        statistics.refused(Refusal("NegNeg", None, "why", "b.py", 2))
    statistics.refused(Refusal("Other", None, "why", "c.py", 3))
    statistics.matching(pattern, 0.25, 1, 10)
    statistics.applied(pattern, 0.125, 1, 2)
    rows = [(r["pattern"], r["iteration"], r["time_in"], r["removed"], r["exit_point"]) for r in statistics.rows]
    assert rows == [
        ("a step", 4, 0.5, 3, ""), ("match_NegNeg", 4, 0.25, 0, "b.py:2"), ("apply_NegNeg", 4, 0.125, 2, ""),
    ]  # fmt: skip
    assert statistics.counts == {"NegNeg": 1}
