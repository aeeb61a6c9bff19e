"""Figures of reports as text."""

import pytest

from tests.support import load
from xoptim.bench.measure import OperatorTime
from xoptim.bench.options import BenchOptions
from xoptim.bench.rounds import BenchReport, Interval, ModelTimes, Ratio
from xoptim.reporting.drawing import Drawing, draw
from xoptim.reporting.reports_facts import Card, ReportSubject, facts_of
from xoptim.verification.judging.compare import Comparison
from xoptim.verification.judging.report import RunReport, VerificationReport


@pytest.fixture
def drawings() -> tuple[Drawing, Drawing]:
    """Three nodes, and one."""
    before = load("agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) y = Exp(b) }")
    return draw(before), draw(load("agraph (float[n] x) => (float[n] y) { y = Exp(x) }"))


def test_without_measurements(drawings: tuple[Drawing, Drawing]) -> None:
    facts = facts_of(
        ReportSubject(title="a.onnx", result="b.onnx", sizes=(2000, 1000), exactness="exact"),
        *drawings,
    )
    assert facts.cards == [
        Card("nodes", "3 → 1", "−67 %"),  # noqa: RUF001
        Card("size", "2.0 kB → 1.0 kB", "−50 %"),  # noqa: RUF001
        Card("exactness", "exact"),
    ]
    assert (facts.status, facts.verdict) == ("not compared", "unknown")
    assert [(row.name, row.before, row.after) for row in facts.operators] == [
        ("Neg", 2, 0),
        ("Exp", 1, 1),
        ("all operators", 3, 1),
    ]
    assert not facts.has_times


def test_measurements(drawings: tuple[Drawing, Drawing]) -> None:
    times = [
        ModelTimes("a", 0.002, 0.001, 0.0, 9, None),
        ModelTimes("b", 0.001, 0.001, 0.0, 9, None, Ratio(0.5, Interval(0.4, 0.6))),
    ]
    subject = ReportSubject(
        title="a",
        result="b",
        latency=BenchReport(tuple(times), {"n": 3}, BenchOptions()),
        operators=[
            {
                "Neg": OperatorTime(0.001, 2),
                "Exp": OperatorTime(0.001, 1),
                "Abs": OperatorTime(0.001, 1),
            },
            {"Exp": OperatorTime(0.001001, 1), "Abs": OperatorTime(0.001, 1)},
        ],
    )
    facts = facts_of(subject, *drawings)
    assert Card("time of a run", "2.000 ms → 1.000 ms", "× 0.500 (0.400 to 0.600)") in facts.cards  # noqa: RUF001
    negate, exponent, absolute, _ = facts.operators
    assert (negate.times, negate.trend) == (("1.000", "", "−1.000"), "less")  # noqa: RUF001
    assert (exponent.times, exponent.trend) == (
        ("1.000", "1.001", "+0.001"),
        "",
    ), "a change of less than a hundredth"
    assert absolute.times == ("1.000", "1.000", "0.000")
    assert "n=3" in facts.times_note


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("equal", "equal"), ("different", "different"), ("not verified", "unknown")],
)
def test_verdicts(drawings: tuple[Drawing, Drawing], status: str, verdict: str) -> None:
    run = RunReport("random", {"n": 3}, 0, 0.0, 0.0, (Comparison("y", max_abs=0.25, max_rel=0.5),))
    report = VerificationReport(status, "a reason", runs=(run,))  # type: ignore[arg-type]
    facts = facts_of(ReportSubject(title="a", result="b", verification=[report]), *drawings)
    assert (facts.status, facts.verdict) == (status, verdict)
    assert facts.outputs == [("y", "n=3", "0.25", "0.5", "equal")]
    assert facts.verified[0] == ("cpu", report.summary())
