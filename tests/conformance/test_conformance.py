"""Every conformance case that onnxruntime gets right is right after the optimization, with
constants for inputs too.

A case is optimized here in one of its forms; ``make conformance`` tries all of them.
"""

import logging

import numpy as np
import pytest

from benchmarks.measured import read
from lab.conformance.cases import KINDS, Case, all_cases, with_constants
from lab.conformance.judging import MEANINGS, Outcome, agree, judge, outcomes
from lab.conformance.page import (
    KINDS_TABLE,
    PAGE,
    SKIPPED,
    differences,
    summary,
    tables_of,
    versions,
)
from tests.share import shared_parts
from tests.support import parse

CHUNKS = 16


@pytest.mark.slow
@pytest.mark.parametrize("chunk", shared_parts(CHUNKS, 3, "lab/conformance"))
@pytest.mark.filterwarnings("ignore")
def test_optimized_models_give_the_outputs_of_the_suite(
    chunk: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    found = outcomes(chunk, CHUNKS)
    assert [fault for outcome in found for fault in outcome.faults] == []
    assert sum(not outcome.dropped for outcome in found) > len(found) / 2


def test_the_page_is_consistent() -> None:
    """Its figures are those of one machine; that they add up holds on all."""
    tables = read(PAGE)
    *kinds, total = [list(map(int, row[1:])) for row in tables[KINDS_TABLE].rows]
    dropped = {row["case"]: row["reason"] for row in tables[SKIPPED].dictionaries()}
    assert [sum(column) for column in zip(*kinds, strict=True)] == total
    assert [row[0] for row in tables[KINDS_TABLE].rows] == [*KINDS, "all"]
    assert total[0] - total[1] == len(dropped)
    assert set(dropped.values()) <= {meaning for _, meaning in MEANINGS} | {"other numbers"}
    if versions() in PAGE.read_text(encoding="utf-8"):
        assert total[0] == len(all_cases())
        assert dropped.keys() <= {f"{case.kind}/{case.name}" for case in all_cases()}


def test_pages_that_differ() -> None:
    right, other = Outcome("node/a"), Outcome("node/b", "other numbers")
    tables = tables_of([right, other])
    assert differences(tables, tables) == []
    changed = tables_of([right._replace(dropped="refused: so"), other._replace(dropped="")])
    assert differences(tables, changed) == [
        "node/a: correct on the page, refused here",
        "node/b: other numbers on the page, correct here",
    ]


@pytest.mark.slow
def test_every_kind_is_there() -> None:
    kinds = [case.kind for case in all_cases()]
    assert set(kinds) == set(KINDS)
    assert len(kinds) > 1500
    assert len({(case.kind, case.name) for case in all_cases()}) == len(kinds)


def _case(text: str, feeds: list[np.ndarray], outputs: list[np.ndarray]) -> Case:
    return Case("toy", "toy", parse(text), ((feeds, outputs),))


X = np.array([-1, 2], np.float32)
TEXT = "agraph (float[2] x, float[2] y) => (float[2] z) { a = Add(x, y) z = Relu(a) }"


def test_how_a_case_is_judged() -> None:
    right = judge(_case(TEXT, [X, X], [np.array([0, 4], np.float32)]))
    assert right == Outcome("toy/toy", "", 6)
    assert judge(_case(TEXT, [X, X], [X])).dropped == "other numbers"
    assert [
        judge(_case(TEXT, [X, X], [np.array([0, 4], np.float32)]), form).runs for form in range(4)
    ] == [2, 2, 2, 2]
    unknown = judge(_case("agraph (float[2] x) => (float[2] y) { y = Unheard(x) }", [X], [X]))
    assert unknown.dropped.startswith("unknown operator ")
    tables = tables_of(
        [
            right,
            right._replace(case="node/a", dropped="refused: so"),
            right._replace(case="node/b"),
        ]
    )
    assert tables[SKIPPED].rows == [["node/a", "refused"]]
    assert "3 cases, 2 correct unoptimized, of these 2 correct optimized" in summary(
        [right, right._replace(dropped="refused"), right]
    )


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.optimize", lambda model, **_: parse(TEXT.replace("Relu", "Neg")))
    found = judge(_case(TEXT, [X, X], [np.array([0, 4], np.float32)]))
    assert found.faults[0] == "toy/toy with default: other numbers"


def test_rounding_of_a_rewrite_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of two sums is closer to the suite depends on the processor: a result may be twice as
    far from it.
    """
    text = "agraph (float[2] x) => (float[2] y) <float c = {FACTOR}> { y = Mul(x, c) }"
    case = _case(text.replace("FACTOR", "1.0009"), [X], [X])._replace(rtol=1e-3, atol=0.0)
    for factor, faults in (("1.0019", 0), ("1.0021", 1)):
        monkeypatch.setattr(
            "xoptim.optimize",
            lambda model, factor=factor, **_: parse(text.replace("FACTOR", factor)),
        )
        assert len(judge(case, 0).faults) == faults


def test_inputs_become_constants() -> None:
    case = _case(TEXT, [X, X], [X])
    for spare, names in ((0, []), (1, ["x"])):
        model = with_constants(case, spare=spare)
        assert model is not None
        assert [value.name for value in model.graph.input] == names
    assert with_constants(case, spare=2) is None


def test_what_agrees() -> None:
    half = np.float16(1.0)
    assert agree([X, None], [X, None], 1e-3, 0)
    assert not agree([X], [X, X], 1e-3, 0)
    assert not agree(X, X.astype(np.float64), 1e-3, 0)
    assert not agree(X, X[:1], 1e-3, 0)
    assert agree(np.array(half), np.array(np.nextafter(half, np.float16(2))), 1e-4, 0)
    assert agree(np.array([np.nan]), np.array([np.nan]), 0, 0)
    assert agree({"a": 1.0}, {"a": 1.0}, 0, 0)
    assert agree(np.array(["a"], dtype=object), np.array(["a"], dtype=object), 0, 0)
    assert not agree(np.array([1]), np.array([2]), 9, 9)
