"""The rows, with the columns and the aggregation of the seed document."""

from itertools import count

import pandas
import pytest

from tests.engine.rules import NegNegPattern, builder, chain, renaming
from tests.support import load
from xoptim.engine import engine
from xoptim.engine.environment import DebugSettings
from xoptim.engine.events import Application, EventStream, Statistics
from xoptim.match.refusal import Refusal

COLUMNS = {
    "pattern",
    "iteration",
    "time_in",
    "instances",
    "match_index",
    "added",
    "removed",
    "exit_point",
}
AGGREGATION = {
    "time_in": "sum", "added": "sum", "removed": "sum", "iteration": "max", "match_index": "max",
    "instances": "sum",
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
def test_aggregation_works_whatever_happened(
    patterns: type[NegNegPattern] | None, operators: tuple[str, ...]
) -> None:
    df = pandas.DataFrame(builder(chain(*operators), patterns, constant_folding=True).optimize())
    for c in df.columns:
        if "time" not in c and "pattern" not in c and "exit_point" not in c:
            df[c] = df[c].fillna(0).astype(int)
    table = df.groupby("pattern").agg(AGGREGATION)
    assert "constant_folding" in table.index
    assert ("apply_NegNeg" in table.index) == (patterns is not None and len(operators) == 3)


def test_where_most_matches_were_refused() -> None:
    gr = builder(
        chain("Exp", "Neg", "Exp", "Neg", "Neg", "Abs"), NegNegPattern, DebugSettings(verbose=10)
    )
    rows = [row for row in gr.optimize() if row["pattern"] == "match_NegNeg" and row["exit_point"]]
    assert rows
    assert all("rules.py:" in row["exit_point"] for row in rows)


def test_listening_to_events() -> None:
    statistics = Statistics()
    stream = EventStream()
    stream.subscribe(statistics, Statistics.kinds)
    graph = load(chain("Neg")).graph
    application = Application(1, NegNegPattern(), next(iter(graph.nodes)), graph, (), ())
    stream.iteration = 4
    stream.send("timed", "a step", seconds=0.5, count=3)
    stream.send("tried", "NegNeg", seconds=1e-9, tried=10)
    for name, file in (
        ("NegNeg", "a.py"),
        ("NegNeg", "b.py"),
        ("NegNeg", "b.py"),
        ("Other", "c.py"),
    ):
        stream.send("refused", name, refusal=Refusal(name, None, "why", file, 1))
    stream.send("tried", "NegNeg", seconds=0.25, count=1, tried=10)
    stream.send(
        "applied",
        "NegNeg",
        seconds=0.125,
        count=1,
        added=(),
        removed=list(graph.nodes),
        application=application,
    )
    rows = [
        (r["pattern"], r["iteration"], r["time_in"], r["removed"], r["exit_point"])
        for r in statistics.rows
    ]
    assert rows == [
        ("a step", 4, 0.5, 3, ""), ("match_NegNeg", 4, 1e-9, 0, ""),
        ("match_NegNeg", 4, 0.25, 0, "b.py:1"), ("apply_NegNeg", 4, 0.125, 1, ""),
    ]  # fmt: skip


def test_which_rows_exist_does_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> list[str]:
        gr = builder(
            chain("Neg", "Neg", "Exp", "Neg", "Abs"), [NegNegPattern, renaming("Exp", "Log")]
        )
        return [row["pattern"] for row in gr.optimize()]

    usual = rows()
    ticks = count(0.0, 100.0)
    monkeypatch.setattr(engine, "perf_counter", lambda: next(ticks))
    assert rows() == usual
